"""What only a person decides: a group whose in-sync members are all gone, a member that will never come back."""

import shutil
from pathlib import Path

from rocketeer.bench.groups import GroupCluster
from rocketeer.protocol.codes import ResponseCode
from support.grouped import GROUP_CONF, TOPIC, Ledger, group_command, others, send
from support.senders import read_topic, wait_for


def test_when_nobody_in_sync_is_left_only_a_person_who_accepts_the_loss_names_a_leader(
    tmp_path: Path,
) -> None:
    ledger = Ledger()
    with GroupCluster(tmp_path, conf={**GROUP_CONF, "groupLagMs": 500}) as group:
        leader = group.wait_for_leader()
        group.wait_until_in_sync()
        with ledger.load(leader.address):
            pass
        kept = list(ledger.acked)
        behind, other = others(group, leader)
        behind.kill()
        group.wait_until_in_sync({leader.number, other.number})
        with ledger.load(leader.address, least=50):
            pass
        for each in (leader, other):
            each.kill()
            shutil.rmtree(each.store)
        behind.start()
        out = behind.folder / "broker.out"
        wait_for(lambda: "no member that was in sync in epoch" in out.read_text(), what="a word about it")
        assert "nobody who was in sync is alive" in group_command(group, "status", code=1)
        refused = group_command(group, "recover", behind.number, code=1)
        assert str(sorted((leader.number, other.number))) in refused
        assert "--accept-loss" in refused
        assert send(behind.address, b"refused") == ResponseCode.SERVICE_NOT_AVAILABLE
        told = group_command(group, "recover", behind.number, "--accept-loss")
        assert "what only others had is lost" in told
        assert group.wait_for_leader() is behind

        other.start()  # with an empty store: another incarnation
        group.wait_until_in_sync({behind.number, other.number})
        lost = {ack.body for ack in ledger.acked[len(kept) :]}
        ledger.acked = kept
        with ledger.load(behind.address):
            pass
        ledger.assert_holds(behind.address)
        there = {message.body for queue in read_topic(behind.address, TOPIC) for message in queue}
        assert not there & lost, "it had not got them, and says so"


def test_a_dead_member_that_is_removed_holds_up_nobody(tmp_path: Path) -> None:
    ledger = Ledger()
    with GroupCluster(tmp_path, conf={**GROUP_CONF, "groupLagMs": 60_000}) as group:
        leader = group.wait_for_leader()
        group.wait_until_in_sync()
        gone, other = others(group, leader)
        assert "is alive" in group_command(group, "remove", gone.number, code=1)
        with ledger.load(leader.address) as sender:
            gone.kill()
            wait_for(lambda: gone.number not in group.view().live, what="the end of its lease")
            before = len(sender.acked)
            told = group_command(group, "remove", gone.number)
            assert f"member {gone.number} is not in the group" in told
            wait_for(lambda: len(sender.acked) > before + 100, timeout_s=30, what="sends", state=sender)
        state = group.view().state
        assert state is not None
        assert sorted(state.in_sync) == sorted((leader.number, other.number))
        ledger.assert_holds(leader.address)
