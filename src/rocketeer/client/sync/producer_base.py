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
from rocketeer.client.core.codecs import NOTHING, as_message
from rocketeer.client.core.config import ProducerConfig
from rocketeer.client.core.encoding import Outgoing
from rocketeer.client.core.hooks import SendMode
from rocketeer.client.core.in_flight import InFlight, oneway_in_flight, stalled_s
from rocketeer.client.core.publishing import published
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.core.send_result import SendResult
from rocketeer.client.lifetime import Started
from rocketeer.client.plans.effects import Plan
from rocketeer.client.plans.send import Choose, Target, chooser
from rocketeer.client.sync import forking
from rocketeer.client.sync.driver import BlockingDriver
from rocketeer.client.sync.loop_thread import LoopThread
from rocketeer.client.sync.send_limit import ThreadSendLimit
from rocketeer.errors import ClientClosed, ClientError, SendFailed
from rocketeer.model.message import Message

T = TypeVar("T")
Sent: TypeAlias = Message | Sequence[Message] | str

GOODBYES_S: Final = 3.0
"""Leaving has at least this much time, even when waiting for answers took all there was."""
START_S: Final = 10.0
"""Time limit of a start, which waits for an HTTP address server at most."""


class ProducerBase(Started):
    """All of `Producer` but its public methods, which are written from the asyncio producer's."""

    def _set_up(self, make: Callable[[], aio.Producer]) -> None:
        """`make` gives the producer to host; called at each start."""
        self.config = make().config
        self._make = make
        self._link: Link | None = None
        self._guard = threading.Lock()
        self._closed = False
        forking.register(self)

    def _start(self) -> None:
        self._closed = False
        self._started()

    def _close(self) -> None:
        self._closed = True
        with self._guard:
            link, self._link = self._link, None
        if link is not None:
            link.close(self.config.close_timeout_s)

    @property
    def _hosted(self) -> aio.Producer:
        return (self._link or self._started()).hosted

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return (self._link or self._started()).thread.call(work)

    def _send(
        self, message: Sent, value: Any = NOTHING, *, timeout_s: float | None, **target: Unpack[Target]
    ) -> SendResult:
        link = self._link or self._started()
        message = as_message(message, value, link.hosted.codec)
        if self.config.idempotent:  # the sequences of numbers are kept on the loop
            return link.thread.call(link.hosted.send(message, timeout_s=timeout_s, **target))

        def send(ready: Message | Sequence[Message]) -> SendResult:
            return link.send(link.encoder.encode(ready), chooser(ready, **target), timeout_s)

        around = link.hosted.around
        return published(around, self.config.group, message, send) if around else send(message)

    def _send_async(
        self, message: Sent, value: Any = NOTHING, *, timeout_s: float | None, **target: Unpack[Target]
    ) -> Future[SendResult]:
        link = self._link or self._started()
        message = as_message(message, value, link.hosted.codec)
        if self.config.idempotent or link.hosted.around:
            sent = link.hosted.send(message, timeout_s=timeout_s, **target)
            return asyncio.run_coroutine_threadsafe(sent, link.thread.loop)
        choose = chooser(message, **target)
        outgoing = link.encoder.encode(message)
        link.send_limit.enter(outgoing.size)
        plan = link.sender.send(outgoing, SendMode.ASYNC, choose=choose, timeout_s=timeout_s)
        return link.begin(plan, outgoing.size)

    def _send_oneway(self, message: Sent, value: Any = NOTHING, **target: Unpack[Target]) -> None:
        link = self._link or self._started()
        message = as_message(message, value, link.hosted.codec)
        if self.config.idempotent:
            raise ClientError("an idempotent producer waits for every answer: use send")

        def leave(ready: Message | Sequence[Message]) -> None:
            choose = chooser(ready, **target)
            outgoing = link.encoder.encode(ready)
            link.oneway_limit.enter(outgoing.size)
            answered = True
            try:
                link.driver.run(link.sender.send(outgoing, SendMode.ONEWAY, choose=choose))
            except SendFailed:
                answered = False
                raise
            finally:
                link.oneway_limit.leave(outgoing.size, answered=answered)

        if link.hosted.around:
            published(link.hosted.around, self.config.group, message, leave, SendMode.ONEWAY)
        else:
            leave(message)

    def _request_async(
        self, message: Message, *, timeout_s: float | None, **target: Unpack[Target]
    ) -> Future[ReceivedMessage]:
        link = self._link or self._started()
        asked = link.hosted.request(message, timeout_s=timeout_s, **target)
        return asyncio.run_coroutine_threadsafe(asked, link.thread.loop)

    def after_fork(self) -> None:
        """In a forked child: the parent's connections are let go, the next send makes new ones."""
        self._guard = threading.Lock()
        link, self._link = self._link, None
        if link is not None:
            link.driver.abandon()

    def __del__(self) -> None:
        link = getattr(self, "_link", None)
        if link is not None:
            text = f"producer {self.config.group!r} was not closed"
            warnings.warn(text, ResourceWarning, stacklevel=2, source=self)
            link.abandon()

    def _started(self) -> "Link":
        with self._guard:
            if self._link is None:
                if self._closed:
                    raise ClientClosed(f"producer {self.config.group!r} is closed: start() it again to send")
                self._link = Link(self._make(), self.config)
            return self._link


class Link:
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
        self.driver = BlockingDriver(hosted.security)
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
            self.send_limit.leave(size, answered=False)
            future.set_exception(ClientClosed("the producer was closed before the broker answered"))
        except BaseException as error:
            self.send_limit.leave(size, answered=not isinstance(error, SendFailed))
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
