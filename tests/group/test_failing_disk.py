"""A disk that fails to sync: whoever has it gives up its place at once, and what was acknowledged is with the others."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketeer.bench.groups import GroupCluster
from rocketeer.store import segment as segment_module
from rocketeer.store.kernel import SyncFailed
from support.group_members import MemberInThread
from support.grouped import GROUP_CONF, Ledger, leader_number
from support.senders import wait_for


@pytest.fixture
def fail_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From now on no sync of this process succeeds."""

    def fail() -> None:
        def sync_range(address: int, start: int, end: int) -> None:
            raise SyncFailed(errno.EIO, "the disk is gone")

        monkeypatch.setattr(segment_module, "sync_range", sync_range)

    return fail


def test_a_leader_whose_disk_fails_steps_down_and_comes_back_as_another_incarnation(
    tmp_path: Path, fail_disk: Callable[[], None]
) -> None:
    ledger = Ledger()
    with GroupCluster(tmp_path, conf={**GROUP_CONF, "flushDiskType": "SYNC_FLUSH"}, started=False) as group:
        first, *rest = group.members
        with MemberInThread(first):
            wait_for(lambda: leader_number(group) == first.number, what="a leader")
            for member in rest:
                member.start()
            group.wait_until_in_sync()
            before = group.view().live[first.number].incarnation
            with ledger.load(first.address) as sender:
                fail_disk()
                wait_for(lambda: leader_number(group) != first.number, what="another leader", state=sender)
        ledger.assert_holds(group.wait_for_leader(other_than=first).address)
        first.start()
        group.wait_until_in_sync()
        assert group.view().live[first.number].incarnation != before, "what its disk has is not believed"


def test_a_follower_whose_disk_fails_leaves_and_sends_go_on(
    tmp_path: Path, fail_disk: Callable[[], None]
) -> None:
    ledger = Ledger()
    conf = {**GROUP_CONF, "flushDiskType": "SYNC_FLUSH", "groupLagMs": 1000}
    with GroupCluster(tmp_path, conf=conf, started=False) as group:
        first, leader, other = group.members
        leader.start()
        wait_for(lambda: leader_number(group) == leader.number, what="a leader")
        other.start()
        with MemberInThread(first):
            group.wait_until_in_sync()
            with ledger.load(leader.address) as sender:
                fail_disk()
                group.wait_until_in_sync({leader.number, other.number})
                before = len(sender.acked)
                wait_for(lambda: len(sender.acked) > before + 100, what="sends that go on", state=sender)
                assert not sender.refused
        ledger.assert_holds(leader.address)
