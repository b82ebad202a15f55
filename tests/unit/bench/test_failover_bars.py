"""What `bench failover` judges by: a lost or doubled message is found, and each bar can be missed."""

from dataclasses import replace

from rocketeer.bench.failover import ONCE, PLAIN, Acked, Failover, examine, failover_bars

RESULT = Failover(
    seconds=(1.0, 5.0, 9.0), follower_seconds=(0.1, 4.9), acknowledged=100, lost=0, doubled=0, refused={}
)


def passed(**changes: object) -> list[bool]:
    return [bar.passed for bar in failover_bars(replace(RESULT, **changes))]  # type: ignore[arg-type]


def test_each_bar_is_judged_by_itself() -> None:
    assert passed() == [True, True, True, True]
    assert passed(seconds=(1.0, 5.1, 9.0)) == [False, True, True, True]
    assert passed(follower_seconds=(0.1, 5.1)) == [True, False, True, True]
    assert passed(lost=1) == [True, True, False, True]
    assert passed(doubled=1) == [True, True, True, False]


def test_what_is_lost_moved_or_doubled_is_found() -> None:
    acked = [Acked(PLAIN, b"a", 0, 0), Acked(PLAIN, b"b", 0, 1), Acked(ONCE, b"c", 1, 0)]
    assert examine(acked, acked) == (0, 0)
    assert examine(acked, acked[1:]) == (1, 0)
    moved = [acked[0], Acked(PLAIN, b"b", 0, 2), acked[2]]
    assert examine(acked, moved) == (1, 0)
    assert examine(acked, [*acked, Acked(PLAIN, b"b", 0, 2)]) == (0, 0), "a plain send may be there again"
    assert examine(acked, [*acked, Acked(ONCE, b"c", 2, 0)]) == (0, 1)
