"""Long work on the event loop in short slices: nobody waits longer than one slice for what somebody else asked.

Work that may be long is a generator that yields wherever it may be interrupted, at least every fraction of a
millisecond. All such work of a loop shares one budget: in each turn of the loop one slice of `SLICE_S`, in which the
oldest jobs take turns; between two turns the loop serves sockets and timers. So a thousand long requests at
once delay everybody else no more than one does. What is short does not wait behind them.

    def steps() -> Steps[int]:
        for queue in queues:
            count(queue)
            yield
        return total

    return run_sliced(steps())        # a value if it was short, else something to await
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Generator
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from rocketeer.steps import Steps

T = TypeVar("T")

SLICE_S = 0.002
"""How long the loop is kept at a time."""

SHORT_S = 0.0002
"""What takes no longer, as a heartbeat of an ordinary client, need not wait behind long jobs."""


AT_ONCE_MAX = 8
"""Most jobs that take turns, the oldest ones: each may hold a large answer that is half done."""


class Slicer:
    """Runs the long jobs of one loop, in slices."""

    def __init__(self, *, slice_s: float = SLICE_S) -> None:
        self._slice_s = slice_s
        self._jobs: deque[tuple[Steps[Any], asyncio.Future[Any]]] = deque()
        self._left_s = 0.0
        """For jobs that come in this turn of the loop: one slice for all of them, and while others wait only for
        such as are short."""
        self._is_turn = False

    def __len__(self) -> int:
        """How many jobs wait for their next slice."""
        return len(self._jobs)

    def run(self, steps: Steps[T]) -> T | asyncio.Future[T]:
        """The result if one slice is enough, a short one while other jobs wait for theirs; else a future of it."""
        loop = asyncio.get_running_loop()
        if not self._is_turn and not self._jobs:
            self._is_turn = True
            self._left_s = self._slice_s
            loop.call_soon(self._end_turn)
        began_s = time.perf_counter()
        until_s = began_s + (min(SHORT_S, self._left_s) if self._jobs else self._left_s)
        try:
            while time.perf_counter() < until_s:
                next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            self._left_s -= time.perf_counter() - began_s
        future: asyncio.Future[T] = loop.create_future()
        if not self._jobs:
            loop.call_soon(self._turn)
        self._jobs.append((steps, future))
        return future

    def _end_turn(self) -> None:
        """End the turn of the loop: short jobs of one turn, as when a thousand connections close, share a slice."""
        self._is_turn = False

    def _turn(self) -> None:
        """Run one slice; the job that it ends in waits behind the others that have begun."""
        self._left_s = self._slice_s
        until_s = time.perf_counter() + self._slice_s
        while self._jobs:
            steps, future = self._jobs.popleft()
            if future.cancelled():
                steps.close()
                continue
            try:
                while time.perf_counter() < until_s:
                    next(steps)
            except StopIteration as end:
                future.set_result(end.value)
                if time.perf_counter() < until_s:
                    continue
            except Exception as error:
                # Without this frame in its trace: the frame holds the future, and that the error.
                future.set_exception(error.with_traceback(getattr(error.__traceback__, "tb_next", None)))
                if time.perf_counter() < until_s:
                    continue
            else:
                self._jobs.insert(AT_ONCE_MAX - 1, (steps, future))
            break
        if self._jobs:
            asyncio.get_running_loop().call_soon(self._turn)


_slicers: WeakKeyDictionary[asyncio.AbstractEventLoop, Slicer] = WeakKeyDictionary()


def slicer() -> Slicer:
    """The slicer of the running loop."""
    loop = asyncio.get_running_loop()
    known = _slicers.get(loop)
    if known is None:
        known = _slicers[loop] = Slicer()
    return known


def run_sliced(steps: Steps[T]) -> T | Awaitable[T]:
    """Run steps in slices, for handlers: the result of what is short, in order; of what is long a future."""
    return slicer().run(steps)


class InOrder(Awaitable[T]):
    """Long work of a handler, to be done before later requests of the same connection are served.

    A server runs it in the turns of the connection; whoever else gets it may await it.
    """

    def __init__(self, steps: Steps[T]) -> None:
        self.steps = steps

    def __await__(self) -> Generator[Any, Any, T]:
        return in_slices(self.steps).__await__()


async def in_slices(steps: Steps[T]) -> T:
    """Run steps in slices and await their result."""
    outcome = slicer().run(steps)
    try:
        return await outcome if isinstance(outcome, asyncio.Future) else outcome
    finally:
        del outcome  # a future holds its error, whose trace holds this frame
