"""What the sync consumers share: a consumer of `rocketeer.aio` on the loop thread, and the way to it."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic, Protocol, TypeVar

from rocketeer.client.core.config import ConsumerConfig
from rocketeer.client.lifetime import ContextManaged
from rocketeer.client.sync import forking
from rocketeer.client.sync.loop_thread import LoopThread
from rocketeer.errors import ClientClosed

T = TypeVar("T")

START_S: Final = 30.0
"""Time limit of a start; name servers and brokers have time-outs of their own."""
SPARE_S: Final = 10.0
"""What closing takes beside waiting for listeners."""


class Host:
    """Starts and closes the hosted consumer; threads may share it."""

    def __init__(self, name: str, abandon: Callable[[], None]) -> None:
        self._name = name
        self._abandon = abandon
        self._thread: LoopThread | None = None
        self._cancel: Callable[[], object] | None = None
        self._cancelled = False
        self._guard = threading.Lock()
        forking.register(self)

    def start(self, starting: Callable[[], Coroutine[Any, Any, None]], wait_s: float = 0.0) -> None:
        """`wait_s` is what the start may wait for name servers, beside its own work.

        Raises ClientClosed when `cancel_start` came meanwhile.
        """
        with self._guard:
            if self._thread is not None:
                return
            thread = LoopThread.acquire()
            try:
                thread.call(self._start(starting, thread), START_S + wait_s)
            except BaseException:
                thread.release()
                raise
            self._thread = thread

    async def _start(self, starting: Callable[[], Coroutine[Any, Any, None]], thread: LoopThread) -> None:
        task = asyncio.current_task()
        assert task is not None, "the loop runs it"
        self._cancel = lambda: thread.loop.call_soon_threadsafe(task.cancel)
        try:
            if not self._cancelled:
                return await starting()
        except asyncio.CancelledError:
            if not self._cancelled:
                raise
        finally:
            self._cancel = None
        raise ClientClosed(f"consumer {self._name!r} was closed before it had started")

    def cancel_start(self) -> None:
        """End a start that is under way, before `close`; from any thread, or from a signal's handler."""
        self._cancelled = True  # first the flag, then the start: one that begins just now sees it
        cancel = self._cancel
        if cancel is not None:
            cancel()

    def close(self, closing: Callable[[], Coroutine[Any, Any, None]], timeout_s: float) -> None:
        """Close within the time limit, whatever the network and the listeners do."""
        self.cancel_start()
        with self._guard:
            self._cancelled = False
            thread, self._thread = self._thread, None
        if thread is None:
            return
        try:
            thread.call(closing(), timeout_s + SPARE_S)
        except TimeoutError:
            pass  # what is left ends with the thread
        finally:
            thread.release()

    @property
    def running(self) -> bool:
        return self._thread is not None

    def call(self, work: Coroutine[Any, Any, T], timeout_s: float) -> T:
        """Run it on the loop and wait."""
        thread = self._thread
        if thread is None:
            work.close()
            raise ClientClosed(f"consumer {self._name!r} is not running: start() it first")
        return thread.call(work, timeout_s)

    def do(self, what: Callable[[], T], timeout_s: float = SPARE_S) -> T:
        """Have the loop call a plain function, and wait for what it returns."""

        async def on_loop() -> T:
            return what()

        return self.call(on_loop(), timeout_s)

    def after_fork(self) -> None:
        """Reset in a forked child: the parent keeps consuming; a start here joins as another member."""
        self._guard = threading.Lock()
        self._thread = None
        self._cancel = None
        self._cancelled = False
        self._abandon()


class AsyncConsumer(Protocol):
    """The asyncio consumer that a Host runs."""

    config: ConsumerConfig

    def abandon(self) -> None:
        """After a fork, in the child: what runs is the parent's."""


C = TypeVar("C", bound=AsyncConsumer)


class HostedConsumer(ContextManaged, Generic[C]):
    """A sync consumer, all but its public methods."""

    def _set_up(self, hosted: C) -> None:
        self._hosted = hosted
        self._host = Host(hosted.config.group, self._abandon)

    @property
    def config(self) -> ConsumerConfig:
        return self._hosted.config

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return self._host.call(work, SPARE_S)

    def _do(self, what: Callable[[], T]) -> T:
        return self._host.do(what)

    def _abandon(self) -> None:
        self._hosted.abandon()
