"""Progress on the terminal while a job runs: one line that is rewritten, or a line every few seconds into a file."""

import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TextIO

from rocketeer.spark.source.offsets import lag_of, read_offsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TTY_INTERVAL_S: Final = 0.5
FILE_INTERVAL_S: Final = 5.0
_CLEAR_LINE: Final = "\r\x1b[K"


def progress_line(
    name: str,
    *,
    rows: int,
    seconds: float,
    batch: int | None = None,
    lag: int | None = None,
) -> str:
    """`archive  batch 3  120,000 rows  60,000 rows/s  lag 1,200  2 s`"""
    parts = [name]
    if batch is not None:
        parts.append(f"batch {batch}")
    parts += [f"{rows:,} rows", f"{rows / max(seconds, 0.001):,.0f} rows/s"]
    if lag is not None:
        parts.append(f"lag {lag:,}")
    parts.append(f"{seconds:,.0f} s")
    return "  ".join(parts)


class JobProgress:
    """Shows how far a job is; with `quiet` it shows nothing."""

    def __init__(self, name: str, *, quiet: bool = False, out: TextIO | None = None) -> None:
        self._name = name
        self._quiet = quiet
        self._out = out or sys.stderr
        self._tty = self._out.isatty()
        self._began_s = time.monotonic()
        self._shown_s = self._began_s
        self._open_line = False
        self._lock = threading.Lock()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began_s

    def show(
        self,
        rows: int,
        *,
        batch: int | None = None,
        lag: int | None = None,
        last: bool = False,
    ) -> None:
        """A new state of things; printed now, later or never, so call it often. `last`: printed in any case."""
        self.text(
            lambda: progress_line(self._name, rows=rows, seconds=self.seconds, batch=batch, lag=lag),
            last=last,
        )

    def text(self, make: Callable[[], str], *, last: bool = False) -> None:
        with self._lock:
            now_s = time.monotonic()
            interval_s = TTY_INTERVAL_S if self._tty else FILE_INTERVAL_S
            if self._quiet or (not last and now_s - self._shown_s < interval_s):
                return
            self._shown_s = now_s
            if self._tty:
                self._out.write(f"{_CLEAR_LINE}{make()}" + ("\n" if last else ""))
            else:
                self._out.write(f"{make()}\n")
            self._open_line = self._tty and not last
            self._out.flush()

    def end_line(self) -> None:
        """Before something else is printed."""
        with self._lock:
            if self._open_line:
                self._out.write("\n")
                self._out.flush()
                self._open_line = False

    def watch(self, query: "StreamingQuery", *, rows: Callable[[], int] | None = None) -> int:
        """Until the query has ended: batches, rows/s and lag. Returns the rows; raises what the query failed with.

        Whoever stops watching (Ctrl-C) stops the query. `rows` counts for queries whose input rows are no messages.
        """
        total, seen, batch, lag = 0, -1, None, None
        ended = False
        try:
            while not ended:
                ended = bool(query.awaitTermination(1))
                for progress in query.recentProgress:
                    state = progress if isinstance(progress, dict) else json.loads(progress.json)
                    if state["batchId"] > seen or (state["batchId"] == seen and not state["numInputRows"]):
                        total += state["numInputRows"] if state["batchId"] > seen else 0
                        seen = batch = state["batchId"]
                        lag = _lag(state)
                self.show(rows() if rows is not None else total, batch=batch, lag=lag)
        finally:
            self.end_line()
            with suppress(Exception):  # what ended it is what to raise; the JVM may be gone
                query.stop()
        count = rows() if rows is not None else total
        self.show(count, batch=batch, lag=lag, last=True)
        return count

    @contextmanager
    def during(self, spark: "SparkSession", what: str = "") -> Iterator[None]:
        """While a batch job of Spark runs in the block: its tasks, done and all."""
        done = threading.Event()
        tracker = spark.sparkContext.statusTracker()
        label = f"{self._name} {what}".strip()

        def watch() -> None:
            # A signal that this thread got would not wake the main one, which waits for the JVM.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
            while not done.wait(0.2):
                try:
                    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
                except (
                    Exception
                ):  # the session is being stopped, or is gone: whoever works in the block says why
                    return
                tasks = [(stage.numCompletedTasks, stage.numTasks) for stage in stages if stage is not None]
                if tasks:
                    text = ", ".join(f"{part}/{whole}" for part, whole in tasks)
                    self.text(lambda text=text: f"{label}  tasks {text}  {self.seconds:,.0f} s")  # type: ignore[misc]

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
            self.end_line()


def _lag(state: Mapping[str, Any]) -> int | None:
    found = [
        lag_of(_offsets(source.get("latestOffset")), _offsets(source.get("endOffset")))
        for source in state["sources"]
    ]
    known = [lag for lag in found if lag is not None]
    return sum(known) if known else None


def _offsets(value: Any) -> Mapping[str, Any] | None:
    """None for those of sources other than ours."""
    offsets = read_offsets(value) or {}
    return offsets if all(isinstance(brokers, dict) for brokers in offsets.values()) else None
