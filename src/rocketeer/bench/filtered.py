"""Pulling through a filter on properties: many messages stored, few of them wanted, all of them looked at.

Messages have three properties that cycle through 4,000 combinations, of which the expression wants 40: 1 %. The group
subscribes by heartbeat, as push consumers do; one connection a queue pulls 32 at a time to the end.
"""

import contextlib
import itertools
import select
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rocketeer.bench.control import Control
from rocketeer.bench.frames import PullRequests
from rocketeer.bench.load import LoadFailed
from rocketeer.bench.processes import cpu_seconds, wait_for
from rocketeer.bench.session import BenchServer
from rocketeer.client.plans.clients import send_heartbeat
from rocketeer.client.plans.send import SendTerms, send_request
from rocketeer.client.sync.bulk_connection import BulkConnection
from rocketeer.model.queue import MessageQueue
from rocketeer.model.subscription import SQL92, ConsumeFromWhere, ConsumeType, MessageModel, Subscription
from rocketeer.protocol.bodies.heartbeat import ConsumerData, Heartbeat
from rocketeer.protocol.codes import ResponseCode
from rocketeer.record.batch import BatchItem, encode_batch
from rocketeer.remoting.frame_socket import FrameSocket

EXPRESSION: Final = "price < 20 AND color = 'red' AND region IN ('eu', 'us')"
GROUP: Final = "rocketeer-bench-filter"
TOPIC: Final = "bench_filter"
COMBINATIONS: Final = 4_000
WANTED: Final = 40
PER_BATCH: Final = 100
_STEP: Final = 1_787  # has no factor in common with 4,000: neighbours differ in everything
_COLORS: Final = ("red", "green", "blue", "black")
_REGIONS: Final = ("eu", "us", "cn", "in", "br", "au", "jp", "za", "ca", "mx")
_UNDER_WAY: Final = 8  # batches a connection
_ANSWER_S: Final = 30.0


@dataclass(frozen=True, kw_only=True)
class FilterPlan:
    messages: int = 1_000_000
    queues: int = 4
    body_bytes: int = 128
    expression: str = EXPRESSION

    @property
    def per_queue(self) -> int:
        """Messages of each queue, rounded to whole batches."""
        return max(1, self.messages // self.queues // PER_BATCH) * PER_BATCH

    @property
    def total(self) -> int:
        return self.per_queue * self.queues


@dataclass(frozen=True, kw_only=True)
class FilteredPull:
    """One walk through all queues."""

    seconds: float
    cpu_s: float
    """Processor time of the broker."""
    matched: int
    pulls: int


def combination(number: int) -> tuple[int, str, str]:
    """Price, colour and region of a queue's n-th message."""
    k = number * _STEP % COMBINATIONS
    return k % 100, _COLORS[k // 100 % 4], _REGIONS[k // 400]


def wanted_of(per_queue: int) -> int:
    """How many of a queue's messages EXPRESSION wants."""
    whole, rest = divmod(per_queue, COMBINATIONS)
    wanted = [price < 20 and color == "red" and region in ("eu", "us")
              for price, color, region in map(combination, range(rest))]  # fmt: skip
    return whole * WANTED + sum(wanted)


def _items(plan: FilterPlan, queue: int) -> Iterator[BatchItem]:
    body = bytes(ord("a") + i * 7 % 26 for i in range(plan.body_bytes))
    tails: list[bytes] = []
    for number in range(COMBINATIONS):
        price, color, region = combination(number)
        tail = (
            f"\x02WAIT\x01true\x02TAGS\x01TagA\x02price\x01{price}\x02color\x01{color}\x02region\x01{region}"
        )
        tails.append(tail.encode())
    for number in range(plan.per_queue):
        properties = b"UNIQ_KEY\x017F000001%02X%022X%b" % (queue, number, tails[number % COMBINATIONS])
        yield BatchItem(0, body, properties)


def _replies_of(sock: FrameSocket) -> Iterator[tuple[int, int, bytes]]:
    """(code, next offset, body) of every reply; waits for each."""
    while True:
        for reply in sock.receive(time.monotonic() + _ANSWER_S):
            following = int(reply.ext.get("nextBeginOffset") or -1)
            yield reply.code, following, reply.body


def store(server: BenchServer, plan: FilterPlan) -> float:
    """Store the messages; the CPU seconds it cost the broker, everything derived from them included."""
    with Control(server.address, timeout_s=60) as control:
        control.create_topic(TOPIC, queues=plan.queues)
        before_s = cpu_seconds(server.pid) if server.pid is not None else 0.0
        for queue in range(plan.queues):
            _store_queue(server.address, plan, queue)
        queues = range(plan.queues)
        if not wait_for(
            lambda: all(control.max_offset(TOPIC, queue) >= plan.per_queue for queue in queues), 60
        ):
            raise LoadFailed(f"{server.label} did not dispatch {plan.total} messages within a minute")
    time.sleep(1)  # the index, and Java's queue of derived work, catch up
    return cpu_seconds(server.pid) - before_s if server.pid is not None else 0.0


def _store_queue(address: str, plan: FilterPlan, queue: int) -> None:
    terms, place = (
        SendTerms("rocketeer-bench", default_queues=str(plan.queues)),
        MessageQueue(TOPIC, address, queue),
    )
    items = _items(plan, queue)
    with contextlib.closing(BulkConnection(address)) as connection:
        while batch := list(itertools.islice(items, PER_BATCH)):
            if connection.waiting == _UNDER_WAY:
                _stored(connection)
            now_ms = time.time_ns() // 1_000_000
            connection.send(
                send_request(terms, place, encode_batch(batch), "", now_ms, batch=True), _ANSWER_S
            )
        while connection.waiting:
            _stored(connection)


def _stored(connection: BulkConnection) -> None:
    reply, _ = connection.receive(_ANSWER_S)
    if reply.code != ResponseCode.SUCCESS:
        raise LoadFailed(f"a batch was refused with {reply.code}: {(reply.remark or '')[-200:]!r}")


def subscribe(control: Control, plan: FilterPlan) -> None:
    """Make the connection a member of the group; it lasts as long as the connection does."""
    subscription = Subscription(TOPIC, plan.expression, SQL92, version=1)
    consumer = ConsumerData(
        GROUP,
        ConsumeType.CONSUME_PASSIVELY,
        MessageModel.CLUSTERING,
        ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        (subscription,),
        False,
    )
    heartbeat = Heartbeat("rocketeer-bench", (), (consumer,))
    control.run(send_heartbeat(control.address, heartbeat, control.cluster.timeout_s))


def pull_all(server: BenchServer, plan: FilterPlan) -> FilteredPull:
    """Every queue from its first message to its last, all queues at once."""
    requests = PullRequests(TOPIC, group=GROUP, subscription=None, kind=SQL92)
    with Control(server.address, timeout_s=60) as member:
        subscribe(member, plan)
        cpu_before_s = cpu_seconds(server.pid) if server.pid is not None else 0.0
        began_s = time.monotonic()
        matched, pulls = _walk(server.address, plan, requests)
        seconds = time.monotonic() - began_s
        cpu_s = cpu_seconds(server.pid) - cpu_before_s if server.pid is not None else 0.0
    return FilteredPull(seconds=seconds, cpu_s=cpu_s, matched=matched, pulls=pulls)


def _walk(address: str, plan: FilterPlan, requests: PullRequests) -> tuple[int, int]:
    """One pull under way on each queue's connection; messages that matched, and pulls it took."""
    socks = [FrameSocket(address, time.monotonic() + _ANSWER_S) for _ in range(plan.queues)]
    answers = [_replies_of(sock) for sock in socks]
    poll = select.poll()
    queue_of: dict[int, int] = {}
    matched = pulls = 0
    try:
        for queue, sock in enumerate(socks):
            queue_of[sock.fileno()] = queue
            poll.register(sock, select.POLLIN)
            sock.send(requests.one(1, queue, 0), time.monotonic() + _ANSWER_S)
        while queue_of:
            for fd, _ in poll.poll(_ANSWER_S * 1000) or _silent(address):
                queue = queue_of[fd]
                code, next_offset, body = next(answers[queue])
                pulls += 1
                if code == ResponseCode.SUCCESS:
                    matched += _count(body)
                elif code != ResponseCode.PULL_RETRY_IMMEDIATELY:
                    raise LoadFailed(f"{address} answered a pull with {code}")
                if next_offset < plan.per_queue:
                    socks[queue].send(requests.one(1, queue, next_offset), time.monotonic() + _ANSWER_S)
                else:
                    poll.unregister(fd)
                    del queue_of[fd]
    finally:
        for sock in socks:
            sock.close()
    return matched, pulls


def _silent(address: str) -> list[tuple[int, int]]:
    raise LoadFailed(f"{address} did not answer a pull within {_ANSWER_S:g} s")


def _count(records: bytes) -> int:
    count = at = 0
    while at < len(records):
        at += int.from_bytes(records[at : at + 4], "big")
        count += 1
    return count
