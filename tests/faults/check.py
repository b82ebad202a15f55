"""What must be true when all faults are over: nothing acknowledged is lost, whoever led."""

import contextlib
import json
import time
from collections import Counter
from pathlib import Path

from faults.load import COMMITTED_GROUP, ONCE, ORDERED, PLAIN, QUEUES, TOPICS, Ledger
from rocketeer.bench.control import Control
from rocketeer.bench.groups import GroupCluster, Member
from rocketeer.errors import RemotingError
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.record.layout import StoredMessage
from support.senders import read_topic

QUIET_S = 90.0


def wait_until_whole(cluster: GroupCluster) -> Member:
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


def _log_end(member: Member) -> int:
    with (
        contextlib.suppress(RemotingError, OSError, KeyError),
        Control(member.address, timeout_s=3) as broker,
    ):
        answer = broker.call(RequestCode.GET_BROKER_RUNTIME_INFO)
        if answer.code == ResponseCode.SUCCESS:
            return int(json.loads(answer.body)["table"]["commitLogMaxOffset"])
    return -1


def problems(cluster: GroupCluster, ledger: Ledger) -> list[str]:
    """Everything that is wrong, read from whoever leads now."""
    leader = wait_until_whole(cluster)
    found: list[str] = []
    for topic in TOPICS:
        queues = read_topic(leader.address, topic, QUEUES)
        found += [f"{topic}: {text}" for text in _topic_problems(topic, queues, ledger)]
        for member in cluster.members:
            if member is not leader:
                found += _same_on(member, topic, queues)
    with Control(leader.address, timeout_s=10) as broker:
        header = {"consumerGroup": COMMITTED_GROUP, "topic": PLAIN, "queueId": "0"}
        answer = broker.call(RequestCode.QUERY_CONSUMER_OFFSET, header)
        committed = int(answer.ext["offset"]) if answer.code == ResponseCode.SUCCESS else -1
        if committed < ledger.committed:
            found.append(f"offset {ledger.committed} was committed, {committed} is there")
    return found


def _topic_problems(topic: str, queues: list[list[StoredMessage]], ledger: Ledger) -> list[str]:
    found: list[str] = []
    seen: Counter[bytes] = Counter()
    for queue_id, messages in enumerate(queues):
        if [message.queue_offset for message in messages] != list(range(len(messages))):
            found.append(f"the offsets of queue {queue_id} are not dense")
        seen.update(message.plain_body() for message in messages)
    invented = [body for body in seen if body not in ledger.sent[topic]]
    if invented:
        found.append(f"{len(invented)} messages nobody sent, such as {invented[0][:40]!r}")
    lost = [
        ack for ack in ledger.acked[topic] if not _is_at(queues[ack.queue_id], ack.queue_offset, ack.body)
    ]
    if lost:
        found.append(f"{len(lost)} acknowledged messages are not where they were, such as {lost[0]}")
    if topic == ONCE:
        doubled = [body for body, count in seen.items() if count > 1]
        if doubled:
            found.append(f"{len(doubled)} idempotent sends are stored twice, such as {doubled[0]!r}")
    if topic == ORDERED:
        found += _order_problems(queues)
    return found


def _is_at(queue: list[StoredMessage], offset: int, body: bytes) -> bool:
    return offset < len(queue) and queue[offset].plain_body() == body


def _order_problems(queues: list[list[StoredMessage]]) -> list[str]:
    """A key's numbers never go back: a number is only sent when the one before was acknowledged."""
    found = []
    for queue in queues:
        highest: dict[str, int] = {}
        for message in queue:
            name, number, _ = message.plain_body().decode().split(" ")
            if int(number) < highest.get(name, 0):
                found.append(f"{name}: {number} stands behind {highest[name]}")
            highest[name] = max(highest.get(name, 0), int(number))
    return found[:3]


def _same_on(member: Member, topic: str, wanted: list[list[StoredMessage]]) -> list[str]:
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
