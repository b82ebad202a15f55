"""The Python process of Spark that runs our tasks, one after the other."""

import gc
from functools import cache
from typing import Final

from pyspark import TaskContext

from rocketeer.memory import keep_freed_memory

_KEPT_BYTES: Final = 128 << 20
"""Freed memory that is kept: what a task has on the way or spooled serves later ones. Spark ends idle workers."""


def settle_worker() -> None:
    """A task says that all it needs is imported; outside of tasks nothing happens."""
    if TaskContext.get() is not None:
        _settle()


@cache
def _settle() -> None:
    keep_freed_memory(_KEPT_BYTES)
    # Spark collects garbage after each task: all objects of all modules would be looked at each time.
    gc.freeze()
