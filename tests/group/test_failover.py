"""The leader dies: nothing that was acknowledged is lost, and its group goes on by itself."""

from pathlib import Path

from rocketeer.bench.groups import GroupCluster
from support.cluster import TEST_CONF
from support.grouped import Ledger


def test_what_was_acknowledged_outlives_the_leader(tmp_path: Path) -> None:
    ledger = Ledger()
    with GroupCluster(tmp_path, conf=TEST_CONF) as group:
        for _ in range(2):
            leader = group.wait_for_leader()
            with ledger.load(leader.address):
                leader.kill()
            now = group.wait_for_leader(other_than=leader)
            ledger.assert_holds(now.address)
            leader.start()
