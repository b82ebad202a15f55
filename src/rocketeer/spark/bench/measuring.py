"""What the measuring processes share: their session, rounds in turn, the memory of Python workers, the last line."""

import json
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from rocketeer.spark.sessions import session

_SESSION: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.streaming.numRecentProgressUpdates": "2000",
}


class Peaks:
    """The largest anonymous memory of any Python worker on this machine, looked at all the time."""

    def __init__(self) -> None:
        self.worker_mb = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Peaks":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(0.1):
            for folder in Path("/proc").glob("[0-9]*"):
                try:
                    command = (folder / "cmdline").read_bytes()
                    if b"pyspark.daemon" in command or b"pyspark.worker" in command:
                        status = (folder / "status").read_text()
                        kb = int(status.split("RssAnon:")[1].split()[0])
                        self.worker_mb = max(self.worker_mb, kb // 1024)
                except (OSError, IndexError, ValueError):
                    continue  # it has ended meanwhile


class CpuMeter:
    """CPU time since it was made of the JVM and of all Python processes Spark has; not of this one, which measures.

    `only_python`: without the JVM. What a process used that ended meanwhile is not known.
    """

    def __init__(self, *, only_python: bool = False) -> None:
        self._only_python = only_python
        self._before = self._ticks()

    def seconds(self) -> float:
        spent = sum(ticks - self._before.get(pid, 0) for pid, ticks in self._ticks().items())
        return spent / os.sysconf("SC_CLK_TCK")

    def _ticks(self) -> dict[int, int]:
        parents: dict[int, int] = {}
        spent: dict[int, int] = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                # The JVM's command line has "pyspark", too: "pyspark-shell".
                is_java = (folder / "comm").read_text() == "java\n"
            except OSError:
                continue  # it has ended meanwhile
            parents[int(folder.name)] = int(fields[1])
            if not (is_java and self._only_python):
                spent[int(folder.name)] = int(fields[11]) + int(fields[12])
        ours = {os.getpid()}
        while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
            ours |= more
        return {pid: ticks for pid, ticks in spent.items() if pid in ours and pid != os.getpid()}


def rates_in_turn(work: Mapping[str, Callable[[], object]], count: int, rounds: int) -> dict[str, int]:
    """Records/s of each piece of work, the median of all rounds after one that warms up.

    The pieces take turns, so that a noisy moment of the machine hits them alike.
    """
    rates: dict[str, list[float]] = {name: [] for name in work}
    for number in range(rounds + 1):
        for name, once in work.items():
            began_s = time.monotonic()
            once()
            rate = count / (time.monotonic() - began_s)
            if number:
                rates[name].append(rate)
            which = f"round {number} of {rounds}" if number else "warming up"
            print(f"{which}: {name} {rate:,.0f}/s", flush=True)
    return {name: round(statistics.median(found)) for name, found in rates.items()}


def report(measure: Callable[[SparkSession, dict[str, Any]], dict[str, Any]]) -> None:
    """The whole of a measuring process: the plan from the command line, a session, the figures as one line."""
    plan = json.loads(sys.argv[1])
    config = _SESSION | ({"spark.driver.extraClassPath": plan["classes"]} if "classes" in plan else {})
    spark = session("rocketeer-bench", master=plan["master"], config=config)
    spark.sparkContext.setLogLevel("ERROR")
    with Peaks() as peaks:
        figures = measure(spark, plan)
    figures["python worker peak MB"] = peaks.worker_mb
    spark.stop()
    print("FIGURES " + json.dumps(figures), flush=True)
