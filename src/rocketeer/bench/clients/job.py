"""What a client process is asked to do, and what it reports: JSON on its command line, one JSON line on stdout.

In between: the stopwatch, and the loops that both libraries are measured in.
"""

import itertools
import threading
import time
from collections.abc import Callable
from typing import Final, Literal

import msgspec

from rocketeer.bench.histogram import Latencies, LatencyCounts

Library = Literal["ours", "cpp"]
Mode = Literal["sync", "threads", "async", "gather", "oneway", "batch", "push"]

BATCH: Final = 32
QUEUES: Final = 4


class ClientJob(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one library. Sends last `seconds` after `warmup_s`; consumption ends with `count` messages."""

    library: Library
    mode: Mode
    namesrv: str
    topic: str
    group: str
    seconds: float = 3.0
    warmup_s: float = 1.0
    body_bytes: int = 1024
    at_once: int = 1
    """Sends under way at a time: threads, tasks or callbacks."""
    count: int = 0
    """Messages to consume, or to gather."""
    listener_batch: int = 1
    """Ours only: how many messages a listener is given at a time."""
    uvloop: bool = False
    """Ours only: on uvloop, with the garbage collector at long intervals, as servers are run."""
    aio: bool = False
    """Ours only: consume with coroutines instead of threads."""


class RunFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What one run measured; the process's own CPU time is what a noisy machine changes least."""

    messages: int
    seconds: float
    cpu_s: float
    sent: int = 0
    """All that was sent, the warm-up too: what the queues must have grown by."""
    ended_ns: int = 0
    """When the last send returned, by the system's monotonic clock."""
    p50_us: int = 0
    p99_us: int = 0


class Stopwatch:
    """Counts what happens between the end of the warm-up and the end of the run."""

    def __init__(self, job: ClientJob) -> None:
        now_s = time.perf_counter()
        self.counts = LatencyCounts()
        self._warm_s = now_s + job.warmup_s
        self.end_s = self._warm_s + job.seconds
        self._began_s = 0.0
        self._cpu_s = 0.0
        self._before = 0

    def lap(self, began_s: float, ended_s: float, sent: int) -> bool:
        """One request took this long, with `sent` messages so far; True when it was the last."""
        if self._began_s:
            self.counts.add(int((ended_s - began_s) * 1e6))
        elif ended_s >= self._warm_s:
            self._cpu_s = time.process_time()
            self._before = sent
            self._began_s = ended_s
        return ended_s >= self.end_s

    def figures(self, sent: int, *, sent_in_time: int | None = None) -> RunFigures:
        """Call it when the last send has returned."""
        ended_s = time.perf_counter()
        latencies = Latencies([self.counts.sparse()])
        return RunFigures(
            messages=(sent if sent_in_time is None else sent_in_time) - self._before,
            seconds=ended_s - self._began_s,
            cpu_s=time.process_time() - self._cpu_s,
            sent=sent,
            ended_ns=time.monotonic_ns(),
            p50_us=latencies.percentile_us(0.5),
            p99_us=latencies.percentile_us(0.99),
        )


def repeat(job: ClientJob, send: Callable[[int], object], each: int = 1) -> RunFigures:
    """One thread, one call at a time; each call sends so many messages and is given its number."""
    watch = Stopwatch(job)
    for number in itertools.count(1):
        began_s = time.perf_counter()
        send(number)
        if watch.lap(began_s, time.perf_counter(), number * each):
            return watch.figures(number * each)
    raise AssertionError("itertools.count ended")


def repeat_in_threads(job: ClientJob, send: Callable[[int], object]) -> RunFigures:
    """As many threads as sends at once."""
    numbers = itertools.count(1)  # next() on it is atomic, whatever thread calls
    watch = Stopwatch(job)
    sent = [0] * job.at_once

    def run(slot: int) -> None:
        while True:
            number = next(numbers)
            began_s = time.perf_counter()
            send(number)
            sent[slot] += 1
            if watch.lap(began_s, time.perf_counter(), number):
                return

    running = [threading.Thread(target=run, args=(slot,)) for slot in range(job.at_once)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return watch.figures(sum(sent))
