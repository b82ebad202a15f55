"""A group in trouble: members that die, stop, come back with what nobody confirmed, an etcd that is away or was emptied.

One group goes through all of it, and one ledger is kept: what was acknowledged in one test must be there in the next.
"""

import shutil
import socket
import time

from rocketeer.bench.control import Control
from rocketeer.bench.groups import NAME, GroupCluster
from rocketeer.client.plans.groups import lock_queues
from rocketeer.errors import BrokerRefused
from rocketeer.model.queue import MessageQueue
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, encode, request
from rocketeer.remoting.address import split_address
from support.grouped import TOPIC, Ledger, others, send
from support.senders import wait_for


def logs_of(group: GroupCluster) -> list[bytes]:
    """Each member's log, without the zeros behind the last record."""
    found = []
    for member in group.members:
        files = [path for path in (member.store / "commitlog").glob("*") if path.name.isdigit()]
        found.append(b"".join(path.read_bytes() for path in sorted(files)).rstrip(b"\0"))
    return found


def wait_for_equal_logs(group: GroupCluster) -> None:
    def are_equal() -> bool:
        try:
            first, *others = logs_of(group)
        except FileNotFoundError:  # a member cuts its log at this moment
            return False
        return bool(first) and all(other == first for other in others)

    wait_for(are_equal, what="logs that are equal")


def commit(address: str, offset: int) -> int:
    fields = {"consumerGroup": "CG", "topic": TOPIC, "queueId": "1", "commitOffset": str(offset)}
    with Control(address) as broker:
        return broker.call(RequestCode.UPDATE_CONSUMER_OFFSET, fields).code


def asked_offset(address: str, queue_id: int) -> Command:
    fields = {"consumerGroup": "CG", "topic": TOPIC, "queueId": str(queue_id)}
    with Control(address) as broker:
        return broker.call(RequestCode.QUERY_CONSUMER_OFFSET, fields)


def committed(address: str, queue_id: int = 1) -> int:
    answer = asked_offset(address, queue_id)
    return int(answer.ext["offset"]) if answer.code == ResponseCode.SUCCESS else -1


def commit_one_way(address: str, offset: int) -> None:
    fields = {"consumerGroup": "CG", "topic": TOPIC, "queueId": "2", "commitOffset": str(offset)}
    command = request(RequestCode.UPDATE_CONSUMER_OFFSET, fields, oneway=True)
    with socket.create_connection(split_address(address), 10) as connection:
        connection.sendall(encode(command))


def gets_lock(address: str, client_id: str) -> bool | None:
    """Whether the queue is this client's, which asks for it; None while too few members are in sync."""
    queue = MessageQueue(TOPIC, NAME, 0)
    try:
        with Control(address) as broker:
            return queue in broker.run(lock_queues(address, "CG", client_id, [queue], 10))
    except BrokerRefused as refused:
        if refused.code != ResponseCode.SERVICE_NOT_AVAILABLE:
            raise
        return None


def wait_for_refusal(address: str, ledger: Ledger) -> None:
    """The first ones may be stored still, or have an outcome that nobody knows: each has a body of its own."""

    def is_refused() -> bool:
        body = b"to be refused, %d" % len(ledger.sent)
        ledger.sent.add(body)
        return send(address, body, timeout_s=10) == ResponseCode.SERVICE_NOT_AVAILABLE

    wait_for(is_refused, what="a refusal")


def test_what_was_acknowledged_outlives_the_leader(group: GroupCluster, ledger: Ledger) -> None:
    leader = group.wait_for_leader()
    with ledger.load(leader.address):
        leader.kill()
    ledger.assert_holds(group.wait_for_leader(other_than=leader).address)


def test_a_leader_that_was_stopped_confirms_nothing_and_cuts_what_it_appended(
    group: GroupCluster, ledger: Ledger
) -> None:
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


def test_a_dead_follower_stalls_sends_for_a_moment_and_gets_everything_also_with_an_empty_store(
    group: GroupCluster, ledger: Ledger
) -> None:
    leader = group.wait_for_leader()
    with ledger.load(leader.address) as sender:
        follower = others(group, leader)[0]
        follower.kill()
        began_s, before = time.monotonic(), len(sender.acked)
        # What was in flight when it died is a window of 16; whatever comes after that waited for the set to change.
        wait_for(lambda: len(sender.acked) > before + 100, what="sends that go on", state=sender)
        assert time.monotonic() - began_s < 30  # groupLagMs, and the rest for a busy machine
        assert not sender.refused
        follower.start()
        group.wait_until_in_sync()
        follower.kill()
        shutil.rmtree(follower.store)
        follower.start()
    wait_for_equal_logs(group)
    ledger.assert_holds(leader.address)


def test_without_a_majority_sends_are_refused_before_the_append_and_reads_go_on(
    group: GroupCluster, ledger: Ledger
) -> None:
    leader = group.wait_for_leader()
    with ledger.load(leader.address):
        pass
    for follower in others(group, leader):
        follower.kill()
    wait_for_refusal(leader.address, ledger)
    size = len(logs_of(group)[leader.number - 1])
    assert send(leader.address, b"refused again") == ResponseCode.SERVICE_NOT_AVAILABLE
    assert len(logs_of(group)[leader.number - 1]) == size
    ledger.assert_holds(leader.address)


def test_commits_topics_and_locks_outlive_the_leader_and_nobody_else_takes_them(
    group: GroupCluster, ledger: Ledger
) -> None:
    leader = group.wait_for_leader()
    with ledger.load(leader.address):
        pass
    for offset in (40, 7, 23):  # a reset may go backwards
        assert commit(leader.address, offset) == ResponseCode.SUCCESS
    topic = {"topic": "Made", "readQueueNums": "3", "writeQueueNums": "3", "perm": "6", "defaultTopic": "TBW102",
             "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}  # fmt: skip
    with Control(leader.address) as broker:
        broker.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic)
    assert gets_lock(leader.address, "first") is True
    assert gets_lock(leader.address, "second") is False
    commit_one_way(leader.address, 31)  # nobody waits for an answer: it is in the log soon
    for member in group.members:
        wait_for(lambda member=member: committed(member.address) == 23, what=f"member {member.number}")
        wait_for(
            lambda member=member: committed(member.address, 2) == 31, what=f"one way, member {member.number}"
        )
    follower = others(group, leader)[0]
    assert commit(follower.address, 5) == ResponseCode.SERVICE_NOT_AVAILABLE
    # That a group has no offset makes its consumers begin anew: only the leader can say so.
    assert asked_offset(leader.address, 3).code == ResponseCode.SUCCESS
    assert asked_offset(follower.address, 3).code == ResponseCode.SERVICE_NOT_AVAILABLE
    leader.kill()
    now = group.wait_for_leader(other_than=leader)
    assert committed(now.address) == 23
    assert committed(now.address, 2) == 31
    # Whoever gets it keeps it: a moment in which it was free would be seen.
    wait_for(lambda: gets_lock(now.address, "second") is False, what="that the lock is another's")
    wait_for(lambda: gets_lock(now.address, "first") is True, what="the lock, renewed")
    with Control(now.address) as broker:
        assert b'"Made"' in broker.ask(RequestCode.GET_ALL_TOPIC_CONFIG).body
    ledger.assert_holds(now.address)
    for member in group.members:  # everything at once: what was answered is in the log of each
        member.kill()
    for member in group.members:
        member.start()
    wait_for(lambda: committed(group.wait_for_leader().address) == 23, what="the offset, after all died")
    ledger.assert_holds(group.wait_for_leader().address)


def test_a_group_goes_on_while_etcd_is_away_and_refuses_one_that_was_emptied_until_it_is_restored(
    group: GroupCluster, ledger: Ledger
) -> None:
    data, kept = group.folder / "etcd" / "data", group.folder / "etcd" / "kept"
    leader = group.wait_for_leader()
    with ledger.load(leader.address):
        group.etcd.kill()
        time.sleep(6)  # longer than a lease: nothing but the members' promises keeps the leader
    with ledger.load(leader.address):
        pass
    data.rename(kept)
    group.etcd.start()
    out = leader.folder / "broker.out"
    wait_for(lambda: "emptied" in out.read_text(), what="a word about the etcd")
    wait_for_refusal(leader.address, ledger)
    ledger.assert_holds(leader.address)
    group.etcd.kill()
    shutil.rmtree(data)
    kept.rename(data)
    group.etcd.start()
    group.wait_until_in_sync()
    with ledger.load(group.wait_for_leader().address):
        pass
    ledger.assert_holds(group.wait_for_leader().address)
