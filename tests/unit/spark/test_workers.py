"""A worker of Spark settles once, in its first task; a process that runs no tasks stays as it is."""

import gc
import subprocess
import sys

from rocketeer.spark.workers import settle_worker

_TASKS = """
import gc
from pyspark import TaskContext
from rocketeer.spark.workers import settle_worker

TaskContext._getOrCreate()
settle_worker()
first = gc.get_freeze_count()
made = [[] for _ in range(1000)]
settle_worker()
print(first > 10_000, gc.get_freeze_count() <= first)
"""


def test_modules_are_no_garbage_to_look_through_after_every_task() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _TASKS], capture_output=True, text=True, timeout=100, check=True
    )
    assert done.stdout == "True True\n"


def test_outside_of_tasks_nothing_happens() -> None:
    before = gc.get_freeze_count()
    settle_worker()
    assert gc.get_freeze_count() == before
