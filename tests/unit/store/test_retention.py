"""Laws of retention, in microseconds: the time, the hour and the disk are arguments."""

from collections.abc import Iterator

import pytest

from rocketeer.config import StoreConfig
from rocketeer.errors import ConfigError
from rocketeer.store.retention import (
    FIRST_ROUND_MS,
    HOUR_MS,
    MANUAL_ROUNDS,
    RetentionPlan,
    RetentionRules,
    SegmentAge,
    decide_retention,
    may_drop_oldest,
    nears_its_end,
    parse_hours,
    trim_to_log,
)

NOW = 1_700_000_000_000
RULES = RetentionRules()
OLD = NOW - 73 * HOUR_MS
YOUNG = NOW - 1 * HOUR_MS


def segments(*modified_ms: int, in_use: bool = False) -> list[SegmentAge]:
    return [SegmentAge(base * 1000, ms, in_use) for base, ms in enumerate(modified_ms)]


def drops(
    plan: RetentionPlan, files: list[SegmentAge], times: range, *, hour: int = 4, used: int = 10
) -> Iterator[tuple[int, int]]:
    for now_ms in times:
        step = plan.next(now_ms, hour=hour, used_percent=used, segments=files)
        if step.drop is not None:
            assert step.drop == files[0].base
            del files[0]
            yield now_ms, step.drop


@pytest.mark.parametrize(
    ("hour", "used", "expired", "forced", "writable"),
    [
        (4, 10, True, False, True),
        (5, 10, False, False, True),
        (5, 75, False, False, True),
        (5, 76, True, False, True),
        (5, 85, True, False, True),
        (5, 86, True, True, True),
        (5, 90, True, True, True),
        (5, 91, True, True, False),
        (5, -1, True, False, True),
    ],
)
def test_the_three_steps_of_a_filling_disk(
    hour: int, used: int, expired: bool, forced: bool, writable: bool
) -> None:
    assert decide_retention(RULES, hour=hour, used_percent=used) == (expired, forced, writable)


def test_without_leave_to_force_a_full_disk_only_loses_expired_files() -> None:
    rules = RetentionRules(forced_enabled=False)
    decision = decide_retention(rules, hour=5, used_percent=95)
    assert decision == (True, False, False)
    assert not may_drop_oldest(rules, decision, segments(YOUNG, YOUNG), NOW)
    assert may_drop_oldest(rules, decision, segments(OLD, YOUNG), NOW)


def test_the_last_segment_never_goes() -> None:
    decision = decide_retention(RULES, hour=4, used_percent=99)
    assert not may_drop_oldest(RULES, decision, segments(OLD), NOW)
    assert not may_drop_oldest(RULES, decision, [], NOW)


def test_a_young_file_protects_the_older_ones_behind_it() -> None:
    decision = decide_retention(RULES, hour=4, used_percent=10)
    assert not may_drop_oldest(RULES, decision, segments(YOUNG, OLD, YOUNG), NOW)


def test_expiry_is_to_the_millisecond() -> None:
    decision = decide_retention(RULES, hour=4, used_percent=10)
    files = segments(NOW - 72 * HOUR_MS, NOW)
    assert may_drop_oldest(RULES, decision, files, NOW)
    assert not may_drop_oldest(RULES, decision, files, NOW - 1)


def test_nothing_goes_in_the_first_minute_and_then_ten_a_round_100_ms_apart() -> None:
    plan = RetentionPlan(RULES, NOW)
    files = segments(*[OLD] * 15, NOW)
    gone = list(drops(plan, files, range(NOW, NOW + FIRST_ROUND_MS + 20_000, 10)))
    times = [ms - NOW for ms, _ in gone]
    assert times[:10] == [FIRST_ROUND_MS + 100 * n for n in range(10)]
    assert times[10:] == [FIRST_ROUND_MS + 10_000 + 100 * n for n in range(5)]
    assert len(files) == 1


def test_outside_the_hours_nothing_goes_until_the_disk_fills() -> None:
    plan = RetentionPlan(RULES, NOW)
    files = segments(OLD, OLD, NOW)
    later = range(NOW + FIRST_ROUND_MS, NOW + FIRST_ROUND_MS + 1000, 100)
    assert list(drops(plan, files, later, hour=3, used=75)) == []
    assert len(list(drops(plan, files, later, hour=3, used=76))) == 2


def test_forced_deletion_ends_as_soon_as_there_is_room() -> None:
    plan = RetentionPlan(RULES, NOW - FIRST_ROUND_MS)
    files = segments(*[YOUNG] * 9, NOW)
    assert plan.next(NOW, hour=12, used_percent=86, segments=files).drop == 0
    assert plan.next(NOW + 100, hour=12, used_percent=85, segments=files).drop is None
    assert plan.next(NOW + 200, hour=12, used_percent=86, segments=files).drop == 0


def test_an_unwritable_disk_becomes_writable_by_itself(caplog: pytest.LogCaptureFixture) -> None:
    plan = RetentionPlan(RULES, NOW)
    writable = [
        plan.next(NOW, hour=12, used_percent=used, segments=[]).writable for used in (90, 91, 99, 91, 90, 80)
    ]
    assert writable == [True, False, False, False, True, True]
    assert caplog.text.count("disk nearly full") == 1


def test_a_file_in_use_is_waited_for_and_then_goes_anyway() -> None:
    plan = RetentionPlan(RULES, NOW - FIRST_ROUND_MS)
    files = segments(OLD, NOW, in_use=True)
    gone = list(drops(plan, files, range(NOW, NOW + 130_000, 1_000)))
    assert gone == [(NOW + RULES.hang_ms_max, 0)]


def test_a_file_released_in_time_goes_at_once() -> None:
    plan = RetentionPlan(RULES, NOW - FIRST_ROUND_MS)
    assert plan.next(NOW, hour=4, used_percent=10, segments=segments(OLD, NOW, in_use=True)).drop is None
    assert plan.next(NOW + 10, hour=4, used_percent=10, segments=segments(OLD, NOW)).drop == 0


def test_an_operators_order_works_at_any_hour_for_some_rounds() -> None:
    plan = RetentionPlan(RULES, NOW)
    plan.order(NOW)
    files = segments(*[OLD] * 250, NOW)
    gone = list(drops(plan, files, range(NOW, NOW + 400_000, 100), hour=12))
    assert len(gone) == MANUAL_ROUNDS * RULES.files_per_round_max


@pytest.mark.parametrize(("text", "hours"), [("04", {4}), ("04;16", {4, 16}), (" 0 ; 23;", {0, 23})])
def test_hours_are_read_as_rocketmq_writes_them(text: str, hours: set[int]) -> None:
    assert parse_hours(text) == hours


@pytest.mark.parametrize("text", ["", ";", "24", "4,16", "-1", "four"])
def test_hours_that_are_none_name_the_key(text: str) -> None:
    with pytest.raises(ConfigError, match="deleteWhen"):
        parse_hours(text)


def test_rules_come_from_the_configuration() -> None:
    assert RetentionRules.of(StoreConfig()) == RULES
    rules = RetentionRules.of(StoreConfig(reserved_hours=1, delete_when="01;02", disk_max_used_percent=50))
    assert (rules.reserved_ms, rules.delete_hours, rules.used_percent_max) == (HOUR_MS, {1, 2}, 50)


def test_queues_follow_the_log_one_a_step_and_the_index_comes_last() -> None:
    asked: list[tuple[int, int]] = []

    class Queue:
        def __init__(self, number: int) -> None:
            self.number = number

        def raise_min(self, log_min: int) -> list[str]:
            asked.append((self.number, log_min))
            return [f"q{self.number}"] if self.number % 100 == 0 else []

    class Index:
        def delete_below(self, log_min: int) -> list[str]:
            assert len(asked) == 200
            return ["i"]

    steps = trim_to_log(7, (Queue(n) for n in range(200)), Index())
    assert next(steps) == ["q0"]
    assert len(asked) == 1
    assert [path for paths in steps for path in paths] == ["q100", "i"]
    assert list(trim_to_log(7, [], None)) == []


def test_a_file_that_is_needed_stays_unless_the_disk_is_full_for_long() -> None:
    needed = [SegmentAge(0, OLD, needed=True), SegmentAge(1000, OLD)]
    times = range(NOW, NOW + 10 * FIRST_ROUND_MS, 100)
    assert list(drops(RetentionPlan(RULES, NOW), list(needed), times)) == [], "expired, and still waited for"
    forced = list(drops(RetentionPlan(RULES, NOW), list(needed), times, used=86))
    assert [base for _, base in forced] == [0]
    assert forced[0][0] >= NOW + FIRST_ROUND_MS + RULES.hang_ms_max, "rolling forward had its time"


@pytest.mark.parametrize(
    ("age_ms", "used", "expected"),
    [
        (70 * HOUR_MS, 10, False),
        (71 * HOUR_MS, 10, True),
        (80 * HOUR_MS, 10, True),
        (1 * HOUR_MS, 86, True),
        (1 * HOUR_MS, 80, False),
    ],
)
def test_rolling_forward_begins_an_hour_before_a_file_expires_or_when_the_disk_fills(
    age_ms: int, used: int, expected: bool
) -> None:
    assert nears_its_end(RULES, segments(NOW - age_ms, NOW), NOW, used) is expected
    assert not nears_its_end(RULES, segments(NOW - age_ms), NOW, used), "the only file is being written"
