"""Laws of the disk gauge: it counts as df does, and never raises."""

from pathlib import Path

import pytest

from rocketeer.store.disk import UNKNOWN_PERCENT, percent_of, used_percent


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


def test_a_folder_that_is_not_there_cannot_be_measured(tmp_path: Path) -> None:
    assert 0 <= used_percent(tmp_path) <= 100
    assert used_percent(tmp_path / "none") == UNKNOWN_PERCENT
