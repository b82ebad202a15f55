"""Pauses of the machine: what lies between two looks at the clock counts when it is long enough."""

import pytest

from rocketeer.bench.pauses import paused_share, watched


def test_only_long_gaps_between_looks_count() -> None:
    looks = iter([0.0, 0.0001, 0.0002, 0.2502, 0.2503, 0.5, 1.0])
    assert watched(1.0, lambda: next(looks)) == pytest.approx(0.25 + 0.2497 + 0.5)


def test_every_core_is_watched_and_the_worst_one_counts() -> None:
    assert 0.0 <= paused_share(0.2) <= 1.0, "a busy machine may stand still all the time"
