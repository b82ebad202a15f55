"""A disk whose syncs of the log take until they are let through: `StuckDisk(monkeypatch)`."""

import time

import pytest

from rocketeer.store import segment as segment_module
from rocketeer.store.kernel import sync_range


class StuckDisk:
    """While `stuck`, what is written to the log is in the page cache only."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stuck = False
        monkeypatch.setattr(segment_module, "sync_range", self)

    def __call__(self, address: int, start: int, end: int) -> None:
        while self.stuck:
            time.sleep(0.001)
        sync_range(address, start, end)
