"""Any history of timers: what waits is what a sorted list would say, and a snapshot plus the log behind it is the whole."""

from itertools import pairwise
from pathlib import Path

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rocketeer.broker.features.timer.block import ROW, Timer
from rocketeer.broker.features.timer.pending import PendingTimers
from rocketeer.broker.features.timer.restore import TimerRestore, key_hash
from rocketeer.broker.features.timer.snapshot import read_snapshot, write_snapshot
from rocketeer.model.topic import TIMER_TOPIC
from rocketeer.record.dispatch_entry import DispatchEntry
from support.stores import memory_folder

NOW = 1_700_000_000_000
RECORD_BYTES = 100
delays = st.one_of(
    st.integers(-1000, 50),
    st.integers(0, 5_000),
    st.integers(0, 200_000),
    st.integers(0, 10_000_000),
    st.integers(0, 40 * 86_400_000),
)


class Timers(RuleBasedStateMachine):
    """`log` is all that was stored; `waiting` is the naive truth: due time by log offset."""

    @initialize(rows_max=st.sampled_from([4, 7, 40]))
    def start(self, rows_max: int) -> None:
        self.rows_max = rows_max
        self.home = memory_folder()
        self.folder = Path(self.home.name)
        self.now_ms = NOW
        self.pending = PendingTimers(self.rows_max)
        self.log: list[DispatchEntry] = []
        self.waiting: dict[int, int] = {}
        self.log_min = 0
        self.copying: tuple[int, list[bytes], object] | None = None

    def teardown(self) -> None:
        if hasattr(self, "home"):
            self.home.cleanup()

    def store(self, topic: str, due_ms: int = 0, ended: int | None = None) -> int:
        offset = len(self.log) * RECORD_BYTES
        prepared = 0 if ended is None else ~ended
        self.log.append(
            DispatchEntry(
                offset, RECORD_BYTES, topic, 0, 0, due_ms, self.now_ms, "", f"id{offset}", 0, prepared
            )
        )
        return offset

    def begin(self, due_ms: int, ended: int | None = None) -> None:
        offset = self.store(TIMER_TOPIC, due_ms, ended)
        self.pending.add(Timer(due_ms, offset, key_hash(f"id{offset}")))
        self.waiting[offset] = due_ms

    @rule(some=st.lists(delays, min_size=1, max_size=20))
    def send(self, some: list[int]) -> None:
        for delay_ms in some:
            self.begin(self.now_ms + delay_ms)

    @rule(delay_ms=delays, count=st.integers(20, 100))
    def many_of_one_moment(self, delay_ms: int, count: int) -> None:
        due_ms = self.now_ms + delay_ms
        for _ in range(count):
            self.begin(due_ms)

    @rule(delay_ms=delays, blocks=st.integers(0, 2), down=st.integers(0, 100))
    def many_that_go_up_and_then_down(self, delay_ms: int, blocks: int, down: int) -> None:
        start_ms = self.now_ms + delay_ms
        top_ms = start_ms + blocks * self.rows_max
        for due_ms in (*range(start_ms, top_ms), *range(top_ms + down, top_ms, -1)):
            self.begin(due_ms)

    @rule()
    def others_send(self) -> None:
        self.store("T")

    @rule(ms=st.one_of(st.integers(0, 100), st.integers(0, 100_000), st.integers(0, 10 * 86_400_000)))
    def time_passes(self, ms: int) -> None:
        self.now_ms += ms

    @rule(ms=st.integers(1, 100_000))
    def the_clock_is_set_back(self, ms: int) -> None:
        self.now_ms -= ms

    @rule(count=st.integers(1, 50), kept=st.integers(0, 50))
    def deliver(self, count: int, kept: int) -> None:
        taken = self.pending.take(self.now_ms, count)
        for timer in taken[:kept]:
            assert timer.due_ms <= self.now_ms
            assert self.waiting.pop(timer.log_offset) == timer.due_ms
            self.store("T", ended=timer.log_offset)
        for timer in taken[kept:]:
            self.pending.add(timer)

    @rule()
    def deliver_everything(self) -> None:
        fallen_due = {offset for offset, due_ms in self.waiting.items() if due_ms <= self.now_ms}
        assert self.pending.due(self.now_ms)[0] == len(fallen_due)
        came = []
        while taken := self.pending.take(self.now_ms, 1000):
            for timer in taken:
                assert self.waiting.pop(timer.log_offset) == timer.due_ms
                self.store("T", ended=timer.log_offset)
            came += [(timer.due_ms, timer.log_offset) for timer in taken]
        assert came == sorted(came)
        assert {offset for _, offset in came} == fallen_due

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def recall(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from(sorted(self.waiting)))
        due_ms = self.waiting.pop(offset)
        timer = Timer(due_ms, offset, key_hash(f"id{offset}"))
        assert [timer] == [each for some in self.pending.find(due_ms, timer.key) for each in some]
        assert self.pending.remove(timer)
        assert not self.pending.remove(timer)
        assert [each for some in self.pending.find(due_ms, timer.key) for each in some] == []
        self.store(TIMER_TOPIC, 0, ended=offset)

    @rule(share=st.floats(0, 1), count=st.integers(1, 30))
    def retention(self, share: float, count: int) -> None:
        below = int(len(self.log) * share) * RECORD_BYTES
        while taken := self.pending.take_below(below, count):
            for timer in taken:
                assert self.waiting.pop(timer.log_offset) == timer.due_ms
                self.begin(timer.due_ms, ended=timer.log_offset)
        self.log_min = max(self.log_min, below)

    @rule()
    def a_snapshot_begins(self) -> None:
        self.copying = (len(self.log) * RECORD_BYTES, [], self.pending.copy())

    @precondition(lambda self: self.copying)
    @rule(steps=st.integers(1, 50))
    def a_snapshot_goes_on(self, steps: int) -> None:
        assert self.copying is not None
        offset, pieces, copy = self.copying
        if not pieces:  # the first piece is taken together with the log's end
            offset = len(self.log) * RECORD_BYTES
            self.copying = (offset, pieces, copy)
        for _ in range(steps):
            piece = next(copy, None)  # type: ignore[call-overload]
            if piece is None:
                write_snapshot(self.folder / "pending", offset, pieces)
                self.copying = None
                return
            pieces.append(piece)

    @rule()
    def the_broker_dies_and_starts(self) -> None:
        self.copying = None
        end = len(self.log) * RECORD_BYTES
        restoring = TimerRestore(read_snapshot(self.folder / "pending"), end)
        for entry in self.log:
            if entry.log_offset >= max(restoring.snapshot.log_offset, self.log_min):
                restoring.on_message(entry)
        rows = restoring.waiting(self.log_min)
        assert {int(row["offset"]): int(row["due"]) for row in rows} == self.waiting
        self.pending = PendingTimers(self.rows_max)
        self.pending.load(rows)

    @invariant()
    def it_counts_and_knows_the_oldest(self) -> None:
        if hasattr(self, "pending"):
            assert len(self.pending) == len(self.waiting)
            assert self.pending.oldest() == min(self.waiting, default=None)
            due = [due_ms for due_ms in self.waiting.values() if due_ms <= self.now_ms]
            assert self.pending.due(self.now_ms) == (len(due), min(due, default=0))

    @invariant()
    def its_blocks_are_in_order_and_neither_too_large_nor_too_many(self) -> None:
        if not hasattr(self, "pending"):
            return
        rows = np.frombuffer(b"".join(self.pending.copy()), ROW)
        assert [(int(row["due"]), int(row["offset"])) for row in rows] == sorted(
            (due_ms, offset) for offset, due_ms in self.waiting.items()
        )
        sizes = [len(block) for block in self.pending._blocks]
        assert all(0 < size <= self.rows_max for size in sizes)
        assert all(sum(pair) > self.rows_max // 4 for pair in pairwise(sizes))
        lows = self.pending._lows
        assert all(low <= block.first().place for low, block in zip(lows, self.pending._blocks, strict=True))
        assert all(block.ends_below(low) for low, block in zip(lows[1:], self.pending._blocks, strict=False))


Timers.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestTimers = Timers.TestCase
