"""What `bench replication` judges by, and that each bar can be missed."""

from dataclasses import replace

from rocketeer.bench.replication import CatchUp, Copying, replication_bars
from rocketeer.bench.servers import Make

CAUGHT = CatchUp(
    log_mb=500,
    seconds=2,
    mb_per_s=250,
    copy_mb_per_s=500,
    sends_alone_per_s=100_000,
    sends_meanwhile_per_s=80_000,
    loaded_mb_per_s=60,
)
RATES: dict[tuple[Make, Copying], list[float]] = {
    ("ours", Copying.SYNC): [20.0, 30.0, 90.0],
    ("ours", Copying.GROUP): [22.5, 22.5, 90.0],
    ("apache", Copying.SYNC): [15.0, 10.0, 15.0],
}


def passed(**changes: float) -> list[bool]:
    return [bar.passed for bar in replication_bars(RATES, replace(CAUGHT, **changes), 100.0)]


def test_each_bar_is_judged_by_itself() -> None:
    assert passed() == [True] * 5
    assert passed(mb_per_s=249) == [True, True, False, True, True]
    assert passed(sends_meanwhile_per_s=79_000) == [True, True, True, False, True]
    slower: dict[tuple[Make, Copying], list[float]] = {**RATES, ("apache", Copying.SYNC): [15.1]}
    assert [bar.passed for bar in replication_bars(slower, None, 100.0)] == [False, False, True]
    slower = {**RATES, ("ours", Copying.GROUP): [22.4]}
    assert [bar.passed for bar in replication_bars(slower, None, 100.0)] == [True, False, True]
    assert [bar.passed for bar in replication_bars({}, None, 1_001.0)] == [False]
