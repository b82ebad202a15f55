"""Turns what is counted into figures over time: every second some steps, too small for anybody to notice.

Counters and queues' ends --> Rates (totals, 10/60/600 s) and one History a kind of figure (minute, hour, day)
"""

import time
from typing import Final, NamedTuple

from rocketeer.clock import Clock
from rocketeer.observe.counters import Counters
from rocketeer.observe.history import SAMPLE_S, Figure, Figures, History
from rocketeer.observe.kinds import EVENTS, kinds
from rocketeer.observe.rates import Rates
from rocketeer.observe.stored import StoredTopics
from rocketeer.steps import Steps, finish

TICK_S: Final = 1.0
CATCH_UP_S: Final = 0.002
PUT_TIMES_S: Final = 60.0
TOTALS: Final = ("put", "found", "missed", "transferred", "got")


class MeanFigure(NamedTuple):
    """A figure, and its mean for each event that added to it."""

    figure: Figure
    average: float


class DayTotals:
    """What totals were at midnight, today and yesterday; they are counts since the start."""

    def __init__(self) -> None:
        self._day: tuple[int, int] | None = None
        self.today: tuple[int, int] = (0, 0)
        """Messages put and got since the start, when today began."""
        self.yesterday: tuple[int, int] = (0, 0)

    def tick(self, now_ms: int, put: int, got: int) -> None:
        moment = time.localtime(now_ms / 1000)
        day = (moment.tm_year, moment.tm_yday)
        if self._day is not None and day != self._day:
            self.yesterday, self.today = self.today, (put, got)
        self._day = day


class Recorder:
    """One of them for a broker. Belongs to the loop thread."""

    def __init__(self, counters: Counters, stored: StoredTopics, clock: Clock, *, cluster: str) -> None:
        self.counters = counters
        self.stored = stored
        self._clock = clock
        self.rates = Rates(TOTALS)
        self.days = DayTotals()
        self.start_ms = clock.now_ms()
        self._start_s = clock.monotonic_s()
        self._kinds = kinds(counters, stored, cluster)
        self._histories: dict[str, History[str]] = {name: History(self._start_s) for name in self._kinds}
        self._sampled_s = dict.fromkeys(self._kinds, self._start_s)
        self._put_before = 0
        self._looked_s = self._start_s
        self.late_ms = 0
        self._due_s = self._start_s + TICK_S
        none = ([0] * len(counters.put_times), [0] * len(counters.put_us))
        self._put_times = [(self._start_s, *none)]
        """When it was, and what had been counted then; the last two of these."""

    def start(self) -> None:
        """Begin to count, when the store is open: what is in it was there before."""
        self.stored.start()
        self.start_ms = self._clock.now_ms()
        self.rates.sample(self._clock.monotonic_s(), (0,) * len(TOTALS))

    # --- every second ------------------------------------------------------------------------

    def tick(self) -> Steps[None]:
        now_s = self._clock.monotonic_s()
        counters = self.counters
        put = counters.puts
        self._notice_lateness(now_s)
        self._turn_put_times(now_s)
        found, missed = counters.pulls_found, counters.pulls_missed
        self.rates.sample(now_s, (put, found, missed, counters.messages_out, found + missed))
        self.days.tick(self._clock.now_ms(), put, counters.messages_out)
        self._look_at_sizes(put, now_s)
        # One kind of figure a step: the one that waited longest, if its time has come.
        name = min(self._sampled_s, key=self._sampled_s.__getitem__)
        if now_s - self._sampled_s[name] >= SAMPLE_S - TICK_S / 2:
            self._sampled_s[name] = now_s
            yield from self._sample(name, now_s)

    def _sample(self, name: str, now_s: float) -> Steps[None]:
        kind, history = self._kinds[name], self._histories[name]
        if kind.from_first_question:  # few, and not to be interrupted by a question
            finish(history.sample(finish(kind.counts()), now_s))
        else:
            yield from history.sample((yield from kind.counts()), now_s)

    def _look_at_sizes(self, put: int, now_s: float) -> None:
        """Add up sizes for a slice; without new messages only now and then (a slave's come by another way)."""
        if put == self._put_before and now_s - self._looked_s < SAMPLE_S:
            return
        until_s = time.perf_counter() + CATCH_UP_S
        if self.stored.catch_up(lambda: time.perf_counter() > until_s):
            self._put_before, self._looked_s = put, now_s

    def catch_up(self) -> Steps[None]:
        """Look at the sizes of all messages that came since the last time, in steps."""
        while not self.stored.catch_up(lambda: True):
            yield

    def _notice_lateness(self, now_s: float) -> None:
        """Note how late this step runs: requests wait for their turn of the loop as long."""
        self.late_ms = max(0, int((now_s - self._due_s) * 1000))
        self._due_s = now_s + TICK_S

    def _turn_put_times(self, now_s: float) -> None:
        if now_s - self._put_times[-1][0] >= PUT_TIMES_S:
            counters = self.counters
            self._put_times = [self._put_times[-1], (now_s, list(counters.put_times), list(counters.put_us))]

    # --- asking ------------------------------------------------------------------------------

    def figures(self, name: str, key: str) -> Steps[tuple[MeanFigure, MeanFigure, MeanFigure] | None]:
        """Over the last minute, hour and day; None for what was never counted. `catch_up` first, for sizes."""
        kind = self._kinds.get(name)
        if kind is None or name in EVENTS:
            return None
        count = yield from kind.count(key)
        if count is None:
            return None
        sums = self._figures(name, key, count)
        if kind.events is None:
            minute, hour, day = (MeanFigure(each, 1.0 if each.sum else 0.0) for each in sums)
            return minute, hour, day
        times = (yield from self._kinds[kind.events].count(key)) or 0
        events = self._figures(kind.events, key, times)
        minute, hour, day = (
            MeanFigure(each, each.sum / times.sum if times.sum else 0.0)
            for each, times in zip(sums, events, strict=True)
        )
        return minute, hour, day

    def put_times(self) -> list[int]:
        """Messages by PUT_BUCKETS_MS, of the last minute or two."""
        _, before, _ = self._put_times[0]
        return [now - past for now, past in zip(self.counters.put_times, before, strict=True)]

    def put_ms_at(self, share: float) -> float:
        """The ms in which this share of the last minute or two's messages were put; 0.0 when there are none."""
        _, _, before = self._put_times[0]
        counts = [now - past for now, past in zip(self.counters.put_us, before, strict=True)]
        left = sum(counts) * share
        for place, count in enumerate(counts):
            left -= count
            if count and left <= 0:
                return float(1 << place) / 1000
        return 0.0

    def group_get_tps(self, topic: str, group: str) -> float:
        """Messages a second the group got of the topic in the last minute."""
        return self.minute_tps("GROUP_GET_NUMS", f"{topic}@{group}")

    def minute_tps(self, name: str, key: str) -> float:
        """How fast a count grew in the last minute, a second; 0.0 for what was never counted. Not of topics: what is
        read off their queues takes steps."""
        count = finish(self._kinds[name].count(key))
        return 0.0 if count is None else self.tps_of(name, key, count)

    def tps_of(self, name: str, key: str, count: int) -> float:
        """How fast a known count grew in the last minute, a second."""
        return self._histories[name].minute(key, count, self._clock.monotonic_s()).tps if count else 0.0

    def _figures(self, name: str, key: str, count: int) -> Figures:
        history = self._histories[name]
        if self._kinds[name].from_first_question:
            history.watch(key, count)
        return history.figures(key, count, self._clock.monotonic_s())
