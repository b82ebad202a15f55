"""The one thread that hosts an event loop for all sync clients of the process: heartbeats, async sends, pulls.

thread = LoopThread.acquire()
instance = thread.call(ClientInstance.acquire(config), timeout_s=10)
thread.post(callback)                  # from any thread; many posts wake the loop once
thread.release()                       # the last one out ends the thread
"""

import asyncio
import atexit
import concurrent.futures
import logging
import os
import selectors
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, Final, TypeVar

from rocketeer.client.sync import forking
from rocketeer.errors import ClientError

log = logging.getLogger(__name__)
T = TypeVar("T")

JOIN_S: Final = 2.0
"""Time limit of the thread's end; it is a daemon, so the process ends in any case."""


class LoopThread:
    """The shared event-loop thread; made by `acquire` only. Any thread may call it except its own."""

    _current: ClassVar["LoopThread | None"] = None
    _holders: ClassVar[int] = 0
    _guard: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self.loop = asyncio.SelectorEventLoop(self._selector)
        self._posted: deque[Callable[[], None]] = deque()
        self._wakeful = False
        """True from a post until the loop takes the posts up: no need to wake it again."""
        self._thread = threading.Thread(target=self._main, name="rocketeer-client", daemon=True)
        self._thread.start()

    @classmethod
    def acquire(cls) -> "LoopThread":
        """The running thread, or a new one; pair it with `release`."""
        with cls._guard:
            if cls._current is None:
                cls._current = cls()
            cls._holders += 1
            return cls._current

    def release(self) -> None:
        """The last holder ends the thread."""
        cls = type(self)
        with cls._guard:
            if cls._current is not self:
                return  # the parent's, in a forked child
            cls._holders -= 1
            if cls._holders:
                return
            cls._current = None
        self._stop()

    def call(self, coroutine: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run a coroutine on the loop and wait for it; TimeoutError (and its end) when it takes longer."""
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise ClientError("a sync client cannot be waited for on its own loop: use rocketeer.aio there")
        future = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        try:
            return future.result(timeout_s)
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise TimeoutError(f"not done within {timeout_s:g} s") from None
        except BaseException:
            future.cancel()
            raise

    def post(self, callback: Callable[[], None]) -> None:
        """Have the loop call it soon. Waking the loop costs a system call: many posts share one."""
        self._posted.append(callback)
        if not self._wakeful:
            self._wakeful = True
            self.loop.call_soon_threadsafe(self._take_posts)

    def _take_posts(self) -> None:
        # First the flag, then the posts: one that comes in between wakes the loop once too often, never too
        # seldom.
        self._wakeful = False
        posted = self._posted
        for _ in range(len(posted)):
            callback = posted.popleft()
            try:
                callback()
            except Exception:
                log.exception("callback failed callback=%r", callback)

    # --- the thread --------------------------------------------------------------------------

    def _main(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            tasks = asyncio.all_tasks(self.loop)
            for task in tasks:
                task.cancel()
            if tasks:
                self.loop.run_until_complete(asyncio.wait(tasks, timeout=1))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        finally:
            asyncio.set_event_loop(None)
            self.loop.close()

    def _stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(JOIN_S)

    # --- beginnings and ends of processes ------------------------------------------------------

    @classmethod
    def after_fork(cls) -> None:
        cls._guard = threading.Lock()
        if cls._current is not None:
            cls._current._detach_sockets()
        cls._current = None
        cls._holders = 0

    def _detach_sockets(self) -> None:
        """In the child: give up its copies of the parent's sockets and epoll without the parent noticing.

        Closing the loop would take the parent's sockets out of the epoll both share; copies left open would
        keep the parent's connections from ending. So each number is made to stand for nothing instead.
        """
        shared = [key.fd for key in self._selector.get_map().values()]
        if isinstance(self._selector, selectors.EpollSelector):
            shared.append(self._selector.fileno())
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in shared:
            os.dup2(nothing, number, inheritable=False)
        os.close(nothing)
        forking.keep(self)

    @classmethod
    def at_exit(cls) -> None:
        """A client nobody closed: end the loop while the interpreter is whole."""
        current = cls._current
        cls._current = None
        if current is not None and current._thread.is_alive():
            current._stop()


forking.register(LoopThread)
atexit.register(LoopThread.at_exit)
