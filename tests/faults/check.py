"""What must be true when all faults are over: nothing acknowledged is lost, whoever led."""

import contextlib
import json
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from faults.ledger import (
    COMMITTED_GROUP,
    DELAYED,
    ORDERED,
    PLAIN,
    QUEUES,
    RECALLED,
    RETRIED,
    RETRIED_GROUP,
    TIMED,
    TOPICS,
    TRANSACTIONS,
    Ledger,
    is_dead_letter,
)
from faults.orderly import orderly_problems, unhandled
from rocketeer.bench.control import Control
from rocketeer.bench.groups import GroupCluster, MemberProcess
from rocketeer.errors import RemotingError
from rocketeer.model.topic import TIMER_TOPIC
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.record.layout import StoredMessage
from rocketeer.record.timers import due_ms
from support.records import sent_body
from support.senders import read_queue, read_topic

QUIET_S = 180.0
"""How long a group may need to come to rest: bounds a run, is no promise."""
AFTERWARDS_S = 3.0
"""So long is looked for what should not come."""
FAR_MS = 600_000
"""Nothing here is timed so far ahead by a clock that is right."""

Queues = list[list[StoredMessage]]


def wait_until_whole(cluster: GroupCluster) -> MemberProcess:
    """All members run and take part: every one has the leader's log, and that no longer grows."""
    give_up_s = time.monotonic() + QUIET_S
    ends: list[int] = []
    while time.monotonic() < give_up_s:
        leader = cluster.leader()
        ends = [_log_end(member) for member in cluster.members]
        if leader is not None and len(set(ends)) == 1 and ends[0] > 0:
            return leader
        time.sleep(0.3)
    lines = "\n".join(f"--- member {each.number}\n{each.last_lines()}" for each in cluster.members)
    raise AssertionError(f"the group is not whole after {QUIET_S:g} s, logs end at {ends}\n{lines}")


def _log_end(member: MemberProcess) -> int:
    with (
        contextlib.suppress(RemotingError, OSError, KeyError),
        Control(member.address, timeout_s=3) as broker,
    ):
        answer = broker.call(RequestCode.GET_BROKER_RUNTIME_INFO)
        if answer.code == ResponseCode.SUCCESS:
            return int(json.loads(answer.body)["table"]["commitLogMaxOffset"])
    return -1


def wait_until_delivered(cluster: GroupCluster, ledger: Ledger) -> list[str]:
    """What was to come later has come: delayed, timed, committed and retried messages, and those in order."""
    waiting: dict[str, set[bytes]] = {}
    trouble: Exception | None = None

    def missing() -> dict[str, set[bytes]]:
        leader = cluster.wait_for_leader(timeout_s=QUIET_S)
        found = {topic: _bodies(leader, topic) for topic in (DELAYED, TIMED, TRANSACTIONS, RECALLED)}
        dead = _dead_letters(leader)
        retried = {ack.body for ack in ledger.acked[RETRIED]} - ledger.consumed.keys() - dead
        if retried - ledger.waiting:
            ledger.waiting = retried & _waiting_for_long(leader)
        return {
            "delayed": ledger.later[DELAYED] - found[DELAYED],
            "timed": ledger.later[TIMED] - found[TIMED],
            "timed and not recalled": ledger.later[RECALLED] - found[RECALLED],
            "committed": ledger.committed_transactions - found[TRANSACTIONS],
            "retried": retried - ledger.waiting,
            "ordered": unhandled(ledger),
        }

    give_up_s = time.monotonic() + QUIET_S
    while time.monotonic() < give_up_s:
        try:
            waiting, trouble = missing(), None
        except (RemotingError, OSError, AssertionError) as error:
            trouble = error
        else:
            if not any(waiting.values()):
                time.sleep(AFTERWARDS_S)
                return []
        time.sleep(0.5)
    missed = [
        f"{len(bodies)} {kind} messages never came, such as {min(bodies)!r}"
        for kind, bodies in waiting.items()
        if bodies
    ]
    return missed if trouble is None else [*missed, f"what came cannot be read: {trouble!r}"]


def _bodies(member: MemberProcess, topic: str) -> set[bytes]:
    return {sent_body(each) for queue in read_topic(member.address, topic, QUEUES) for each in queue}


def _dead_letters(member: MemberProcess) -> set[bytes]:
    with Control(member.address, timeout_s=10) as broker:
        topic = f"%DLQ%{RETRIED_GROUP}"
        if topic not in broker.topics():
            return set()
        return {sent_body(each) for each in read_queue(broker, topic, 0)}


def _waiting_for_long(member: MemberProcess) -> set[bytes]:
    """What is timed far ahead: a try that was asked for while a clock was, which comes when that time has come."""
    soon_ms = int(time.time() * 1000) + FAR_MS
    due: dict[bytes, int] = {}
    with Control(member.address, timeout_s=30) as broker:
        for each in read_queue(broker, TIMER_TOPIC, 0):
            due[sent_body(each)] = due_ms(each.properties)
    return {body for body, when_ms in due.items() if when_ms > soon_ms}


def problems(cluster: GroupCluster, ledger: Ledger) -> list[str]:
    """Everything that is wrong, read from whoever leads now."""
    leader = wait_until_whole(cluster)
    found: list[str] = []
    for topic in TOPICS:
        queues = read_topic(leader.address, topic, QUEUES)
        found += [f"{topic}: {text}" for text in _topic_problems(topic, queues, ledger)]
        if topic == ORDERED:
            found += [f"{topic}: {text}" for text in orderly_problems(ledger.handled, queues)]
        for member in cluster.members:
            if member is not leader:
                found += _same_on(member, topic, queues)
    found += [f"{count} sends were answered {code}" for code, count in ledger.wrong_answers.items()]
    dead = _dead_letters(leader)
    alive = {ack.body for ack in ledger.acked[RETRIED] if is_dead_letter(ack.body)} - dead - ledger.waiting
    if alive:
        found.append(f"{len(alive)} messages that no try helped are no dead letters, such as {min(alive)!r}")
    for member in cluster.members:
        found += [f"member {member.number}: {text}" for text in _table_problems(member, ledger)]
    return found


def _table_problems(member: MemberProcess, ledger: Ledger) -> list[str]:
    found = []
    with Control(member.address, timeout_s=10) as broker:
        header = {"consumerGroup": COMMITTED_GROUP, "topic": PLAIN, "queueId": "0"}
        answer = broker.call(RequestCode.QUERY_CONSUMER_OFFSET, header)
        committed = int(answer.ext["offset"]) if answer.code == ResponseCode.SUCCESS else -1
        if committed < ledger.committed:
            found.append(f"offset {ledger.committed} was committed, {committed} is there")
        gone = ledger.topics - broker.topics()
        if gone:
            found.append(f"{len(gone)} topics that were made are gone, such as {min(gone)}")
    return found


def _topic_problems(topic: str, queues: Queues, ledger: Ledger) -> list[str]:
    found: list[str] = []
    seen: Counter[bytes] = Counter()
    for queue_id, messages in enumerate(queues):
        if [message.queue_offset for message in messages] != list(range(len(messages))):
            found.append(f"the offsets of queue {queue_id} are not dense")
        seen.update(sent_body(message) for message in messages)
    lost = [
        ack for ack in ledger.acked[topic] if not _is_at(queues[ack.queue_id], ack.queue_offset, ack.body)
    ]
    found += _told(lost, "acknowledged messages are not where they were")
    found += _told((body for body in seen if body not in ledger.sent[topic]), "messages nobody sent")
    found += _told((body for body in ledger.refused[topic] if body in seen), "refused messages are there")
    if topic not in (PLAIN, ORDERED, RETRIED):  # their clients send again what was not answered
        doubled = (body for body, count in seen.items() if count > 1)
        found += _told(doubled, "messages are there twice")
    if topic == ORDERED:
        found += _order_problems(queues)
    if topic in (DELAYED, TIMED, RECALLED):
        found += _told(ledger.later[topic] - seen.keys(), "messages were never delivered")
    if topic == RECALLED:
        found += _told(ledger.recalled & seen.keys(), "messages were taken back and are there")
    if topic == TRANSACTIONS:
        found += _told(ledger.committed_transactions - seen.keys(), "committed messages are not there")
        found += _told(ledger.rolled_back & seen.keys(), "messages were rolled back and are there")
    return found


def _told(bad: Iterable[object], what: str) -> list[str]:
    some = list(bad)
    return [f"{len(some)} {what}, such as {str(some[0])[:160]}"] if some else []


def _is_at(queue: list[StoredMessage], offset: int, body: bytes) -> bool:
    return offset < len(queue) and sent_body(queue[offset]) == body


def _order_problems(queues: Queues) -> list[str]:
    """A key's numbers never go back: a number is only sent when the one before was acknowledged."""
    found = []
    for queue in queues:
        highest: dict[str, int] = {}
        for message in queue:
            name, number, _ = sent_body(message).decode().split(" ")
            if int(number) < highest.get(name, 0):
                found.append(f"{name}: {number} stands behind {highest[name]}")
            highest[name] = max(highest.get(name, 0), int(number))
    return found[:3]


def _same_on(member: MemberProcess, topic: str, wanted: Queues) -> list[str]:
    queues = read_topic(member.address, topic, QUEUES)
    for queue_id, (there, leader) in enumerate(zip(queues, wanted, strict=True)):
        if [each.offset_msg_id for each in there] != [each.offset_msg_id for each in leader][: len(there)]:
            return [f"member {member.number} has other messages in {topic}:{queue_id} than the leader"]
    return []


def log_problems(cluster: GroupCluster) -> list[str]:
    """After all have stopped: logs are equal byte for byte over what they hold in common."""
    files: dict[str, list[tuple[int, Path]]] = {}
    for member in cluster.members:
        for path in sorted((member.store / "commitlog").iterdir()):
            if path.name.isdigit():
                files.setdefault(path.name, []).append((member.number, path))
    found = []
    for name, copies in files.items():
        ends = [_written(path) for _, path in copies]
        common = min(ends)
        starts = {path.read_bytes()[:common] for _, path in copies}
        if len(starts) > 1:
            found.append(f"log file {name} differs between members {[number for number, _ in copies]}")
    return found


def _written(path: Path) -> int:
    return len(path.read_bytes().rstrip(b"\0"))
