"""A group in trouble: members that stop, come back with what nobody confirmed, an etcd that is away or was emptied."""

import shutil
import time
from pathlib import Path

from rocketeer.bench.control import Control
from rocketeer.bench.groups import GroupCluster, Member
from rocketeer.errors import RemotingError
from rocketeer.protocol.codes import RequestCode, ResponseCode
from support.cluster import TEST_CONF
from support.grouped import TOPIC, Ledger
from support.senders import send_header, wait_for


def send(address: str, body: bytes, *, timeout_s: float = 3) -> int:
    """The code of the answer; -1 without one."""
    try:
        with Control(address, timeout_s=timeout_s) as broker:
            ext = send_header(TOPIC, 0, "TAGS\x01TagA\x02")
            return broker.call(RequestCode.SEND_MESSAGE_V2, ext, body).code
    except (RemotingError, OSError):
        return -1


def logs_of(group: GroupCluster) -> list[bytes]:
    """The first file of each member's log, without the zeros behind the last record."""
    paths = [member.store / "commitlog" / f"{0:020d}" for member in group.members]
    return [path.read_bytes().rstrip(b"\0") if path.exists() else b"" for path in paths]


def wait_for_equal_logs(group: GroupCluster) -> None:
    def are_equal() -> bool:
        first, *others = logs_of(group)
        return bool(first) and all(other == first for other in others)

    wait_for(are_equal, what="logs that are equal")


def others(group: GroupCluster, member: Member) -> list[Member]:
    return [each for each in group.members if each is not member]


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
    with GroupCluster(tmp_path, conf=TEST_CONF) as group:
        leader = group.wait_for_leader()
        with ledger.load(leader.address) as sender:
            follower = others(group, leader)[0]
            follower.kill()
            began_s, before = time.monotonic(), len(sender.acked)
            wait_for(lambda: len(sender.acked) > before + 500, what="sends that go on", state=sender)
            assert time.monotonic() - began_s < 15  # 2 s for the member, the rest for a busy machine
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


def test_a_group_goes_on_while_etcd_is_away_and_refuses_one_that_was_emptied(tmp_path: Path) -> None:
    ledger = Ledger()
    with GroupCluster(tmp_path, conf=TEST_CONF) as group:
        leader = group.wait_for_leader()
        with ledger.load(leader.address):
            group.etcd.kill()
            time.sleep(5)  # longer than two leases: nothing but the members' promises keeps the leader
        with ledger.load(leader.address):
            pass
        shutil.rmtree(tmp_path / "etcd" / "data")
        group.etcd.start()
        out = leader.folder / "broker.out"
        wait_for(lambda: "emptied" in out.read_text(), what="a word about the etcd")
        ledger.assert_holds(leader.address)


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
