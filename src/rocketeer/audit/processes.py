"""Runs the tasks of an audit in processes of this machine."""

import multiprocessing
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from rocketeer.audit.store import Runner, in_this_process

T = TypeVar("T")
R = TypeVar("R")

_work: Callable[[Any], Any]
_tasks: Sequence[Any]


def in_processes(
    count: int | None = None, told: Callable[[int, int], None] = lambda done, of: None
) -> Runner:
    """`count` processes, or one for each core; `told` hears how many of how many tasks are done."""
    workers = count or os.cpu_count() or 1

    def run_all(tasks: Sequence[T], work: Callable[[T], R]) -> list[R]:
        global _work, _tasks
        told(0, len(tasks))
        if workers == 1 or len(tasks) < 2:
            results = []
            for done, task in enumerate(tasks, 1):
                results += in_this_process([task], work)
                told(done, len(tasks))
            return results
        # Forked children have the work and the tasks already: only numbers and results travel.
        _work, _tasks = work, tasks
        found: dict[int, R] = {}
        with multiprocessing.get_context("fork").Pool(min(workers, len(tasks))) as pool:
            for number, result in pool.imap_unordered(_one, range(len(tasks))):
                found[number] = result
                told(len(found), len(tasks))
        return [found[number] for number in range(len(tasks))]

    return run_all


def _one(number: int) -> tuple[int, Any]:
    return number, _work(_tasks[number])
