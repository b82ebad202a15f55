"""The producer for threads.

    with Producer("shop", nameserver="127.0.0.1:9876") as producer:
        print(producer.send(Message("orders", b"...", tags="created", keys="42")))

`send` asks the broker on a socket of the calling thread. `send_async` and the heartbeats run on the loop thread,
in a producer of `rocketeer.aio` that this one hosts. In a forked child the producer connects anew.
"""

import asyncio
import contextlib
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, Unpack

from rocketeer.client.aio import producer as aio
from rocketeer.client.core.config import ProducerConfig, ProducerOptions
from rocketeer.client.core.hooks import SendHook, SendMode
from rocketeer.client.core.in_flight import InFlight, oneway_in_flight
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.core.selectors import Selector
from rocketeer.client.core.send_result import SendResult
from rocketeer.client.lifetime import Started
from rocketeer.client.plans.effects import Plan
from rocketeer.client.plans.lookups import COUNT_MAX
from rocketeer.client.plans.queries import FOREVER_MS
from rocketeer.client.plans.send import chooser
from rocketeer.client.sync import forking
from rocketeer.client.sync.driver import BlockingDriver
from rocketeer.client.sync.loop_thread import LoopThread
from rocketeer.client.sync.send_limit import ThreadSendLimit
from rocketeer.clock import Clock
from rocketeer.errors import ClientClosed, ClientError
from rocketeer.model.message import Message
from rocketeer.model.queue import MessageQueue

GOODBYES_S: Final = 3.0
"""Leaving has at least this much time, even when waiting for answers took all there was."""
START_S: Final = 10.0
"""Time limit of a start, which waits for an HTTP address server at most."""


class Producer(Started):
    """Sends messages; one is enough for a whole application, threads share it.

    Options are the fields of `ProducerConfig`.
    """

    def __init__(
        self,
        group: str,
        *,
        hooks: Sequence[SendHook] = (),
        clock: Clock | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        self.config = ProducerConfig(group, **options)
        self._make: Callable[[], aio.Producer] = partial(
            aio.Producer, group, hooks=tuple(hooks), clock=clock, **options
        )
        self._link: _Link | None = None
        self._guard = threading.Lock()
        self._closed = False
        forking.register(self)

    def start(self) -> None:
        """Get ready to send; raises NoNameServer when no address is known. The first send does it too."""
        self._closed = False
        self._started()

    def close(self) -> None:
        """Let unanswered sends finish, leave the group, close; returns within `close_timeout_s` and some."""
        self._closed = True
        with self._guard:
            link, self._link = self._link, None
        if link is not None:
            link.close(self.config.close_timeout_s)

    def send(
        self,
        message: Message | Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
        timeout_s: float | None = None,
    ) -> SendResult:
        """Send and wait for the broker's answer; a list of messages is one batch.

        `queue` names the queue, `selector` chooses one from (queues, message, arg); otherwise they take turns.
        Raises BrokerRefused, SendTimeout, SendFailed, NoRoute, NoBroker, NoNameServer.
        """
        link = self._link or self._started()
        if self.config.idempotent:  # the sequences of numbers are kept on the loop
            sent = link.hosted.send(message, queue=queue, selector=selector, arg=arg, timeout_s=timeout_s)
            return link.thread.call(sent)
        choose = chooser(message, queue, selector, arg)
        outgoing = link.encoder.encode(message)
        result = link.driver.run(link.sender.send(outgoing, choose=choose, timeout_s=timeout_s))
        assert result is not None, "only oneway sends have no result"
        return result

    def send_async(
        self,
        message: Message | Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
        timeout_s: float | None = None,
    ) -> Future[SendResult]:
        """Send and go on; the future brings what `send` returns or raises.

        A message that no broker would take raises here. With `in_flight_max` sends unanswered this waits for
        a place, and raises TooManyInFlight when none gets free within the time-out.
        """
        link = self._link or self._started()
        if self.config.idempotent:
            sent = link.hosted.send(message, queue=queue, selector=selector, arg=arg, timeout_s=timeout_s)
            return asyncio.run_coroutine_threadsafe(sent, link.thread.loop)
        choose = chooser(message, queue, selector, arg)
        outgoing = link.encoder.encode(message)
        link.send_limit.enter(outgoing.size, self.config.send_timeout_s if timeout_s is None else timeout_s)
        plan = link.sender.send(outgoing, SendMode.ASYNC, choose=choose, timeout_s=timeout_s)
        return link.begin(plan, outgoing.size)

    def send_oneway(
        self,
        message: Message | Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
    ) -> None:
        """Send without an answer: the quickest way, and a message may get lost. Waits for a slow broker only.

        Raises SendTimeout when the broker does not read, TooManyInFlight when too many threads wait for that.
        """
        link = self._link or self._started()
        if self.config.idempotent:
            raise ClientError("an idempotent producer waits for every answer: use send")
        choose = chooser(message, queue, selector, arg)
        outgoing = link.encoder.encode(message)
        link.oneway_limit.enter(outgoing.size, self.config.send_timeout_s)
        try:
            link.driver.run(link.sender.send(outgoing, SendMode.ONEWAY, choose=choose))
        finally:
            link.oneway_limit.leave(outgoing.size)

    def request(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
        timeout_s: float | None = None,
    ) -> ReceivedMessage:
        """Send a question and wait for its answer, which a consumer of the topic gives with `reply`.

        Raises RequestTimeout when none came in `timeout_s` (`send_timeout_s` unless given), or what `send` does.
        """
        link = self._link or self._started()
        asked = link.hosted.request(message, queue=queue, selector=selector, arg=arg, timeout_s=timeout_s)
        return link.thread.call(asked)

    def request_async(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
        timeout_s: float | None = None,
    ) -> Future[ReceivedMessage]:
        """Send a question and go on; the future brings what `request` returns or raises."""
        link = self._link or self._started()
        asked = link.hosted.request(message, queue=queue, selector=selector, arg=arg, timeout_s=timeout_s)
        return asyncio.run_coroutine_threadsafe(asked, link.thread.loop)

    def reply(self, request: ReceivedMessage, body: bytes, *, timeout_s: float | None = None) -> SendResult:
        """Answer a message that was sent with `request`; returns when who asked has the answer.

        Raises ClientError for a message nobody waits for an answer to, BrokerRefused when who asked has gone.
        """
        link = self._link or self._started()
        return link.thread.call(link.hosted.reply(request, body, timeout_s=timeout_s))

    def view_message(self, message_id: str, topic: str | None = None) -> ReceivedMessage:
        """The message of an id: the broker's (`offset_message_id`), or with `topic` also the sender's (`message_id`).

        Raises MessageNotFound.
        """
        link = self._link or self._started()
        return link.driver.run(link.hosted.lookups.view(message_id, topic))

    def query_messages(
        self,
        topic: str,
        key: str,
        *,
        begin_ms: int = 0,
        end_ms: int = FOREVER_MS,
        max_count: int = COUNT_MAX,
    ) -> list[ReceivedMessage]:
        """The messages with this key stored between the two times, oldest first; at most `max_count` per broker."""
        link = self._link or self._started()
        return link.driver.run(
            link.hosted.lookups.query(topic, key, begin_ms=begin_ms, end_ms=end_ms, max_count=max_count)
        )

    def recall(self, handle: str, *, timeout_s: float | None = None) -> str:
        """Take a timed message back before it is delivered, with the `recall_handle` of its `SendResult`.

        Returns its message id. Raises BadRecallHandle for a text that is none, and BrokerRefused when the message
        does not wait any more: it was delivered, or taken back already.
        """
        link = self._link or self._started()
        return link.thread.call(link.hosted.recall(handle, timeout_s=timeout_s))

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues a topic can be written to, as selectors get them."""
        link = self._link or self._started()
        return link.thread.call(link.hosted.queues(topic), START_S)

    def next_sequence(self, queue: MessageQueue) -> int:
        """Of an idempotent producer: how many of its messages the queue has.

        One that starts again with its old `producer_id` learns so which of its messages are stored: the queue's
        first ones, so many.
        """
        link = self._link or self._started()
        return link.thread.call(link.hosted.next_sequence(queue))

    def after_fork(self) -> None:
        """In a forked child: the parent's connections are let go, the next send makes new ones."""
        self._guard = threading.Lock()
        self._link = None

    def __del__(self) -> None:
        link = getattr(self, "_link", None)
        if link is not None:
            text = f"producer {self.config.group!r} was not closed"
            warnings.warn(text, ResourceWarning, stacklevel=2, source=self)
            link.abandon()

    def _started(self) -> "_Link":
        with self._guard:
            if self._link is None:
                if self._closed:
                    raise ClientClosed(f"producer {self.config.group!r} is closed: start() it again to send")
                self._link = _Link(self._make(), self.config)
            return self._link


class _Link:
    """What a started producer holds: its host, the hosted producer, and the sockets of the threads."""

    def __init__(self, hosted: aio.Producer, config: ProducerConfig) -> None:
        self.hosted = hosted
        self.thread = LoopThread.acquire()
        try:
            self.thread.call(hosted.start(), START_S)
        except BaseException:
            self.thread.release()
            raise
        self.encoder = hosted.encoder
        self.sender = hosted.sender
        self.driver = BlockingDriver()
        self.send_limit = ThreadSendLimit(InFlight(config.in_flight_max, config.in_flight_bytes_max))
        self.oneway_limit = ThreadSendLimit(oneway_in_flight(config))
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, plan: Plan[SendResult | None], size: int) -> Future[SendResult]:
        """Run the plan on the loop; its place in flight is given back when it ends."""
        future: Future[SendResult] = Future()
        try:
            self.thread.post(lambda: self._create_task(plan, size, future))
        except RuntimeError:
            self.send_limit.leave(size)
            raise ClientClosed("the producer is closed") from None
        return future

    def _create_task(self, plan: Plan[SendResult | None], size: int, future: Future[SendResult]) -> None:
        if not future.set_running_or_notify_cancel():
            self.send_limit.leave(size)
            return
        task = self.thread.loop.create_task(self._finish(plan, size, future))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _finish(self, plan: Plan[SendResult | None], size: int, future: Future[SendResult]) -> None:
        try:
            result = await self.hosted.run_plan(plan)
        except asyncio.CancelledError:
            self.send_limit.leave(size)
            future.set_exception(ClientClosed("the producer was closed before the broker answered"))
        except BaseException as error:
            self.send_limit.leave(size)
            future.set_exception(error)
        else:
            assert result is not None, "only oneway sends have no result"
            self.send_limit.leave(size)
            future.set_result(result)

    def close(self, timeout_s: float) -> None:
        deadline_s = time.monotonic() + timeout_s
        self.send_limit.close(timeout_s)
        self.oneway_limit.close(deadline_s - time.monotonic())
        self.driver.close()
        try:
            self.thread.call(self._close_hosted(), max(deadline_s - time.monotonic(), GOODBYES_S))
        except TimeoutError:
            pass  # the network does not let go: what is left ends with the thread
        finally:
            self.thread.release()

    def abandon(self) -> None:
        """Nobody holds the producer any more: close it in the background, as far as that still works."""

        async def close() -> None:
            await self._close_hosted()
            self.thread.release()

        self.driver.close()
        with contextlib.suppress(RuntimeError):  # the interpreter ends: the loop is closed already
            self.thread.post(lambda: self._tasks.add(self.thread.loop.create_task(close())))

    async def _close_hosted(self) -> None:
        for task in tuple(self._tasks):
            if task is not asyncio.current_task():
                task.cancel()
        await self.hosted.close()
