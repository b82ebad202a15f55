"""What users may put into clients: RPC hooks, filters, queue listeners, offset stores; and topics made by producers."""

import asyncio
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import pytest

from rocketeer import (
    BrokerRefused,
    ConfigError,
    ConsumeFromWhere,
    InvalidMessage,
    InvalidTopic,
    Message,
    MessageModel,
    MessageQueue,
    Producer,
    PullConsumer,
    ReceivedMessage,
    RpcContext,
    UnknownOption,
    aio,
)
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.headers.send import SendMessageReplyHeader, SendMessageV2Header
from support.cluster import ServerCluster
from support.consuming import make_topic, names, send

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
WAIT_S = 30.0
Receive = Callable[[ServerCluster, str, Path], Awaitable[list[ReceivedMessage]]]


async def until(condition: object, what: str) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline_s, f"not within {WAIT_S:g} s: {what}"
        await asyncio.sleep(0.02)


# --- what a message tells of its queue ---------------------------------------------------------


async def pushed(
    cluster: ServerCluster, topic: str, folder: Path, model: MessageModel = MessageModel.CLUSTERING
) -> list[ReceivedMessage]:
    got: list[ReceivedMessage] = []
    consumer = aio.PushConsumer(
        f"G-{topic}",
        nameserver=cluster.namesrv,
        consume_from=FIRST,
        message_model=model,
        offset_folder=folder,
    )
    consumer.subscribe(topic, got.append)
    async with consumer:
        await until(lambda: len(got) == 10, "ten messages")
    return got


async def broadcast(cluster: ServerCluster, topic: str, folder: Path) -> list[ReceivedMessage]:
    return await pushed(cluster, topic, folder, MessageModel.BROADCASTING)


async def polled(cluster: ServerCluster, topic: str, folder: Path) -> list[ReceivedMessage]:
    got: list[ReceivedMessage] = []
    consumer = aio.LitePullConsumer(f"G-{topic}", nameserver=cluster.namesrv, consume_from=FIRST)
    consumer.subscribe(topic)
    async with consumer:
        deadline_s = time.monotonic() + WAIT_S
        while len(got) < 10 and time.monotonic() < deadline_s:
            got += await consumer.poll(timeout_s=1)
    return got


async def pulled(cluster: ServerCluster, topic: str, folder: Path) -> list[ReceivedMessage]:
    got: list[ReceivedMessage] = []
    async with aio.PullConsumer(f"G-{topic}", nameserver=cluster.namesrv) as consumer:
        (queue,) = await consumer.queues(topic)
        while len(got) < 10:
            got += (await consumer.pull(queue, len(got), hold_s=20.0)).messages
    return got


@pytest.mark.parametrize("receive", [pushed, broadcast, polled, pulled], ids=lambda each: each.__name__)
async def test_every_message_says_how_far_its_queue_reached(
    cluster: ServerCluster, topic: str, tmp_path: Path, receive: Receive
) -> None:
    make_topic(cluster, topic, queues=1)
    await send(cluster, topic, names(10))
    got = await receive(cluster, topic, tmp_path)
    assert sorted(message.queue_offset for message in got) == list(range(10))
    for message in got:
        assert message.properties["MIN_OFFSET"] == "0"
        assert message.properties["MAX_OFFSET"] == "10"
        assert message.lag == 9 - message.queue_offset


# --- RPC hooks ---------------------------------------------------------------------------------


class Seeing:
    def __init__(self) -> None:
        self.before: list[int] = []
        self.after: list[tuple[int, int | None, bool]] = []
        self.headers: list[object] = []
        self.reply_headers: list[object] = []

    def before_request(self, context: RpcContext) -> None:
        self.before.append(int(context.code))
        self.headers.append(context.header)
        assert context.reply_header is None, "there is no reply yet"
        context.fields["tenant"] = "t1"
        context.notes["began"] = True

    def after_reply(self, context: RpcContext) -> None:
        assert context.notes["began"]
        self.reply_headers.append(context.reply_header)
        code = None if context.reply is None else context.reply.code
        self.after.append((int(context.code), code, context.error is None))


class Forbidding:
    def before_request(self, context: RpcContext) -> None:
        if context.code == RequestCode.SEND_MESSAGE_V2:
            raise PermissionError("not on Sundays")

    def after_reply(self, context: RpcContext) -> None:
        raise RuntimeError("only logged")


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_an_rpc_hook_sees_every_request_and_its_reply(cluster: ServerCluster, topic: str, kind: str) -> None:
    make_topic(cluster, topic, queues=1)
    hook = Seeing()
    if kind == "threads":
        with Producer("G", nameserver=cluster.namesrv, rpc_hooks=[hook]) as producer:
            producer.send(Message(topic, b"x"))
    else:

        async def main() -> None:
            async with aio.Producer(
                "G", nameserver=cluster.namesrv, rpc_hooks=[hook], batch_bytes=0
            ) as sender:
                await sender.send(Message(topic, b"x"))

        asyncio.run(main())
    assert RequestCode.GET_ROUTEINFO_BY_TOPIC in hook.before
    assert RequestCode.SEND_MESSAGE_V2 in hook.before
    assert (RequestCode.SEND_MESSAGE_V2, 0, True) in hook.after
    assert len(hook.after) == len(hook.before)
    (header,) = [each for each in hook.headers if isinstance(each, SendMessageV2Header)]
    assert header.topic == topic
    (answer,) = [each for each in hook.reply_headers if isinstance(each, SendMessageReplyHeader)]
    assert (answer.queue_id, answer.queue_offset) == (0, 0)


def test_what_a_hook_raises_before_a_request_ends_the_call(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic, queues=1)
    with (
        Producer("G", nameserver=cluster.namesrv, rpc_hooks=[Forbidding()]) as producer,
        pytest.raises(PermissionError, match="Sundays"),
    ):
        producer.send(Message(topic, b"x"))


# --- filters -----------------------------------------------------------------------------------


class OnlyEven:
    def filter_messages(
        self, group: str, queue: MessageQueue, messages: Sequence[ReceivedMessage]
    ) -> Sequence[ReceivedMessage]:
        return [message for message in messages if int(message.text[1:]) % 2 == 0]


class Broken:
    def filter_messages(
        self, group: str, queue: MessageQueue, messages: Sequence[ReceivedMessage]
    ) -> Sequence[ReceivedMessage]:
        raise RuntimeError("a bug of the user")


async def test_what_a_filter_hook_leaves_out_counts_as_consumed(cluster: ServerCluster, topic: str) -> None:
    (queue,) = make_topic(cluster, topic, queues=1)
    await send(cluster, topic, names(9))
    got: list[str] = []
    consumer = aio.PushConsumer(
        f"G-{topic}", nameserver=cluster.namesrv, consume_from=FIRST, filter_hooks=[Broken(), OnlyEven()]
    )
    consumer.subscribe(topic, lambda message: got.append(message.text))
    async with consumer:
        await until(lambda: len(got) == 5, "the even ones")
        await consumer.commit()
    with PullConsumer(f"G-{topic}", nameserver=cluster.namesrv, filter_hooks=[OnlyEven()]) as reader:
        assert reader.committed(queue) == 9
        assert [message.text for message in reader.read(queue)] == ["m0", "m2", "m4", "m6", "m8"]
    assert sorted(got) == ["m0", "m2", "m4", "m6", "m8"]


# --- queues ------------------------------------------------------------------------------------


async def test_a_queue_listener_hears_of_every_change(cluster: ServerCluster, topic: str) -> None:
    queues = make_topic(cluster, topic, queues=4)
    heard: list[tuple[str, int, int]] = []

    def changed(topic: str, all_queues: Sequence[MessageQueue], mine: Sequence[MessageQueue]) -> None:
        heard.append((topic, len(all_queues), len(mine)))

    options = {"nameserver": cluster.namesrv, "rebalance_s": 0.5}
    first = aio.PushConsumer(f"G-{topic}", queue_listener=changed, **options)  # type: ignore[arg-type]
    first.subscribe(topic, lambda message: None)
    second = aio.PushConsumer(f"G-{topic}", **options)  # type: ignore[arg-type]
    second.subscribe(topic, lambda message: None)
    async with first:
        await until(lambda: (topic, len(queues), 4) in heard, "all queues")
        async with second:
            await until(lambda: (topic, 4, 2) in heard, "half of them")
        await until(lambda: heard[-1] == (topic, 4, 4), "all again")
    assert len([each for each in heard if each[0] == topic]) == 3


async def test_a_queue_listener_of_a_lite_pull_consumer_hears_of_its_queues(
    cluster: ServerCluster, topic: str
) -> None:
    queues = make_topic(cluster, topic, queues=4)
    heard: list[tuple[str, list[MessageQueue], list[MessageQueue]]] = []

    def changed(topic: str, all_queues: Sequence[MessageQueue], mine: Sequence[MessageQueue]) -> None:
        heard.append((topic, sorted(all_queues), sorted(mine)))

    consumer = aio.LitePullConsumer(f"G-{topic}", nameserver=cluster.namesrv, queue_listener=changed)
    consumer.subscribe(topic)
    async with consumer:
        await until(lambda: (topic, queues, queues) in heard, "all queues")


def test_pull_consumers_of_a_group_share_the_queues(cluster: ServerCluster, topic: str) -> None:
    queues = make_topic(cluster, topic, queues=4)
    with (
        PullConsumer(f"G-{topic}", nameserver=cluster.namesrv) as one,
        PullConsumer(f"G-{topic}", nameserver=cluster.namesrv) as two,
    ):
        one.my_queues(topic)
        mine = two.my_queues(topic)
        assert len(mine) == 2
        assert sorted([*mine, *one.my_queues(topic)]) == queues


# --- offsets -----------------------------------------------------------------------------------


class Kept:
    def __init__(self) -> None:
        self.offsets: dict[MessageQueue, int] = {}

    def load(self, queue: MessageQueue) -> int | None:
        return self.offsets.get(queue)

    async def store(self, offsets: Mapping[MessageQueue, int]) -> None:
        self.offsets.update(offsets)


@pytest.mark.parametrize("kind", ["push", "lite"])
async def test_offsets_are_kept_where_the_user_says(cluster: ServerCluster, topic: str, kind: str) -> None:
    (queue,) = make_topic(cluster, topic, queues=1)
    await send(cluster, topic, names(10))
    kept = Kept()
    kept.offsets[queue] = 6
    got: list[str] = []
    if kind == "push":
        consumer = aio.PushConsumer(
            f"G-{topic}", nameserver=cluster.namesrv, offset_store=kept, consume_from=FIRST
        )
        consumer.subscribe(topic, lambda message: got.append(message.text))
        async with consumer:
            await until(lambda: len(got) == 4, "those behind the offset")
    else:
        polling = aio.LitePullConsumer(
            f"G-{topic}", nameserver=cluster.namesrv, offset_store=kept, consume_from=FIRST
        )
        polling.subscribe(topic)
        async with polling:
            deadline_s = time.monotonic() + WAIT_S
            while len(got) < 4 and time.monotonic() < deadline_s:
                got += [message.text for message in await polling.poll(1)]
    assert sorted(got) == ["m6", "m7", "m8", "m9"]
    assert kept.offsets[queue] == 10


def test_effects_in_ones_own_database_happen_once_over_kill_9(cluster: ServerCluster, tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples" / "own_offsets.py"
    database = tmp_path / "payments.db"
    env = {**os.environ, "NAMESRV_ADDR": cluster.namesrv}
    all_of_them = [f"p{number}" for number in range(100)]
    crash = {**env, "CRASH_AT": "p3"}
    for _ in range(2):
        done = subprocess.run([sys.executable, example, database], env=crash, timeout=60, capture_output=True)
        assert done.returncode == 1, done.stderr
        booked = {row[0] for row in sqlite3.connect(database).execute("SELECT id FROM payments")}
        left = [name for name in all_of_them if name not in booked]
        crash = {**env, "CRASH_AT": left[len(left) // 2], "SENT": "1"}
    done = subprocess.run(
        [sys.executable, example, database],
        env={**env, "SENT": "1"},
        timeout=90,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "100 payments, 4950 in all\n", done.stderr
    rows = sqlite3.connect(database).execute("SELECT id, COUNT(*) FROM payments GROUP BY id").fetchall()
    assert sorted(rows) == sorted((name, 1) for name in all_of_them)


# --- topics made by producers, timed by the old name -------------------------------------------


def test_a_producer_makes_a_topic_with_its_queues(cluster: ServerCluster, topic: str) -> None:
    with Producer("G", nameserver=cluster.namesrv) as producer:
        queues = producer.create_topic(topic, queues=3)
        assert len(queues) == 3
        assert producer.queues(topic) == queues
        assert producer.send(Message(topic, b"x")).queue in queues
        assert len(producer.create_topic(topic, queues=5)) == 5
        with pytest.raises(InvalidTopic):
            producer.create_topic("no spaces")
        with pytest.raises(ConfigError):
            producer.create_topic(topic, queues=0)


@pytest.mark.skipif(os.environ.get("ROCKETEER_PEER") == "apache", reason="4.9.8 delivers at once")
@pytest.mark.parametrize("kind", ["alone", "among others"])
def test_a_message_with_a_start_of_delivery_is_a_timed_one(
    cluster: ServerCluster, topic: str, kind: str
) -> None:
    (queue,) = make_topic(cluster, topic, queues=1)
    with Producer("G", nameserver=cluster.namesrv) as producer:
        due_ms = int(time.time() * 1000) + 1_500
        later = Message(topic, b"later", properties={"__STARTDELIVERTIME": str(due_ms)})
        if kind == "alone":
            producer.send(later)
            producer.send(Message(topic, b"now"))
        else:  # those of one moment travel as a batch, which is never rewritten: it must not be in it
            sends = [producer.send_async(each) for each in (later, Message(topic, b"now"))]
            assert all(sent.result(30).ok for sent in sends)
        with pytest.raises(InvalidMessage, match="cannot be in a batch"):
            producer.send([Message(topic, b"x"), later])
        with pytest.raises(BrokerRefused, match="timer message illegal"):
            producer.send(Message(topic, b"x", properties={"__STARTDELIVERTIME": "tomorrow"}))
    with PullConsumer(f"G-{topic}", nameserver=cluster.namesrv) as reader:
        assert reader.pull(queue, 0, hold_s=20.0).messages[0].text == "now"
        arrived = reader.pull(queue, 1, hold_s=20.0).messages[0]
        assert arrived.text == "later"
        assert arrived.store_ms >= due_ms


@pytest.mark.parametrize("option", ["accessChannel", "access_channel", "onsAddr", "security_token"])
def test_options_for_a_clouds_brokers_are_refused_by_name(option: str) -> None:
    with pytest.raises(UnknownOption, match=f"{option}= is an option of a cloud's RocketMQ"):
        Producer("G", **{option: "CLOUD"})  # type: ignore[arg-type]
