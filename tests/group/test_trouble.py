"""A group in trouble: members that stop, come back with what nobody confirmed, an etcd that is away or was emptied."""

import shutil
import time
from pathlib import Path

from rocketeer.bench.groups import GroupCluster
from rocketeer.protocol.codes import ResponseCode
from support.cluster import TEST_CONF
from support.grouped import Ledger, others, send
from support.senders import wait_for


def logs_of(group: GroupCluster) -> list[bytes]:
    """The first file of each member's log, without the zeros behind the last record."""
    paths = [member.store / "commitlog" / f"{0:020d}" for member in group.members]
    return [path.read_bytes().rstrip(b"\0") if path.exists() else b"" for path in paths]


def wait_for_equal_logs(group: GroupCluster) -> None:
    def are_equal() -> bool:
        first, *others = logs_of(group)
        return bool(first) and all(other == first for other in others)

    wait_for(are_equal, what="logs that are equal")


def test_a_leader_that_was_stopped_confirms_nothing_and_cuts_what_it_appended(tmp_path: Path) -> None:
    ledger = Ledger()
    with GroupCluster(tmp_path, conf=TEST_CONF) as group:
        leader = group.wait_for_leader()
        with ledger.load(leader.address):
            pass
        leader.pause()
        now = group.wait_for_leader(other_than=leader)
        with ledger.load(now.address):
            leader.resume()
        # Whatever the old leader is asked now, it confirms nothing.
        assert send(leader.address, b"to the past") != ResponseCode.SUCCESS
        wait_for_equal_logs(group)
        ledger.assert_holds(group.wait_for_leader().address)
        assert b"to the past" not in logs_of(group)[0]


def test_a_dead_follower_stalls_sends_for_a_moment_and_is_in_sync_again_when_it_comes_back(
    tmp_path: Path,
) -> None:
    ledger = Ledger()
    with GroupCluster(tmp_path, conf={**TEST_CONF, "groupLagMs": 1000}) as group:
        leader = group.wait_for_leader()
        group.wait_until_in_sync()
        with ledger.load(leader.address) as sender:
            follower = others(group, leader)[0]
            follower.kill()
            began_s, before = time.monotonic(), len(sender.acked)
            # What was in flight when it died is a window of 16; whatever comes after that waited for the set to change.
            wait_for(lambda: len(sender.acked) > before + 100, what="sends that go on", state=sender)
            assert time.monotonic() - began_s < 5  # groupLagMs, and the rest for a busy machine
            assert not sender.refused
            follower.start()
        wait_for_equal_logs(group)
        ledger.assert_holds(leader.address)


def test_without_a_majority_sends_are_refused_before_the_append_and_reads_go_on(tmp_path: Path) -> None:
    ledger = Ledger()
    with GroupCluster(tmp_path, conf=TEST_CONF) as group:
        leader = group.wait_for_leader()
        with ledger.load(leader.address):
            pass
        for follower in others(group, leader):
            follower.kill()
        wait_for(
            lambda: send(leader.address, b"refused", timeout_s=10) == ResponseCode.SERVICE_NOT_AVAILABLE,
            what="a refusal",
        )
        size = len(logs_of(group)[leader.number - 1])
        assert send(leader.address, b"refused again") == ResponseCode.SERVICE_NOT_AVAILABLE
        assert len(logs_of(group)[leader.number - 1]) == size
        ledger.sent.add(
            b"refused"
        )  # the first ones may have been appended while the members were counted still
        ledger.assert_holds(leader.address)


def test_a_group_goes_on_while_etcd_is_away_and_refuses_one_that_was_emptied_until_it_is_restored(
    tmp_path: Path,
) -> None:
    ledger = Ledger()
    data, kept = tmp_path / "etcd" / "data", tmp_path / "etcd" / "kept"
    with GroupCluster(tmp_path, conf=TEST_CONF) as group:
        leader = group.wait_for_leader()
        with ledger.load(leader.address):
            group.etcd.kill()
            time.sleep(5)  # longer than two leases: nothing but the members' promises keeps the leader
        with ledger.load(leader.address):
            pass
        data.rename(kept)
        group.etcd.start()
        out = leader.folder / "broker.out"
        wait_for(lambda: "emptied" in out.read_text(), what="a word about the etcd")
        assert send(leader.address, b"refused") == ResponseCode.SERVICE_NOT_AVAILABLE
        ledger.assert_holds(leader.address)
        group.etcd.kill()
        shutil.rmtree(data)
        kept.rename(data)
        group.etcd.start()
        group.wait_until_in_sync()
        with ledger.load(group.wait_for_leader().address):
            pass
        ledger.assert_holds(group.wait_for_leader().address)


def test_a_member_with_an_empty_store_gets_everything(tmp_path: Path) -> None:
    ledger = Ledger()
    with GroupCluster(tmp_path, conf=TEST_CONF) as group:
        leader = group.wait_for_leader()
        follower = others(group, leader)[0]
        with ledger.load(leader.address):
            follower.kill()
            shutil.rmtree(follower.store)
            follower.start()
        wait_for_equal_logs(group)
        ledger.assert_holds(leader.address)
