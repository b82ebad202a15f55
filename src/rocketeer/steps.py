"""Work that may be interrupted: a generator that yields between two steps, and returns its result.

Whoever has time runs it at once (`finish`); servers run it in slices of their event loop (`remoting.slices`).
"""

from collections.abc import Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]


def finish(steps: Steps[T]) -> T:
    """Do all steps at once; returns their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
