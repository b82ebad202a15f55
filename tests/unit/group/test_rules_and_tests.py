"""docs/groups.md says which test holds which rule: they are there. And what a majority is."""

import re
from pathlib import Path

import pytest

from rocketeer.config.group import ReplicaGroupConfig

REPO = Path(__file__).parents[3]


def test_every_test_that_the_docs_name_is_there() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", (REPO / "docs" / "groups.md").read_text())
    assert len(named) > 30
    for path, name in named:
        text = (REPO / path).read_text()
        assert not name or re.search(rf"^(async def|def|class) {name}\b|^{name} =", text, re.M), (
            f"{path}::{name}"
        )


@pytest.mark.parametrize(("members", "least"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_by_default_a_majority_must_have_a_message(members: int, least: int) -> None:
    assert ReplicaGroupConfig(members=members).min_in_sync == least
    assert ReplicaGroupConfig(members=members, min_in_sync_or_zero=1).min_in_sync == 1
