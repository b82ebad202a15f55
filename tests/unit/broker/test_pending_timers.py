"""Laws of the timers that wait; the time is an argument, so weeks pass in milliseconds."""

import random
import sys
import tracemalloc
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from rocketeer.broker.features.timer import block
from rocketeer.broker.features.timer.block import ENTRY, ROW, Block, Timer
from rocketeer.broker.features.timer.pending import LOOK_BLOCKS, ROWS_MAX, PendingTimers

NOW = 1_700_000_000_000
DAY_MS = 86_400_000
MANY = 200_000


def run(pending: PendingTimers, start_ms: int, until_ms: int, step_ms: int) -> list[tuple[int, Timer]]:
    """(when, what) was taken."""
    taken = []
    for now_ms in range(start_ms, until_ms + step_ms, step_ms):
        while some := pending.take(now_ms, 100):
            taken += [(now_ms, timer) for timer in some]
    return taken


def rows_of(timers: list[Timer]) -> np.ndarray:  # type: ignore[type-arg]
    return np.array([tuple(timer) for timer in timers], ROW)


def loaded(due_ms: object) -> PendingTimers:
    """`MANY` timers with these times, one number or many; their offsets are 0, 1, 2, ..., and so are their keys."""
    rows = np.zeros(MANY, ROW)
    rows["due"] = due_ms
    rows["offset"] = rows["key"] = np.arange(MANY)
    pending = PendingTimers()
    pending.load(rows)
    return pending


# --- when and in which order they come --------------------------------------------------------


@pytest.mark.parametrize("within_ms", [50, 3_000, 200_000, 10_000_000, 40 * DAY_MS])
def test_timers_come_when_due_and_never_before(within_ms: int) -> None:
    pending = PendingTimers()
    dice = random.Random(within_ms)
    timers = [Timer(NOW + dice.randrange(within_ms), n, n) for n in range(500)]
    for timer in timers:
        pending.add(timer)
    step = max(1, within_ms // 150)
    taken = run(pending, NOW, NOW + within_ms, step)
    assert [timer for _, timer in taken] == sorted(timers)
    assert len(pending) == 0
    assert all(0 <= now_ms - timer.due_ms < step for now_ms, timer in taken)


def test_equal_times_come_in_the_order_they_were_added() -> None:
    pending = PendingTimers()
    for n in range(3 * ROWS_MAX):
        pending.add(Timer(NOW + 200_000, n, 0))
    taken = run(pending, NOW, NOW + 200_000, 50)
    assert [timer.log_offset for _, timer in taken] == list(range(3 * ROWS_MAX))


def test_a_timer_of_the_past_or_of_this_moment_is_ready_at_once() -> None:
    pending = PendingTimers()
    for due_ms in (0, NOW - 1, NOW):
        pending.add(Timer(due_ms, due_ms, 0))
    assert [timer.due_ms for timer in pending.take(NOW, 10)] == [0, NOW - 1, NOW]


def test_a_clock_set_back_delivers_nothing_early_and_nothing_is_lost() -> None:
    pending = PendingTimers()
    assert pending.take(NOW + 7_200_000, 10) == []
    for n in range(100):
        pending.add(Timer(NOW + n * 60_000, n, 0))
    assert [timer.due_ms for timer in pending.take(NOW, 1000)] == [NOW]
    pending.add(Timer(NOW + 30_000, 1000, 0))
    taken = run(pending, NOW, NOW + 100 * 60_000, 1_000)
    assert len(taken) == 100
    assert all(0 <= now_ms - timer.due_ms < 1_000 for now_ms, timer in taken)


def test_what_was_taken_and_put_back_comes_first() -> None:
    pending = PendingTimers()
    for n in range(10):
        pending.add(Timer(NOW, n, 0))
    for timer in pending.take(NOW, 5)[2:]:
        pending.add(timer)
    assert [timer.log_offset for timer in pending.take(NOW, 100)] == [2, 3, 4, 5, 6, 7, 8, 9]


def test_it_says_how_many_are_due_and_since_when() -> None:
    pending = PendingTimers()
    assert pending.due(NOW) == (0, 0)
    for n in range(5 * ROWS_MAX):
        pending.add(Timer(NOW + n, n, 0))
    assert pending.due(NOW - 1) == (0, 0)
    for late_ms in (0, 1, ROWS_MAX - 1, ROWS_MAX, 3 * ROWS_MAX + 7):
        assert pending.due(NOW + late_ms) == (late_ms + 1, NOW)
    assert pending.due(NOW + DAY_MS) == (5 * ROWS_MAX, NOW)


# --- those that end otherwise ------------------------------------------------------------------


def found(pending: PendingTimers, timer: Timer) -> list[Timer]:
    return [each for some in pending.find(timer.due_ms, timer.key) for each in some]


def test_a_removed_timer_is_found_no_more_wherever_it_was() -> None:
    pending = PendingTimers()
    timers = [Timer(NOW + n // 3 % 5_000 * 1_000, n, n) for n in range(20_000)]
    for timer in timers:
        pending.add(timer)
    for timer in timers[::2]:
        assert pending.remove(timer)
        assert not pending.remove(timer)
    for timer in timers[::500]:
        assert found(pending, timer) == []
    for timer in timers[1::500]:
        assert found(pending, timer) == [timer]
    taken = run(pending, NOW, NOW + 5_000 * 1_000, 1_000_000)
    assert [timer for _, timer in taken] == sorted(timers[1::2])


def test_all_of_one_time_and_hash_are_found() -> None:
    pending = loaded(NOW + 5)
    more = [Timer(NOW + 5, MANY + n, 7) for n in range(3)]
    for timer in [*more, Timer(NOW + 4, MANY + 3, 7), Timer(NOW + 6, MANY + 4, 7)]:
        pending.add(timer)
    assert found(pending, more[0]) == [Timer(NOW + 5, 7, 7), *more]


def test_what_stands_below_an_offset_can_be_taken_out_to_be_rolled_forward() -> None:
    pending = PendingTimers()
    for n in range(1000):
        pending.add(Timer(NOW + 1 + n * 100_000, n, 0))
    assert pending.oldest() == 0
    out: list[Timer] = []
    while some := pending.take_below(600, 77):
        assert len(some) <= 77
        out += some
    assert sorted(timer.log_offset for timer in out) == list(range(600))
    assert (pending.oldest(), len(pending)) == (600, 400)
    left = [timer.log_offset for _, timer in run(pending, NOW, NOW + 10**8 + 10**6, 10**5)]
    assert left == list(range(600, 1000))
    assert pending.oldest() is None


# --- what it costs -----------------------------------------------------------------------------


class Looks:
    """Counts the entries that numpy is given to look at, and the blocks that are cut or copied for it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows = 0
        whole, since = Block.rows, Block.since

        def rows(self_: Block) -> block.TimerRows:
            self.rows += len(self_)
            return whole(self_)

        def some(self_: Block, place: block.TimerKey) -> bytes:
            entries = since(self_, place)
            self.rows += len(entries) // ROW.itemsize
            return entries

        monkeypatch.setattr(Block, "rows", rows)
        monkeypatch.setattr(Block, "since", some)

    def of(self, step: Callable[[], object]) -> int:
        self.rows = 0
        step()
        return self.rows


def each_step(steps: Iterator[object], looks: Looks) -> list[int]:
    costs: list[int] = []
    while True:
        try:
            costs.append(looks.of(lambda: next(steps)))
        except StopIteration:
            return costs


@pytest.mark.parametrize("within_ms", [1, 1_000, 40 * DAY_MS])
def test_no_step_looks_at_more_than_a_few_blocks_however_the_times_were_chosen(
    monkeypatch: pytest.MonkeyPatch, within_ms: int
) -> None:
    due_ms = NOW + np.random.default_rng(1).integers(0, within_ms, MANY)
    pending = loaded(due_ms)
    timers = [Timer(int(due), n, n) for n, due in enumerate(due_ms.tolist())]
    looks = Looks(monkeypatch)
    assert max(each_step(pending.find(timers[5].due_ms, 5), looks)) <= ROWS_MAX
    for timer in timers[::97]:
        assert looks.of(lambda timer=timer: pending.remove(timer)) <= 2 * ROWS_MAX  # type: ignore[misc]
        assert looks.of(lambda timer=timer: pending.add(timer)) <= 2 * ROWS_MAX  # type: ignore[misc]
    assert looks.of(pending.oldest) == 0
    assert looks.of(lambda: pending.due(NOW + DAY_MS)) == 0
    copied = each_step(pending.copy(), looks)
    assert len(copied) >= MANY // ROWS_MAX // LOOK_BLOCKS
    while len(pending) > MANY // 2:
        assert looks.of(lambda: pending.take_below(MANY // 2, 10_000)) <= 2 * LOOK_BLOCKS * ROWS_MAX
    while len(pending):
        assert looks.of(lambda: pending.take(NOW + 40 * DAY_MS, 64)) <= ROWS_MAX


def test_the_end_of_timers_in_their_order_looks_at_none_but_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slave follows its master at the master's pace, also through fifty thousand timers of one millisecond."""
    pending = loaded(NOW)
    looks = Looks(monkeypatch)
    costs = [looks.of(lambda n=n: pending.remove(Timer(NOW, n, n))) for n in range(50_000)]  # type: ignore[misc]
    assert len(pending) == MANY - 50_000
    assert max(costs) <= ROWS_MAX


@pytest.mark.parametrize("first", [0, ROWS_MAX, 3 * ROWS_MAX])
def test_times_that_go_down_fill_their_blocks_as_others_do(first: int) -> None:
    """Each behind a full block and before the one added last: there was a block for each."""
    pending = PendingTimers()
    timers = [Timer(NOW + n, n, 0) for n in range(first)]
    timers += [Timer(NOW + DAY_MS - n, first + n, 0) for n in range(2 * ROWS_MAX + 100)]
    timers += [Timer(NOW + DAY_MS // 2 - n, len(timers) + n, 0) for n in range(ROWS_MAX)]
    for timer in timers:
        pending.add(timer)
    assert len(pending._blocks) <= len(timers) // (ROWS_MAX // 4) + 2
    taken: list[Timer] = []
    while some := pending.take(NOW + DAY_MS, 1000):
        taken += some
    assert taken == sorted(timers)


def test_blocks_left_small_by_what_stood_between_them_are_put_together() -> None:
    pending = PendingTimers(rows_max=16)
    for n in range(16 * 16):
        block_number, row = divmod(n, 16)
        goes_last = 1_000 if block_number % 2 else 0
        stays = 2_000 if not block_number % 2 and row == 0 else 0
        pending.add(Timer(NOW + n, n + goes_last + stays, 0))
    for below in (1_000, 2_000):
        while pending.take_below(below, 1_000):
            pass
    assert len(pending) == 8
    assert len(pending._blocks) == 2


def test_blocks_that_became_small_are_put_together() -> None:
    pending = PendingTimers()
    dice = random.Random(1)
    timers = [Timer(NOW + dice.randrange(1_000), n, n) for n in range(20 * ROWS_MAX)]
    for timer in timers:
        pending.add(timer)
    full = len(pending._blocks)
    assert full <= 60
    for timer in timers[: -len(timers) // 100]:
        assert pending.remove(timer)
    assert len(pending._blocks) <= 4
    assert [timer for _, timer in run(pending, NOW, NOW + 1_000, 10)] == sorted(timers[-len(timers) // 100 :])


def test_a_pending_timer_takes_less_than_a_hundred_bytes() -> None:
    count = 30_000
    dice = random.Random(1)
    tracemalloc.start()
    pending = PendingTimers()
    for n in range(count):
        pending.add(Timer(NOW + dice.randrange(40 * DAY_MS), 1_000_000 + 300 * n, n))
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used / count < 40, f"{used / count:.1f} bytes each, python {sys.version}"


def test_a_million_timers_are_loaded_quickly() -> None:
    rows = np.zeros(1_000_000, ROW)
    rows["due"] = NOW + np.random.default_rng(1).integers(0, 40 * DAY_MS, 1_000_000)
    rows["offset"] = np.arange(1_000_000) * 300
    pending = PendingTimers()
    pending.load(rows)
    assert len(pending) == 1_000_000
    assert pending.oldest() == 0


def test_a_block_grows_while_a_look_at_the_stack_keeps_its_rows_alive() -> None:
    """A stalled loop's stack was told with the variables in it: timers could not be added any more."""
    pending = PendingTimers()
    first, second, third = (Timer(NOW + 60_000, offset, offset) for offset in (10, 20, 30))
    pending.add(first)
    seen = [each.rows() for each in pending._blocks]
    assert len(seen) == 1
    pending.add(second)
    assert pending.remove(first)
    pending.add(third)
    assert [timer for _, timer in run(pending, NOW, NOW + 61_000, 1_000)] == [second, third]


def test_a_copy_has_whatever_waits_all_the_time_once() -> None:
    """Blocks are split and put together between its pieces."""
    dice = random.Random(1)
    for _ in range(20):
        pending = PendingTimers(rows_max=16)
        timers = [Timer(NOW + dice.randrange(1_000), n, n) for n in range(2_000)]
        for timer in timers:
            pending.add(timer)
        dice.shuffle(timers)
        copied = []
        for piece in pending.copy():
            copied += [Timer(*entry) for entry in ENTRY.iter_unpack(piece)]
            for _ in range(60):
                if timers:
                    pending.remove(timers.pop())
            for n in range(50):
                pending.add(Timer(NOW + dice.randrange(1_000), 10_000 + n + 100 * len(copied), 0))
        assert len(copied) == len(set(copied))
        assert len(timers) > 100
        assert not set(timers) - set(copied)


@pytest.mark.parametrize("pieces", [1, 2, 3])
def test_a_copy_has_them_once_when_a_block_begins_earlier_meanwhile(pieces: int) -> None:
    pending = PendingTimers(rows_max=16)
    timers = [Timer(NOW + 1_000 * n, n, n) for n in range(16 * 4 * LOOK_BLOCKS)]
    for timer in timers:
        pending.add(timer)
    copy = pending.copy()
    copied = b"".join([next(copy) for _ in range(pieces)])
    between = timers[16 * LOOK_BLOCKS * pieces].due_ms  # the next piece begins with it
    new = [Timer(between - n, len(timers) + n, 0) for n in range(1, 999)]
    for timer in new:
        pending.add(timer)
        assert found(pending, timer) == [timer]
    copied += b"".join(copy)
    entries = [Timer(*entry) for entry in ENTRY.iter_unpack(copied)]
    assert [timer for timer in entries if timer not in new] == timers
    assert len(entries) == len(set(entries))
