"""A short run of the nemesis: kills, pauses and (as root) cut links; nothing acknowledged is lost."""

from pathlib import Path

import pytest

from faults.__main__ import run
from faults.network import can_make_networks

SECONDS = 25


@pytest.mark.timeout(400)
def test_nothing_acknowledged_is_lost_whatever_happens_to_a_minority(tmp_path: Path) -> None:
    outcome = run(tmp_path, seed=3, seconds=SECONDS, network=can_make_networks())
    assert outcome.problems == []
    assert all(outcome.ledger.acked.values()), outcome.ledger
    assert outcome.ledger.committed > 0
