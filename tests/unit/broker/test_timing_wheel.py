"""Laws of the timing wheel; the time is an argument, so weeks pass in milliseconds."""

import random
import sys
import tracemalloc

import numpy as np
import pytest

from rocketeer.broker.features.timer.wheel import MOVE_SLICE, ROW, SHIFTS, Timer, Wheel

NOW = 1_700_000_000_000
DAY_MS = 86_400_000


def run(wheel: Wheel, start_ms: int, until_ms: int, step_ms: int) -> list[tuple[int, Timer]]:
    """(when, what) was taken."""
    taken = []
    for now_ms in range(start_ms, until_ms + step_ms, step_ms):
        wheel.advance(now_ms)
        while some := wheel.take(now_ms, 100):
            taken += [(now_ms, timer) for timer in some]
    return taken


def rows_of(timers: list[Timer]) -> np.ndarray:  # type: ignore[type-arg]
    return np.array([tuple(timer) for timer in timers], ROW)


@pytest.mark.parametrize("shift", SHIFTS)
def test_timers_of_every_width_come_when_due_and_never_before(shift: int) -> None:
    wheel = Wheel(NOW)
    dice = random.Random(shift)
    width = 1 << shift
    timers = [Timer(NOW + dice.randrange(3 * width), n, n) for n in range(500)]
    for timer in timers:
        wheel.add(timer)
    step = max(1, width // 50)
    taken = run(wheel, NOW, NOW + 3 * width, step)
    assert sorted(timer for _, timer in taken) == sorted(timers)
    assert len(wheel) == 0
    # Behind a stride of the clock as long as a bucket's lead, moving it may take another call.
    assert all(0 <= now_ms - timer.due_ms <= 2 * step + 16 for now_ms, timer in taken)


def test_equal_times_come_in_the_order_they_were_added() -> None:
    wheel = Wheel(NOW)
    for n in range(3 * MOVE_SLICE):
        wheel.add(Timer(NOW + 200_000, n, 0))
    taken = run(wheel, NOW, NOW + 200_000, 50)
    assert [timer.log_offset for _, timer in taken] == list(range(3 * MOVE_SLICE))


def test_one_call_moves_a_bounded_number_of_timers() -> None:
    wheel = Wheel(NOW)
    wheel.load(rows_of([Timer(NOW + DAY_MS, n, 0) for n in range(5 * MOVE_SLICE)]), NOW)
    wheel.advance(NOW + DAY_MS)
    assert len(wheel.take(NOW + DAY_MS, 10**9)) == MOVE_SLICE
    assert len(wheel) == 4 * MOVE_SLICE


def test_a_timer_of_the_past_or_of_this_moment_is_ready_at_once() -> None:
    wheel = Wheel(NOW)
    for due_ms in (0, NOW - 1, NOW):
        wheel.add(Timer(due_ms, due_ms, 0))
    assert [timer.due_ms for timer in wheel.take(NOW, 10)] == [0, NOW - 1, NOW]


def test_a_clock_set_back_delivers_nothing_early_and_nothing_is_lost() -> None:
    wheel = Wheel(NOW)
    wheel.advance(NOW + 7_200_000)
    for n in range(100):
        wheel.add(Timer(NOW + n * 60_000, n, 0))
    wheel.advance(NOW)
    assert [timer.due_ms for timer in wheel.take(NOW, 1000)] == [NOW]
    wheel.add(Timer(NOW + 30_000, 1000, 0))
    taken = run(wheel, NOW, NOW + 100 * 60_000, 1_000)
    assert len(taken) == 100
    assert all(0 <= now_ms - timer.due_ms < 1_100 for now_ms, timer in taken)


def test_a_small_step_back_is_waited_for() -> None:
    wheel = Wheel(NOW)
    wheel.add(Timer(NOW + 40, 1, 0))
    wheel.advance(NOW + 50)
    wheel.advance(NOW + 20)
    assert wheel.take(NOW + 20, 10) == []
    assert len(wheel.take(NOW + 40, 10)) == 1


def test_what_was_taken_and_given_back_comes_first() -> None:
    wheel = Wheel(NOW)
    for n in range(10):
        wheel.add(Timer(NOW, n, 0))
    taken = wheel.take(NOW, 5)
    wheel.give_back(taken[2:])
    assert [timer.log_offset for timer in wheel.take(NOW, 100)] == [2, 3, 4, 5, 6, 7, 8, 9]


def test_a_removed_timer_is_found_no_more_wherever_it_was() -> None:
    wheel = Wheel(NOW)
    timers = [Timer(NOW + (1 << shift) * 2 + n, 100 * shift + n, n) for shift in SHIFTS for n in range(3)]
    for timer in timers:
        wheel.add(timer)
    for timer in timers[::2]:
        assert wheel.find(timer.due_ms, timer.key) == [timer]
        assert wheel.remove(timer)
        assert wheel.find(timer.due_ms, timer.key) == []
        assert not wheel.remove(timer)
    taken = run(wheel, NOW, NOW + (1 << SHIFTS[-1]) * 2 + 1000, 1 << 20)
    assert sorted(timer for _, timer in taken) == sorted(timers[1::2])


def test_what_stands_below_an_offset_can_be_taken_out_to_be_rolled_forward() -> None:
    wheel = Wheel(NOW)
    for n in range(1000):
        wheel.add(Timer(NOW + 1 + n * 100_000, n, 0))
    assert wheel.oldest() == 0
    out: list[Timer] = []
    while some := wheel.take_below(600, 77):
        assert len(some) <= 77
        out += some
    assert sorted(timer.log_offset for timer in out) == list(range(600))
    assert (wheel.oldest(), len(wheel)) == (600, 400)
    assert sorted(timer.log_offset for _, timer in run(wheel, NOW, NOW + 10**8 + 10**6, 10**5)) == list(
        range(600, 1000)
    )
    assert wheel.oldest() is None


def test_a_pending_timer_takes_less_than_a_hundred_bytes() -> None:
    count = 30_000
    dice = random.Random(1)
    tracemalloc.start()
    wheel = Wheel(NOW)
    for n in range(count):
        wheel.add(Timer(NOW + dice.randrange(40 * DAY_MS), 1_000_000 + 300 * n, n))
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used / count < 40, f"{used / count:.1f} bytes each, python {sys.version}"


def test_a_million_timers_are_loaded_quickly() -> None:
    rows = np.zeros(1_000_000, ROW)
    rows["due"] = NOW + np.random.default_rng(1).integers(0, 40 * DAY_MS, 1_000_000)
    rows["offset"] = np.arange(1_000_000) * 300
    wheel = Wheel(NOW)
    wheel.load(rows, NOW)
    assert len(wheel) == 1_000_000
    assert wheel.oldest() == 0


def test_a_bucket_grows_while_a_look_at_the_stack_keeps_its_rows_alive() -> None:
    """A stalled loop's stack was told with the variables in it: timers could not be added any more."""
    wheel = Wheel(NOW)
    first, second, third = (Timer(NOW + 60_000, offset, offset) for offset in (10, 20, 30))
    wheel.add(first)
    seen = [bucket.rows() for bucket in wheel._buckets()]
    assert len(seen) == 1
    wheel.add(second)
    assert wheel.remove(first)
    wheel.add(third)
    assert [timer for _, timer in run(wheel, NOW, NOW + 61_000, 1_000)] == [second, third]
