"""Traces of our clients: in RocketMQ's format, in the trace topic, never in the way."""

import asyncio
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

import rocketeer
from rocketeer.aio import LitePullConsumer, Message, Producer, PushConsumer
from rocketeer.bench.control import Control
from rocketeer.client.aio import tracing
from rocketeer.client.aio.transaction_producer import TransactionProducer
from rocketeer.client.core.hooks import ConsumeContext
from rocketeer.client.core.outcome import COMMIT, RETRY
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.record.trace import ConsumeCode, MessageKind, TraceEvent, TraceKind, decode_trace
from support.cluster import ServerCluster, chosen_make, running_cluster
from support.consuming import make_topic, options, send, until, until_sync

TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with running_cluster(folder, peer=chosen_make(), conf={"traceTopicEnable": "true"}) as running:
        yield running


def events_of(
    cluster: ServerCluster, message_id: str, trace_topic: str = TRACE_TOPIC, *, at_least: int = 1
) -> list[TraceEvent]:
    """What the trace topic tells of a message; Apache's broker shows a trace a little after it took it."""
    found: list[TraceEvent] = []

    def complete() -> bool:
        found[:] = [each for each in all_events(cluster, trace_topic) if each.message_id == message_id]
        return len(found) >= at_least

    until_sync(complete, f"{at_least} events of {message_id}")
    return found


def all_events(cluster: ServerCluster, trace_topic: str) -> list[TraceEvent]:
    with rocketeer.PullConsumer("reads-traces", nameserver=cluster.namesrv) as consumer:
        bodies = [message.body for queue in consumer.queues(trace_topic) for message in _all(consumer, queue)]
    return [event for body in bodies for event in decode_trace(body)]


def _all(consumer: rocketeer.PullConsumer, queue: rocketeer.MessageQueue) -> list[ReceivedMessage]:
    messages: list[ReceivedMessage] = []
    offset = consumer.min_offset(queue)
    while offset < consumer.max_offset(queue):
        result = consumer.pull(queue, offset)
        messages += result.messages
        offset = result.next_offset
    return messages


async def test_a_message_leaves_the_trace_of_its_life(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic, queues=1)
    got: list[ReceivedMessage] = []
    consumer = PushConsumer(f"G-{topic}", **options(cluster, trace=True))

    @consumer.subscribe(topic)
    async def fail_once(message: ReceivedMessage) -> object:
        got.append(message)
        return RETRY if message.reconsume_times == 0 else None

    async with consumer:
        async with Producer(f"PG-{topic}", nameserver=cluster.namesrv, trace=True) as producer:
            message = Message(topic, b"traced", tags="t", keys=["k1", "k2"])
            result = await producer.send(message)
            delayed = await producer.send(Message(topic, b"later", delay_level=1))
            batch = await producer.send([Message(topic, b"a"), Message(topic, b"b")])
        await until(lambda: len(got) == 8)
    pub, *rest = await asyncio.to_thread(events_of, cluster, result.message_id, at_least=5)
    assert (pub.kind, pub.topic, pub.tags, pub.keys) == (TraceKind.PUB, topic, "t", "k1 k2")
    assert (pub.group, pub.region, pub.success) == (f"PG-{topic}", "DefaultRegion", True)
    assert (pub.store_host, pub.body_bytes) == (cluster.broker, 6)
    assert pub.offset_message_id == result.offset_message_id
    kinds = [event.kind for event in rest]
    assert kinds == [TraceKind.SUB_BEFORE, TraceKind.SUB_AFTER] * 2
    first_before, first_after, second_before, second_after = rest
    assert first_before.request_id == first_after.request_id != second_before.request_id
    assert (first_after.success, first_after.code) == (False, ConsumeCode.FAILED)
    assert (second_before.retries, second_after.success, second_after.code) == (1, True, ConsumeCode.SUCCESS)
    assert second_after.group == f"G-{topic}"
    (sent, *_) = await asyncio.to_thread(events_of, cluster, delayed.message_id)
    assert sent.message_kind == MessageKind.DELAY
    for message_id in batch.message_id.split(","):
        (sent, *_) = await asyncio.to_thread(events_of, cluster, message_id)
        assert sent.kind is TraceKind.PUB


async def test_the_end_of_a_transaction_is_traced(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic, queues=1)

    async def check(message: ReceivedMessage) -> object:
        return COMMIT

    producer = TransactionProducer(f"PG-{topic}", check=check, nameserver=cluster.namesrv, trace=True)
    async with producer:
        result = await producer.send_in_transaction(
            Message(topic, b"x", tags="t", keys="k"), lambda transaction: COMMIT
        )
    sent, ended = await asyncio.to_thread(events_of, cluster, result.message_id, at_least=2)
    assert (sent.kind, sent.message_kind) == (TraceKind.PUB, MessageKind.TRANSACTION_HALF)
    assert (ended.kind, ended.message_kind) == (TraceKind.END_TRANSACTION, MessageKind.TRANSACTION_COMMIT)
    assert (ended.transaction_state, ended.from_check) == ("COMMIT_MESSAGE", False)
    assert (ended.topic, ended.tags, ended.keys, ended.group) == (topic, "t", "k", f"PG-{topic}")
    assert ended.store_host == cluster.broker


def test_traces_are_found_by_message_id_and_key(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic)
    with rocketeer.Producer(f"PG-{topic}", nameserver=cluster.namesrv, trace=True) as producer:
        result = producer.send(rocketeer.Message(topic, b"x", keys="key-of-trace"))
    with Control(cluster.broker) as broker:
        for key in (result.message_id, "key-of-trace"):
            until_sync(lambda key=key: broker.has_key(TRACE_TOPIC, key), f"the trace is found by {key}")  # type: ignore[misc]
            ext = {"topic": TRACE_TOPIC, "key": key, "maxNum": "32"}
            found = broker.call(12, {**ext, "beginTimestamp": "0", "endTimestamp": str(1 << 62)})
            assert found.code == 0, found.remark
            assert result.message_id.encode() in found.body


def test_a_topic_of_ones_own_may_take_the_traces(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic)
    own = f"{topic}-traces"
    make_topic(cluster, own, queues=2)
    config = {"nameserver": cluster.namesrv, "trace": True, "trace_topic": own}
    with rocketeer.Producer(f"PG-{topic}", **config) as producer:  # type: ignore[arg-type]
        result = producer.send(rocketeer.Message(topic, b"x"))
        futures = [producer.send_async(rocketeer.Message(topic, b"%d" % number)) for number in range(300)]
        ids = [future.result(30).message_id for future in futures]
        traced = producer.send(rocketeer.Message(own, b"not traced itself"))
    assert [event.kind for event in events_of(cluster, result.message_id, own)] == [TraceKind.PUB]
    until_sync(lambda: len(all_events(cluster, own)) >= 301, "closing sends what is left")
    found = [event.message_id for event in all_events(cluster, own)]
    assert sorted(found) == sorted([result.message_id, *ids])
    assert traced.message_id not in found


async def test_polled_messages_leave_a_trace(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic, queues=1)
    await send(cluster, topic, ["polled"])
    consumer = LitePullConsumer(f"G-{topic}", **options(cluster, trace=True))
    consumer.subscribe(topic)
    async with consumer:
        (message,) = await consumer.poll(20)
    events = await asyncio.to_thread(events_of, cluster, message.message_id, at_least=2)
    assert [event.kind for event in events] == [TraceKind.SUB_BEFORE, TraceKind.SUB_AFTER]


async def test_a_trace_that_cannot_be_sent_hinders_nobody(
    cluster: ServerCluster, topic: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(cluster, topic)
    monkeypatch.setattr(tracing, "WAITING_MAX", 5)
    producer = Producer(
        f"PG-{topic}",
        nameserver=cluster.namesrv,
        trace=True,
        trace_topic="SCHEDULE_TOPIC_XXXX",  # nobody may send there
        close_timeout_s=1.0,
    )
    with caplog.at_level(logging.WARNING):
        await producer.start()
        results = await asyncio.gather(*(producer.send(Message(topic, b"x")) for _ in range(50)))
        assert all(result.ok for result in results)
        began_s = time.monotonic()
        await producer.close()
        assert time.monotonic() - began_s < 10
    assert "trace not sent" in caplog.text
    assert "trace events dropped count=" in caplog.text


@dataclass
class Watching:
    seen: list[str] = field(default_factory=list)
    contexts: list[ConsumeContext] = field(default_factory=list)

    def before_consume(self, context: ConsumeContext) -> None:
        self.seen.append(f"before {context.messages[0].text}")
        if context.messages[0].text == "m0":
            raise ValueError("a hook that fails")

    def after_consume(self, context: ConsumeContext) -> None:
        self.seen.append(f"after {context.messages[0].text}")
        self.contexts.append(context)


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "coroutine"])
async def test_hooks_see_what_listeners_do(
    cluster: ServerCluster, topic: str, orderly: bool, is_async: bool
) -> None:
    make_topic(cluster, topic, queues=1)
    await send(cluster, topic, ["m0", "m1"])
    watching = Watching()
    config = options(cluster, concurrency=1, suspend_s=0.01)
    consumer = PushConsumer(f"G-{topic}", orderly=orderly, hooks=[watching], **config)
    tries: list[str] = []

    def take(message: ReceivedMessage) -> None:
        tries.append(message.text)
        if message.text == "m1" and tries.count("m1") == 1:
            raise ValueError("the first time")

    async def take_async(message: ReceivedMessage) -> None:
        take(message)

    consumer.subscribe(topic, take_async if is_async else take)
    async with consumer:
        await until(lambda: len(watching.contexts) == 3)
    assert watching.seen == ["before m0", "after m0", "before m1", "after m1", "before m1", "after m1"]
    good, bad, again = watching.contexts
    assert (good.success, good.code, good.error) == (True, ConsumeCode.SUCCESS, None)
    assert (bad.success, bad.code, str(bad.error)) == (False, ConsumeCode.EXCEPTION, "the first time")
    assert again.success
    assert good.group == f"G-{topic}"
    assert good.queue.topic == topic
