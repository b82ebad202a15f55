"""How long work in steps keeps a loop at most: in the processor's time of the thread, so a busy machine does not count."""

import time
from collections.abc import Callable
from typing import Any, Final

from rocketeer.steps import Steps

TRIES: Final = 4


def longest_step_ms(steps: Steps[Any]) -> float:
    longest_s = 0.0
    is_over = False
    while not is_over:
        began_s = time.thread_time()
        is_over = next(steps, time) is time
        longest_s = max(longest_s, time.thread_time() - began_s)
    return longest_s * 1000


def best_longest_step_ms(make: Callable[[], Steps[Any]]) -> float:
    """Of a few tries the best: what the system does in the midst of a step, faults of pages for example, is not in each."""
    return min(longest_step_ms(make()) for _ in range(TRIES))
