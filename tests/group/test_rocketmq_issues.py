"""Losses that RocketMQ's failover knows, by the numbers of its issues: what happens to ours in the same story."""

import threading
from pathlib import Path

import pytest

from faults.network import ETCD, NAMESRV, Network, can_make_networks
from rocketeer.bench.control import Control
from rocketeer.bench.groups import GroupCluster, MemberProcess
from rocketeer.errors import RemotingError
from rocketeer.protocol.codes import RequestCode, ResponseCode
from support.grouped import GROUP_CONF, QUEUES, TOPIC, Ledger
from support.senders import send_header, wait_for

TAIL = b"nobody confirmed this"


def others(group: GroupCluster, member: MemberProcess) -> list[MemberProcess]:
    return [each for each in group.members if each is not member]


def log_of(member: MemberProcess) -> bytes:
    """The first file of its log, without the zeros behind the last record."""
    path = member.store / "commitlog" / f"{0:020d}"
    return path.read_bytes().rstrip(b"\0") if path.exists() else b""


def wait_for_equal_logs(group: GroupCluster) -> None:
    def are_equal() -> bool:
        first, *rest = map(log_of, group.members)
        return bool(first) and all(each == first for each in rest)

    wait_for(are_equal, what="logs that are equal")


class Tail(threading.Thread):
    """Sends that a leader appends and cannot confirm; what it answers is noted."""

    def __init__(self, address: str, count: int) -> None:
        super().__init__(daemon=True)
        self._address = address
        self._count = count
        self.codes: list[int] = []

    def run(self) -> None:
        for number in range(self._count):
            body = TAIL + b" %d" % number
            try:
                with Control(self._address, timeout_s=0.3) as broker:
                    header = send_header(TOPIC, number % QUEUES, "")
                    self.codes.append(broker.call(RequestCode.SEND_MESSAGE_V2, header, body).code)
            except (RemotingError, OSError):
                self.codes.append(-1)


def leave_a_tail(group: GroupCluster, leader: MemberProcess) -> None:
    """The leader dies with messages that no other member has."""
    for follower in others(group, leader):
        follower.kill()
    tail = Tail(leader.address, 4)
    tail.start()
    wait_for(lambda: TAIL + b" 0" in log_of(leader), what="a message in the leader's log")
    leader.kill()
    tail.join(30)
    for follower in others(group, leader):
        follower.start()
    assert ResponseCode.SUCCESS not in tail.codes


def test_issue_7017_an_isolated_leader_acknowledges_nothing(tmp_path: Path) -> None:
    """There it went on acknowledging, and its messages were cut when it came back."""
    if not can_make_networks():
        pytest.skip("network namespaces need root and `ip`")
    ledger = Ledger()
    with Network(3) as network, GroupCluster(tmp_path, conf=GROUP_CONF, places=network.places) as group:
        leader = group.wait_for_leader()
        with ledger.load(leader.address):
            pass
        for peer in (*(str(each.number) for each in others(group, leader)), ETCD, NAMESRV):
            network.cut(str(leader.number), peer)
        isolated = Tail(leader.address, 12)  # its clients reach it still
        isolated.start()
        now = group.wait_for_leader(other_than=leader)
        with ledger.load(now.address):
            isolated.join(60)
        assert isolated.codes
        assert ResponseCode.SUCCESS not in isolated.codes
        network.heal()
        wait_for_equal_logs(group)
        assert TAIL not in log_of(leader)
        ledger.assert_holds(group.wait_for_leader().address)


def test_issues_10666_and_7689_what_was_cut_stays_cut_and_its_queue_offsets_are_given_once(
    tmp_path: Path,
) -> None:
    """There the cut was in memory only, so that a crash brought the stale tail back (10666); recovery stopped at the
    confirmed offset, and new messages got queue offsets that the tail had (7689)."""
    ledger = Ledger()
    with GroupCluster(tmp_path, conf=GROUP_CONF) as group:
        leader = group.wait_for_leader()
        with ledger.load(leader.address):
            pass
        leave_a_tail(group, leader)
        now = group.wait_for_leader(other_than=leader)
        assert TAIL in log_of(leader)
        leader.start()
        out = leader.folder / "broker.out"
        wait_for(lambda: "log cut end=" in out.read_text(), what="the cut")
        leader.kill()
        assert TAIL not in log_of(leader)
        leader.start()
        with ledger.load(now.address):
            pass
        wait_for_equal_logs(group)
        for (
            member
        ) in group.members:  # every queue dense, each acknowledged message at its offset, the tail nowhere
            ledger.assert_holds(member.address)
