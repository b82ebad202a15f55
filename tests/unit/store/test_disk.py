"""Laws of the disk gauge: it counts as df does, and never raises."""

from pathlib import Path

import pytest

from rocketeer.store.disk import UNKNOWN_PERCENT, fullest_percent, percent_of, used_percent


@pytest.mark.parametrize(
    ("blocks", "free", "available", "percent"),
    [
        (1000, 1000, 950, 0),
        (1000, 999, 949, 1),
        (1000, 500, 450, 53),
        (1000, 50, 0, 100),
        (0, 0, 0, UNKNOWN_PERCENT),
    ],
)
def test_used_is_of_what_users_can_have_rounded_up(
    blocks: int, free: int, available: int, percent: int
) -> None:
    assert percent_of(blocks, free, available) == percent


def test_the_fullest_of_several_counts(tmp_path: Path) -> None:
    assert 0 <= used_percent(tmp_path) <= 100
    assert used_percent(tmp_path / "none") == UNKNOWN_PERCENT
    assert fullest_percent([tmp_path, tmp_path / "none"]) == used_percent(tmp_path)
    assert fullest_percent([]) == UNKNOWN_PERCENT
