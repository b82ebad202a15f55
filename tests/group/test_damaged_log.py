"""A member whose log is damaged, or lost its end: it has the others' bytes again before it counts, or leads."""

import contextlib
import os

from rocketeer.bench.groups import GroupCluster, MemberProcess
from support.grouped import Ledger, group_command, leader_number, others
from support.senders import wait_for


def flip_a_bit(member: MemberProcess, near: bytes) -> None:
    """In the body of an acknowledged message."""
    for path in sorted((member.store / "commitlog").iterdir()):
        raw = path.read_bytes()
        at = raw.find(near)
        if at >= 0:
            with path.open("r+b") as file:
                os.pwrite(file.fileno(), bytes([raw[at] ^ 1]), at)
            return
    raise AssertionError(f"{near!r} is not in the log of member {member.number}")


def assert_it_can_lead(group: GroupCluster, member: MemberProcess, ledger: Ledger) -> None:
    group.wait_until_in_sync()

    def leads() -> bool:
        if leader_number(group) == member.number:
            return True
        with contextlib.suppress(AssertionError):  # on a busy machine a member may lag just then
            group_command(group, "switch", member.number)
        return False

    wait_for(leads, what=f"member {member.number} to lead")
    assert group.wait_for_leader() is member
    ledger.assert_holds(member.address)


def test_a_member_with_a_damaged_log_gets_it_again_before_it_is_in_sync(
    group: GroupCluster, ledger: Ledger
) -> None:
    leader = group.wait_for_leader()
    damaged = others(group, leader)[0]
    with ledger.load(leader.address, least=1000):
        pass
    before = group.view().live[damaged.number].incarnation
    damaged.stop()
    flip_a_bit(damaged, ledger.acked[-500].body)
    damaged.start()
    assert_it_can_lead(group, damaged, ledger)
    assert group.view().live[damaged.number].incarnation != before, "it was not in sync as it came back"


def test_a_member_whose_log_lost_its_end_is_not_in_sync_as_it_comes_back(
    group: GroupCluster, ledger: Ledger
) -> None:
    leader = group.wait_for_leader()
    short = others(group, leader)[0]
    with ledger.load(leader.address, least=1000):
        pass
    before = group.view().live[short.number].incarnation
    short.stop()
    first = min((short.store / "commitlog").iterdir())
    os.truncate(first, first.stat().st_size // 1000)
    (short.store / "checkpoint").unlink()  # nothing in the store says that there was more
    short.start()
    assert_it_can_lead(group, short, ledger)
    assert group.view().live[short.number].incarnation != before
