"""SQL92 subscriptions: every kind of consumer gets exactly the messages for which its expression is true."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from rocketeer.aio import Message, Producer
from rocketeer.client.aio.lite_pull_consumer import LitePullConsumer
from rocketeer.client.aio.pull_consumer import PullConsumer
from rocketeer.client.aio.push_consumer import PushConsumer
from rocketeer.client.app import App
from rocketeer.client.core.outcome import RETRY, Retry
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.plans.pull import PullStatus
from rocketeer.client.sync.lite_pull_consumer import LitePullConsumer as SyncLitePullConsumer
from rocketeer.client.sync.pull_consumer import PullConsumer as SyncPullConsumer
from rocketeer.client.sync.push_consumer import PushConsumer as SyncPushConsumer
from rocketeer.errors import BadSqlExpression, BrokerRefused, ConfigError
from support.cluster import ServerCluster, chosen_make, running_cluster
from support.consuming import make_topic, options, until, until_sync

CHEAP_AND_RED = "price < 10 AND color = 'red'"
COLORS = ("red", "green", "blue")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerCluster]:
    """Apache's broker filters by properties only when told to; ours by itself."""
    conf = {"enablePropertyFilter": "true"} if chosen_make() == "apache" else {}
    with running_cluster(tmp_path_factory.mktemp("cluster"), peer=chosen_make(), conf=conf) as running:
        yield running


async def _send_priced(cluster: ServerCluster, topic: str, count: int) -> None:
    """Messages m0, m1 ... whose price is their number and whose colours take turns."""
    async with Producer("senders", nameserver=cluster.namesrv, send_timeout_s=60) as producer:
        for number in range(count):
            properties = {"price": str(number), "color": COLORS[number % 3]}
            await producer.send(Message(topic, f"m{number}".encode(), tags="T", properties=properties))


WANTED = sorted(f"m{number}" for number in range(0, 10, 3))


async def test_a_push_consumer_gets_what_matches(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic)
    await _send_priced(cluster, topic, 30)
    got: list[str] = []
    consumer = PushConsumer(f"G-{topic}", **options(cluster))

    @consumer.subscribe(topic, sql=CHEAP_AND_RED)
    async def take(message: ReceivedMessage) -> None:
        got.append(message.text)

    async with consumer:
        await until(lambda: len(got) >= 4)
        await _send_priced(cluster, topic, 3)  # held pulls are woken by the one that matches
        await until(lambda: len(got) >= 5)
    assert sorted(got) == sorted([*WANTED, "m0"])


def test_a_push_consumer_in_threads_gets_what_matches(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic)
    asyncio.run(_send_priced(cluster, topic, 30))
    got: list[str] = []
    consumer = SyncPushConsumer(f"G-{topic}", **options(cluster))
    consumer.subscribe(topic, lambda message: got.append(message.text), sql=CHEAP_AND_RED)
    with consumer:
        until_sync(lambda: len(got) >= 4)
    assert sorted(got) == WANTED


async def test_the_expression_may_travel_with_the_pulls(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic)
    await _send_priced(cluster, topic, 30)
    got: list[str] = []
    consumer = PushConsumer(f"G-{topic}", **options(cluster, post_subscription_when_pull=True))
    consumer.subscribe(topic, lambda message: got.append(message.text), sql=CHEAP_AND_RED)
    async with consumer:
        await until(lambda: len(got) >= 4)
    assert sorted(got) == WANTED


async def test_an_expression_can_be_changed_while_it_runs(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic, queues=1)
    got: list[str] = []
    consumer = PushConsumer(f"G-{topic}", **options(cluster, concurrency=1))  # what is old comes first
    consumer.subscribe(topic, lambda message: got.append(message.text), sql="color = 'red'")
    async with consumer:
        await _send_priced(cluster, topic, 3)
        await until(lambda: got == ["m0"])
        consumer.subscribe(
            topic, lambda message: got.append(message.text), sql="color = 'green'", replace=True
        )
        for _ in range(200):  # the change takes a heartbeat to arrive: until then the old one counts
            await _send_priced(cluster, topic, 3)
            if "m1" in got:
                break
        await until(lambda: "m1" in got)
        got.clear()
        await _send_priced(cluster, topic, 3)
        await until(lambda: got[-1:] == ["m1"])
        assert set(got) == {"m1"}


async def test_lite_and_pull_consumers_get_what_matches(cluster: ServerCluster, topic: str) -> None:
    (queue,) = make_topic(cluster, topic, queues=1)
    await _send_priced(cluster, topic, 30)
    lite = LitePullConsumer(f"L-{topic}", **options(cluster))
    lite.subscribe(topic, sql=CHEAP_AND_RED)
    got: list[str] = []
    async with lite:
        while len(got) < 4:
            got += [message.text for message in await lite.poll(5)]
    assert sorted(got) == WANTED

    by_hand = LitePullConsumer(f"H-{topic}", **options(cluster))
    await by_hand.assign([queue], sql="price BETWEEN 3 AND 5")
    got = []
    async with by_hand:
        await by_hand.seek_to_begin(queue)
        while len(got) < 3:
            got += [message.text for message in await by_hand.poll(5)]
    assert got == ["m3", "m4", "m5"]

    async with PullConsumer(f"P-{topic}", nameserver=cluster.namesrv) as consumer:
        assert [message.text async for message in consumer.read(queue, sql=CHEAP_AND_RED)] == [
            "m0",
            "m3",
            "m6",
            "m9",
        ]
        nothing = await consumer.pull(queue, 0, sql="color = 'pink'")
        assert (nothing.status, nothing.next_offset) == (PullStatus.NO_MATCH, 30)


def test_lite_and_pull_consumers_in_threads_get_what_matches(cluster: ServerCluster, topic: str) -> None:
    (queue,) = make_topic(cluster, topic, queues=1)
    asyncio.run(_send_priced(cluster, topic, 30))
    lite = SyncLitePullConsumer(f"L-{topic}", **options(cluster))
    lite.subscribe(topic, sql=CHEAP_AND_RED)
    got: list[str] = []
    with lite:
        while len(got) < 4:
            got += [message.text for message in lite.poll(5)]
    assert sorted(got) == WANTED
    with SyncPullConsumer(f"P-{topic}", nameserver=cluster.namesrv) as consumer:
        read = [message.text for message in consumer.read(queue, sql="TAGS = 'T' AND price IN ('7', '8')")]
    assert read == ["m7", "m8"]


async def test_a_held_pull_is_answered_only_by_a_message_that_matches(
    cluster: ServerCluster, topic: str
) -> None:
    (queue,) = make_topic(cluster, topic, queues=1)
    async with PullConsumer(f"G-{topic}", nameserver=cluster.namesrv) as consumer:
        waiting = asyncio.create_task(consumer.pull(queue, 0, sql="color = 'blue'", hold_s=20))
        await asyncio.sleep(0.2)
        await _send_priced(cluster, topic, 2)
        await asyncio.sleep(0.3)
        assert not waiting.done()
        await _send_priced(cluster, topic, 3)
        assert [message.text for message in (await waiting).messages] == ["m2"]


async def test_a_retried_message_comes_again_though_the_retry_topic_is_not_filtered(
    cluster: ServerCluster, topic: str
) -> None:
    make_topic(cluster, topic)
    await _send_priced(cluster, topic, 3)
    tries: list[tuple[str, int]] = []
    consumer = PushConsumer(f"G-{topic}", **options(cluster))

    @consumer.subscribe(topic, sql="color = 'red'")
    def take(message: ReceivedMessage) -> Retry | None:
        tries.append((message.text, message.reconsume_times))
        return RETRY if message.reconsume_times == 0 else None

    async with consumer:
        await until(lambda: len(tries) >= 2)
    assert tries == [("m0", 0), ("m0", 1)]


async def test_missing_properties_are_null_and_texts_that_are_no_numbers_match_nothing(
    cluster: ServerCluster, topic: str
) -> None:
    (queue,) = make_topic(cluster, topic, queues=1)
    async with Producer("senders", nameserver=cluster.namesrv) as producer:
        for body, properties in (
            ("none", {}),
            ("text", {"a": "x"}),
            ("five", {"a": "5"}),
            ("true", {"a": "true"}),
        ):
            await producer.send(Message(topic, body.encode(), properties=properties))
    async with PullConsumer(f"G-{topic}", nameserver=cluster.namesrv) as consumer:

        async def matching(sql: str) -> list[str]:
            return [message.text async for message in consumer.read(queue, sql=sql)]

        assert await matching("a IS NULL") == ["none"]
        assert await matching("a IS NOT NULL") == ["text", "five", "true"]
        assert await matching("a > 3") == ["five"]
        assert await matching("a <> 3") == ["five"]
        assert await matching("NOT (a = 'x')") == ["five", "true"]
        assert await matching("a = TRUE") == ["true"]
        assert await matching("a = 'x' OR a > 3") == ["text", "five"]


async def test_a_bad_expression_is_refused_where_it_is_written(cluster: ServerCluster, topic: str) -> None:
    for make in (PushConsumer, LitePullConsumer, SyncLitePullConsumer, SyncPushConsumer):
        consumer = make(f"G-{topic}", nameserver=cluster.namesrv)
        listener = (print,) if isinstance(consumer, PushConsumer | SyncPushConsumer) else ()
        with pytest.raises(BadSqlExpression, match="position 9") as error:
            consumer.subscribe(topic, *listener, sql="price > 'x'")
        assert error.value.position == 9
        assert error.value.expression == "price > 'x'"
    with pytest.raises(ConfigError, match="TAGS IN"):
        PushConsumer(f"G-{topic}").subscribe(topic, print, tags="a", sql="b = 1")
    app = App(nameserver=cluster.namesrv)
    with pytest.raises(BadSqlExpression, match="position 5"):
        app.listener(topic=topic, group="g", sql="a = ")(print)


async def test_an_app_listens_by_expression(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic)
    await _send_priced(cluster, topic, 30)
    got: list[str] = []
    app = App(**options(cluster))

    @app.listener(topic=topic, group=f"G-{topic}", sql=CHEAP_AND_RED)
    async def take(message: ReceivedMessage) -> None:
        got.append(message.text)

    async with app:
        await until(lambda: len(got) >= 4)
    assert sorted(got) == WANTED


def test_a_broker_that_does_not_filter_by_properties_is_found_out_at_the_start(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("without")
    with running_cluster(folder, peer=chosen_make(), conf={"enablePropertyFilter": "false"}) as cluster:
        make_topic(cluster, "T")
        done = threading.Event()
        for consumer in (
            SyncPushConsumer("G", nameserver=cluster.namesrv),
            SyncLitePullConsumer("L", nameserver=cluster.namesrv),
        ):
            if isinstance(consumer, SyncPushConsumer):
                consumer.subscribe("T", lambda message: done.set(), sql="a = 1")
            else:
                consumer.subscribe("T", sql="a = 1")
            with pytest.raises(BrokerRefused, match="does not support consumer to filter message by SQL92"):
                consumer.start()
