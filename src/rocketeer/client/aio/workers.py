"""Where listeners run: threads for plain functions, tasks of the loop for coroutine functions.

A job is one run of a listener. The loop hands over jobs in bulk and gets them back in bulk; in between no lock
is taken, no task made and no thread woken per job. The first worker starts at once; the others join when the
jobs turn out to take their time, since quick ones are done sooner by one thread than by twenty.
"""

import asyncio
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import Final, Protocol

log = logging.getLogger(__name__)

LOOK_S: Final = 0.001
"""How soon after new work it is looked whether one worker is enough."""
QUICK_S: Final = 50e-6
"""Jobs shorter than this gain nothing from more threads."""
PATIENCE_S: Final = 0.005
"""Time a thread just woken may need until the interpreter lets it run."""
TURN_S: Final = 0.005
"""Longest time jobs that never wait may keep the event loop."""


class ListenerJob(Protocol):
    """One run of a listener; what came of it stays in the job. Must not raise."""

    def run(self) -> None: ...

    async def run_async(self) -> None: ...


OnListened = Callable[[list[ListenerJob]], None]
"""Told of finished jobs, on the loop."""


class _Workers(ABC):
    """What both kinds share: the jobs that wait and those that are finished."""

    def __init__(self, most: int, done: OnListened, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._most = most
        self._done = done
        self._name = name
        self._waiting: deque[ListenerJob] = deque()
        self._finished: deque[ListenerJob] = deque()
        self._running = 0
        self._submitted = 0
        self._paused = False
        self._idle: asyncio.Future[None] | None = None

    def _settle(self) -> None:
        finished = self._finished
        jobs = [finished.popleft() for _ in range(len(finished))]
        self._running -= len(jobs)
        if jobs:
            self._done(jobs)
        if self._idle is not None and not self._running and not self._idle.done():
            self._idle.set_result(None)

    def submit(self, jobs: Iterable[ListenerJob]) -> None:
        """Queue the jobs; they are started in this order."""
        jobs = list(jobs)
        self._running += len(jobs)
        self._submitted += len(jobs)
        self._waiting.extend(jobs)
        if not self._paused:
            self._wake()

    def pause(self) -> None:
        """Begin no more jobs."""
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        if self._waiting:
            self._wake()

    def clear(self) -> list[ListenerJob]:
        """Take back the jobs not begun."""
        taken: list[ListenerJob] = []
        try:
            while True:
                taken.append(self._waiting.popleft())
        except IndexError:
            self._running -= len(taken)
            self._submitted -= len(taken)
            return taken

    async def wait_idle(self, timeout_s: float) -> bool:
        """Wait until every job is finished; False when the time was over first."""
        if self._running:
            self._idle = self._loop.create_future()
            await asyncio.wait((self._idle,), timeout=timeout_s)
            self._idle = None
        return not self._running

    @abstractmethod
    def _wake(self) -> None:
        """Wake a worker: jobs are queued, or concurrency was freed."""


class ThreadWorkers(_Workers):
    """Daemon threads, made when they are needed; the interpreter does not wait for a listener that hangs."""

    def __init__(self, most: int, done: OnListened, name: str) -> None:
        super().__init__(most, done, name)
        self._tokens: SimpleQueue[bool] = SimpleQueue()
        """One for each sleeping thread to wake; False ends it."""
        self._guard = threading.Lock()
        self._threads = 0
        self._awake = 0
        self._telling = False
        self._look: asyncio.TimerHandle | None = None
        self._looked_s = 0.0
        self._begun_then = 0

    def close(self) -> None:
        """End the threads as they get idle."""
        self._paused = True
        if self._look is not None:
            self._look.cancel()
        for _ in range(self._threads):
            self._tokens.put(False)

    # --- on the loop -------------------------------------------------------------------------

    def _wake(self) -> None:
        with self._guard:
            more = 1 if self._waiting and not self._awake else 0
            self._awake += more
        self._start(more)
        if self._look is None and len(self._waiting) > more:
            self._look_later()  # those awake may hang

    def _start(self, count: int) -> None:
        for _ in range(count):
            if self._threads < self._most and self._threads < self._awake:
                self._threads += 1
                name = f"{self._name}-{self._threads}"
                threading.Thread(target=self._main, name=name, daemon=True).start()
            self._tokens.put(True)

    def _look_later(self) -> None:
        self._looked_s = time.monotonic()
        self._begun_then = self._submitted - len(self._waiting)
        self._look = self._loop.call_later(LOOK_S, self._look_again)

    def _look_again(self) -> None:
        """Check whether jobs are slow; if so start as many threads as there are jobs, up to the limit."""
        self._look = None
        waiting = len(self._waiting)
        if not waiting or self._paused:
            return
        took_s = time.monotonic() - self._looked_s
        begun = self._submitted - waiting - self._begun_then
        if not begun and took_s < PATIENCE_S:
            self._look = self._loop.call_later(LOOK_S, self._look_again)
            return
        if took_s * self._awake > QUICK_S * begun:
            with self._guard:
                more = max(min(waiting, self._most - self._awake), 0)
                self._awake += more
            self._start(more)
        if self._awake < self._most:
            self._look_later()

    # --- in the threads ----------------------------------------------------------------------

    def _main(self) -> None:
        while self._tokens.get():
            while self._run_all():
                pass

    def _run_all(self) -> bool:
        """Run what waits; False when nothing waits and this thread counts as asleep."""
        waiting, finished = self._waiting, self._finished
        while not self._paused:
            try:
                job = waiting.popleft()
            except IndexError:
                break
            job.run()
            finished.append(job)
            if not self._telling:
                self._tell()
        # The lock pairs with `_wake`: work that comes while we fall asleep is seen here, or wakes somebody.
        with self._guard:
            if waiting and not self._paused:
                return True
            self._awake -= 1
            return False

    def _tell(self) -> None:
        self._telling = True
        try:
            self._loop.call_soon_threadsafe(self._told)
        except RuntimeError:
            log.debug("the loop is gone; a finished job is not accounted for workers=%s", self._name)

    def _told(self) -> None:
        # First the flag, then the jobs: one finished in between tells once too often, never too seldom.
        self._telling = False
        self._settle()


class TaskWorkers(_Workers):
    """Tasks of the loop, made when they are needed. A listener that never waits is run to its end at once."""

    def __init__(self, most: int, done: OnListened, name: str) -> None:
        super().__init__(most, done, name)
        self._tasks: set[asyncio.Task[None]] = set()
        self._sleeping: list[asyncio.Future[None]] = []
        self._coming = False
        """One was woken or made and has not begun yet: it will wake the next one itself."""
        self._settling = False
        self._turn_until_s = 0.0
        self._turn_ends = False

    def close(self) -> None:
        self._paused = True
        for task in self._tasks:
            task.cancel()

    def _wake(self) -> None:
        if self._coming or not self._waiting:
            return
        if self._sleeping:
            self._coming = True
            self._sleeping.pop().set_result(None)
        elif len(self._tasks) < self._most:
            self._coming = True
            task = self._loop.create_task(self._main(), name=f"{self._name}-{len(self._tasks) + 1}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _main(self) -> None:
        waiting, finished = self._waiting, self._finished
        self._coming = False
        while True:
            if self._paused or not waiting:
                asleep = self._loop.create_future()
                self._sleeping.append(asleep)
                await asleep
                self._coming = False
                continue
            if time.monotonic() > self._turn_until_s:
                self._end_turn()
                await asyncio.sleep(0)
                continue
            job = waiting.popleft()
            if waiting:
                self._wake()  # begins when this one waits for something
            await job.run_async()
            finished.append(job)
            if not self._settling:
                self._settling = True
                self._loop.call_soon(self._settle_soon)

    def _end_turn(self) -> None:
        """Pause all workers until the loop has polled its sockets."""
        if not self._turn_ends:
            self._turn_ends = True
            self._loop.call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        self._turn_ends = False
        self._turn_until_s = time.monotonic() + TURN_S

    def _settle_soon(self) -> None:
        self._settling = False
        self._settle()


Workers = ThreadWorkers | TaskWorkers
