"""What something costs a broker that is busy: its throughput beside and during that, within one load that goes on.

Runs one after the other differ by ten percent and more on most machines (disks, other programs); neighbouring
seconds of one run do not.
"""

import statistics
import threading
import time
from bisect import bisect_left
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from rocketeer.bench.control import Control
from rocketeer.bench.run import Measured
from rocketeer.bench.session import BenchServer, LoadPlan, prepare, run_send
from rocketeer.errors import RocketeerError

SAMPLE_S: Final = 0.05
STEADY_S: Final = 3.0
"""A load is steady so long after it began to be stored."""
_BEGIN_S: Final = 60.0


class Samples:
    """How many messages there were at which moment; in between it is taken to be even."""

    def __init__(self) -> None:
        self.times_s: list[float] = []
        self.counts: list[int] = []

    def add(self, moment_s: float, count: int) -> None:
        self.counts.append(count)
        self.times_s.append(moment_s)

    def rate(self, begin_s: float, end_s: float) -> float:
        """Messages a second between two moments."""
        return (self._at(end_s) - self._at(begin_s)) / (end_s - begin_s)

    def _at(self, moment_s: float) -> float:
        times, counts = self.times_s, self.counts
        if not times or not times[0] <= moment_s <= times[-1]:
            raise RocketeerError("the load was over before all was measured")
        after = max(bisect_left(times, moment_s), 1)
        span_s = times[after] - times[after - 1]
        share = (moment_s - times[after - 1]) / span_s if span_s else 0.0
        return counts[after - 1] + share * (counts[after] - counts[after - 1])


class Meter:
    """Notes how many messages a topic has, again and again: the end of one queue of many that fill alike."""

    def __init__(self, server: BenchServer, topic: str, queues: int) -> None:
        self._server = server
        self._topic = topic
        self._queues = queues
        self.samples = Samples()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with Control(self._server.address, timeout_s=30) as control:
            while not self._stop.wait(SAMPLE_S):
                asked_s = time.monotonic()
                count = control.max_offset(self._topic, 0) * self._queues
                self.samples.add((asked_s + time.monotonic()) / 2, count)

    @property
    def count(self) -> int:
        return self.samples.counts[-1] if self.samples.counts else 0

    def wait_past(self, moment_s: float) -> None:
        """Until there is a sample of after that."""
        give_up_s = moment_s + _BEGIN_S
        while not self.samples.times_s or self.samples.times_s[-1] <= moment_s:
            if time.monotonic() > give_up_s or not self._thread.is_alive():
                raise RocketeerError(f"{self._server.label} does not tell where {self._topic} ends")
            time.sleep(SAMPLE_S)


class SteadyLoad:
    """Sends that go on while the block lasts, measured: `meter` knows their rate at any moment of it."""

    def __init__(self, server: BenchServer, plan: LoadPlan, mode: str) -> None:
        target = prepare(server, plan)
        self.meter = Meter(server, target.topics[0], plan.queues)
        self._server, self._plan, self._mode = server, plan, mode
        self._measured: Measured | None = None
        self._error: RocketeerError | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self._measured = run_send(self._server, self._plan, self._mode)
        except RocketeerError as error:
            self._error = error

    def __enter__(self) -> Self:
        self.meter.__enter__()
        self.meter.wait_past(time.monotonic())
        before, give_up_s = self.meter.count, time.monotonic() + _BEGIN_S
        self._thread.start()
        while self.meter.count <= before and self._thread.is_alive() and time.monotonic() < give_up_s:
            time.sleep(SAMPLE_S)
        time.sleep(STEADY_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.meter.wait_past(time.monotonic())
        self._thread.join()
        self.meter.__exit__(kind, error, trace)

    @property
    def measured(self) -> Measured:
        """After the block. Raises what the load ended with."""
        if self._error is not None:
            raise self._error
        assert self._measured is not None
        return self._measured


def lost_shares(samples: Samples, moments_s: Sequence[float], span_s: float) -> list[float]:
    """Lost shares of the throughput in the span from each moment on, against the spans before and after it."""
    shares = []
    for moment_s in moments_s:
        during = samples.rate(moment_s, moment_s + span_s)
        before = samples.rate(moment_s - span_s, moment_s)
        after = samples.rate(moment_s + span_s, moment_s + 2 * span_s)
        beside = (before + after) / 2
        if beside > 0:
            shares.append(1 - during / beside)
    return shares


def typical(shares: Sequence[float]) -> float:
    """The median of the shares: one stall of the disk does not count."""
    if not shares:
        raise RocketeerError("nothing was sent while it was measured: is the broker refusing messages?")
    return statistics.median(shares)
