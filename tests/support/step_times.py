"""How long work in steps keeps a loop at most: in the processor's time of the thread, so a busy machine does not count."""

import contextlib
import gc
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from rocketeer.steps import Steps

TRIES: Final = 4


def longest_step_ms(steps: Steps[Any]) -> float:
    """To let go of the result is no step: whoever has it does so as it likes."""
    longest_s = 0.0
    result: Any = steps
    with no_collection():  # of all that the tests of this process have made
        while result is steps:
            began_s = time.thread_time()
            try:
                next(steps)
            except StopIteration as end:
                result = end.value
            longest_s = max(longest_s, time.thread_time() - began_s)
    return longest_s * 1000


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def best_longest_step_ms(make: Callable[[], Steps[Any]]) -> float:
    """Of a few tries the best: what the system does in the midst of a step, faults of pages for example, is not in each."""
    return min(longest_step_ms(make()) for _ in range(TRIES))
