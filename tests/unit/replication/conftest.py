"""A slave asks for the master's tables often: what a test waits for is not the next round."""

import pytest

from rocketeer.broker.features.replication import tables


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "SYNC_S", 0.3)
