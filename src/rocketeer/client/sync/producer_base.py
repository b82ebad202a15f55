"""What the sync producers are made of: one-shot calls on sockets of the calling thread, the rest on the loop thread.

`send` asks the broker on a socket of the calling thread. `send_async` and the heartbeats run on the loop thread, in a
producer of `rocketeer.aio` that this one hosts. In a forked child the producer connects anew.
"""

import asyncio
import contextlib
import threading
import time
import warnings
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any, Final, TypeAlias, TypeVar, Unpack

from rocketeer.client.aio import producer as aio
from rocketeer.client.aio.batching import Batcher
from rocketeer.client.aio.send_order import SendTurn
from rocketeer.client.core.codecs import NOTHING, as_message
from rocketeer.client.core.config import ProducerConfig
from rocketeer.client.core.encoding import Outgoing
from rocketeer.client.core.hooks import SendMode
from rocketeer.client.core.in_flight import InFlight, oneway_in_flight, stalled_s
from rocketeer.client.core.publishing import send_with_middlewares
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.core.send_result import SendResult
from rocketeer.client.lifetime import ContextManaged
from rocketeer.client.plans.send import Choose, Fixed, Target, chooser
from rocketeer.client.sync import forking
from rocketeer.client.sync.driver import BlockingDriver
from rocketeer.client.sync.loop_thread import LoopThread
from rocketeer.client.sync.send_limit import ThreadSendLimit
from rocketeer.client.sync.shared_send import ThreadSharedSend
from rocketeer.errors import ClientClosed, ClientError, SendFailed
from rocketeer.model.message import Message
from rocketeer.model.queue import MessageQueue

T = TypeVar("T")
SentOrTopic: TypeAlias = Message | Sequence[Message] | str

GOODBYES_S: Final = 3.0
"""Leaving has at least this much time, even when waiting for answers took all there was."""
START_S: Final = 10.0
"""Time limit of a start, which waits for an HTTP address server at most."""


class ProducerBase(ContextManaged):
    """All of `Producer` but its public methods, which are written from the asyncio producer's."""

    def _set_up(self, make: Callable[[], aio.Producer]) -> None:
        """`make` gives the producer to host; called at each start."""
        self.config = make().config
        self._make = make
        self._running: StartedProducer | None = None
        self._guard = threading.Lock()
        self._closed = False
        forking.register(self)

    def _start(self) -> None:
        self._closed = False
        self._started()

    def _close(self) -> None:
        self._closed = True
        with self._guard:
            started, self._running = self._running, None
        if started is not None:
            started.close(self.config.close_timeout_s)

    @property
    def _hosted(self) -> aio.Producer:
        return (self._running or self._started()).hosted

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return (self._running or self._started()).thread.call(work)

    def _send(
        self, message: SentOrTopic, value: Any = NOTHING, *, timeout_s: float | None, **target: Unpack[Target]
    ) -> SendResult:
        started = self._running or self._started()
        message = as_message(message, value, started.hosted.codec)
        if self.config.idempotent:  # the sequences of numbers are kept on the loop
            return started.thread.call(started.hosted.send(message, timeout_s=timeout_s, **target))

        def send(ready: Message | Sequence[Message]) -> SendResult:
            return started.send(started.encoder.encode(ready), chooser(ready, **target), timeout_s)

        around = started.hosted.around
        return send_with_middlewares(around, self.config.group, message, send) if around else send(message)

    def _send_async(
        self, message: SentOrTopic, value: Any = NOTHING, *, timeout_s: float | None, **target: Unpack[Target]
    ) -> Future[SendResult]:
        started = self._running or self._started()
        message = as_message(message, value, started.hosted.codec)
        if self.config.idempotent or started.hosted.around:
            sent = started.hosted.send(message, timeout_s=timeout_s, **target)
            return asyncio.run_coroutine_threadsafe(sent, started.thread.loop)
        choose = chooser(message, **target)
        batcher = started.work.batcher
        if batcher is not None and batcher.takes(message):
            assert isinstance(message, Message), "the batcher takes nothing else"
            started.encoder.check(message)
            return started.join(batcher, message, choose, timeout_s)
        outgoing = started.encoder.encode(message)
        return started.begin(outgoing, choose, timeout_s)

    def _send_oneway(self, message: SentOrTopic, value: Any = NOTHING, **target: Unpack[Target]) -> None:
        started = self._running or self._started()
        message = as_message(message, value, started.hosted.codec)
        if self.config.idempotent:
            raise ClientError("an idempotent producer waits for every answer: use send")

        def leave(ready: Message | Sequence[Message]) -> None:
            choose = chooser(ready, **target)
            outgoing = started.encoder.encode(ready)
            started.oneway_limit.enter(outgoing.size)
            answered = True
            try:
                started.driver.run(started.sender.send(outgoing, SendMode.ONEWAY, choose=choose))
            except SendFailed:
                answered = False
                raise
            finally:
                started.oneway_limit.leave(outgoing.size, answered=answered)

        if started.hosted.around:
            send_with_middlewares(started.hosted.around, self.config.group, message, leave, SendMode.ONEWAY)
        else:
            leave(message)

    def _request_async(
        self, message: Message, *, timeout_s: float | None, **target: Unpack[Target]
    ) -> Future[ReceivedMessage]:
        started = self._running or self._started()
        asked = started.hosted.request(message, timeout_s=timeout_s, **target)
        return asyncio.run_coroutine_threadsafe(asked, started.thread.loop)

    def after_fork(self) -> None:
        """In a forked child: the parent's connections are let go, the next send makes new ones."""
        self._guard = threading.Lock()
        started, self._running = self._running, None
        if started is not None:
            started.driver.abandon()

    def __del__(self) -> None:
        started = getattr(self, "_running", None)
        if started is not None:
            text = f"producer {self.config.group!r} was not closed"
            warnings.warn(text, ResourceWarning, stacklevel=2, source=self)
            started.abandon()

    def _started(self) -> "StartedProducer":
        with self._guard:
            if self._running is None:
                if self._closed:
                    raise ClientClosed(f"producer {self.config.group!r} is closed: start() it again to send")
                self._running = StartedProducer(self._make(), self.config)
            return self._running


class StartedProducer:
    """What a started producer holds: its host, the hosted producer, and the sockets of the threads."""

    def __init__(self, hosted: aio.Producer, config: ProducerConfig) -> None:
        self.hosted = hosted
        self.thread = LoopThread.acquire()
        try:
            self.thread.call(hosted.start(), START_S)
        except BaseException:
            self.thread.release()
            raise
        self.work = hosted.working
        self.encoder = self.work.encoder
        self.sender = self.work.sender
        self.driver = BlockingDriver(self.work.instance.security, hosted.config.rpc_hooks)
        self.send_limit = ThreadSendLimit(
            InFlight(config.in_flight_max, config.in_flight_bytes_max), stalled_s(config)
        )
        self.oneway_limit = ThreadSendLimit(oneway_in_flight(config), stalled_s(config))
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, outgoing: Outgoing, choose: Choose | None, timeout_s: float | None) -> SendResult:
        """Send on a socket of the calling thread, and wait for the answer."""
        result = self.driver.run(self.sender.send(outgoing, choose=choose, timeout_s=timeout_s))
        assert result is not None, "only oneway sends have no result"
        return result

    def join(
        self, batcher: Batcher, message: Message, choose: Choose | None, timeout_s: float | None
    ) -> Future[SendResult]:
        """Send it on the loop, in one request with others of the same moment."""
        sent = ThreadSharedSend(self.send_limit, len(message.body))
        self._post(sent, lambda: self._join(batcher, message, choose, timeout_s, sent))
        return sent.future

    def begin(self, outgoing: Outgoing, choose: Choose | None, timeout_s: float | None) -> Future[SendResult]:
        """Send a request on the loop; where a queue was chosen in its turn."""
        sent = ThreadSharedSend(self.send_limit, outgoing.size)

        async def finish(choose: Choose | None, left_s: float | None) -> None:
            plan = self.sender.send(outgoing, SendMode.ASYNC, choose=choose, timeout_s=left_s)
            result = await self.work.run_plan(plan)
            assert result is not None, "only oneway sends have no result"
            sent.set_result(result)

        async def in_turn(turn: SendTurn) -> None:
            try:
                # Whoever chose is not asked twice.
                await finish(Fixed(turn.queue), await turn.begin(timeout_s))
            finally:
                turn.end()

        def enqueue(batcher: Batcher, queue: MessageQueue) -> Coroutine[Any, Any, None]:
            turn = batcher.turn(queue)
            turn.enqueue()
            return in_turn(turn)

        def begin() -> None:
            if (batcher := self.work.batcher) is None or choose is None:
                self._run(sent, finish(choose, timeout_s))
            else:
                self._with_queue(sent, batcher, outgoing.topic, choose, timeout_s, enqueue)

        self._post(sent, begin)
        return sent.future

    def _post(self, sent: ThreadSharedSend, begin: Callable[[], None]) -> None:
        self.send_limit.enter(sent.size)
        try:
            self.thread.post(lambda: begin() if sent.begins() else None)
        except RuntimeError:
            self.send_limit.leave(sent.size)
            raise ClientClosed("the producer is closed") from None

    def _join(
        self,
        batcher: Batcher,
        message: Message,
        choose: Choose | None,
        timeout_s: float | None,
        sent: ThreadSharedSend,
    ) -> None:
        if choose is None:
            batcher.add(message, None, timeout_s, sent, SendMode.ASYNC)
            return

        def add(batcher: Batcher, queue: MessageQueue) -> None:
            batcher.add(message, queue, timeout_s, sent, SendMode.ASYNC)

        self._with_queue(sent, batcher, message.topic, choose, timeout_s, add)

    def _with_queue(
        self,
        sent: ThreadSharedSend,
        batcher: Batcher,
        topic: str,
        choose: Choose,
        timeout_s: float | None,
        then: Callable[[Batcher, MessageQueue], Coroutine[Any, Any, None] | None],
    ) -> None:
        """`then` with the chosen queue, and what it returns is awaited. At once if the route is known."""
        try:
            queue = batcher.known_queue(topic, choose)
            work = then(batcher, queue) if queue is not None else None
        except Exception as error:
            sent.set_exception(error)
            return
        if work is not None:
            self._run(sent, work)
        if queue is not None:
            return

        async def find_queue() -> None:
            found = await batcher.find_queue(self.work.run_plan, topic, choose, timeout_s)
            work = then(batcher, found)
            if work is not None:
                await work

        self._run(sent, find_queue())

    def _run(self, sent: ThreadSharedSend, work: Coroutine[Any, Any, None]) -> None:
        async def run() -> None:
            try:
                await work
            except asyncio.CancelledError:
                sent.set_exception(ClientClosed("the producer was closed before the broker answered"))
            except Exception as error:
                sent.set_exception(error)

        task = self.thread.loop.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

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
        if self.work.batcher is not None:
            self.work.batcher.close()
        await self.hosted.close()
