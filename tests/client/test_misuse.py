"""What new users got wrong without being told: each is refused with a text that helps, or just works."""

import asyncio
import contextlib
import logging
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import rocketeer
from rocketeer import (
    App,
    BadTagExpression,
    ClientError,
    ConfigError,
    InvalidMessage,
    InvalidTopic,
    Message,
    MessageModel,
    MessageQueue,
    NoNameServer,
    Retry,
    UnknownOption,
)
from rocketeer.aio import LitePullConsumer, Producer, PullConsumer, PushConsumer
from rocketeer.client.core.outcome import as_outcome
from rocketeer.config.ports import free_ports
from rocketeer.testing import cluster as own_cluster
from support.cluster import ServerCluster
from support.consuming import make_topic, names, options, send, until
from support.scripted_broker import scripted_broker

pytestmark = pytest.mark.own_cluster


@pytest.mark.parametrize(
    ("make", "wrong", "meant"),
    [
        (rocketeer.Producer, "send_timeout", "send_timeout_s"),
        (rocketeer.Producer, "sendMsgTimeout", "send_timeout_s"),
        (Producer, "name_server", "nameserver"),
        (rocketeer.PushConsumer, "concurency", "concurrency"),
        (LitePullConsumer, "pullBatchSize", "pull_batch"),
        (rocketeer.PullConsumer, "retrys", "retries"),
    ],
)
def test_a_mistyped_option_names_its_nearest_neighbour(make: Any, wrong: str, meant: str) -> None:
    with pytest.raises(UnknownOption, match=f"{wrong}= is no option of a .*: did you mean {meant}=?"):
        make("g", **{wrong: 1})
    with pytest.raises(TypeError):
        make("g", **{wrong: 1})


def test_an_app_refuses_mistyped_options_and_what_is_no_listener() -> None:
    app = App()
    with pytest.raises(UnknownOption, match="concurrency"):
        App(concurency=3)  # type: ignore[call-arg]
    with pytest.raises(UnknownOption, match="concurrency"):
        app.listener(topic="T", group="g", concurency=3)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="must be a function"):
        app.listener(topic="T", group="g")("not a function")  # type: ignore[type-var]
    with pytest.raises(ConfigError, match="called with one argument"):
        app.listener(topic="T", group="g")(lambda: None)  # type: ignore[type-var,misc]


@pytest.mark.parametrize("tags", ["a,b", "a, b", "a|b", "a;b", "a || b,c"])
def test_tags_that_are_not_separated_with_two_bars_are_refused(tags: str) -> None:
    with pytest.raises(BadTagExpression, match=r"separated with \|\|, as in 'a \|\| b"):
        PushConsumer("g").subscribe("T", print, tags=tags)


def test_a_topic_has_one_listener() -> None:
    consumer = PushConsumer("g")

    def first(message: object) -> None: ...
    def second(message: object) -> None: ...

    consumer.subscribe("T", first)
    consumer.subscribe("T", first, tags="a")
    with pytest.raises(ConfigError, match=r"topic 'T' has a listener already, <function .*first"):
        consumer.subscribe("T", second)
    consumer.subscribe("T", second, replace=True)
    consumer.unsubscribe("T")
    consumer.subscribe("T", first)


def test_a_listener_takes_one_argument() -> None:
    consumer = PushConsumer("g")

    async def none() -> None: ...
    def two(message: object, more: object) -> None: ...
    def with_default(message: object, more: object = 1) -> None: ...

    for wrong in (none, two):
        with pytest.raises(
            ConfigError, match=r"called with one argument, a message|nothing says what that is"
        ):
            consumer.subscribe("T", wrong)
    consumer.subscribe("T", with_default)


@pytest.mark.parametrize("returned", [False, True, 0, "ok"])
def test_a_listener_that_returns_anything_else_has_not_consumed(returned: object) -> None:
    with pytest.raises(ClientError, match=r"a listener returned .* it returns nothing when all went well"):
        as_outcome(returned)


def test_delay_levels_that_do_not_exist_are_refused() -> None:
    with pytest.raises(InvalidMessage, match=r"delay_level 99 is not a level: they are 1 .. 18"):
        Message("T", b"x", delay_level=99)
    with pytest.raises(ConfigError, match=r"levels are 1 .. 18"):
        Retry(delay_level=19)


async def test_returning_false_has_the_message_come_again(
    cluster: ServerCluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    make_topic(cluster, topic, queues=1)
    seen: list[int] = []
    consumer = PushConsumer(f"G-{topic}", **options(cluster))

    @consumer.subscribe(topic)
    def take(message: rocketeer.ReceivedMessage) -> Any:
        seen.append(message.reconsume_times)
        return False if len(seen) == 1 else None

    with caplog.at_level(logging.WARNING):
        async with consumer:
            await send(cluster, topic, names(1))
            await until(lambda: len(seen) == 2)
    assert seen == [0, 1]
    assert "a listener returned False" in caplog.text


def test_a_brokers_port_as_name_server_is_told_so(cluster: ServerCluster, topic: str) -> None:
    with (
        rocketeer.Producer("g", nameserver=cluster.broker) as producer,
        pytest.raises(NoNameServer, match=r"answers, but is no name server: is it a broker's port\?"),
    ):
        producer.send(Message(topic, b"x"))


async def test_a_lite_consumer_may_subscribe_after_it_was_started(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic, queues=2)
    await send(cluster, topic, names(5))
    async with LitePullConsumer(f"G-{topic}", **options(cluster)) as consumer:
        assert await consumer.poll(0.01) == []
        consumer.subscribe(topic)
        got: list[str] = []
        while len(got) < 5:
            got += [message.text for message in await consumer.poll(5)]
    assert sorted(got) == sorted(names(5))
    async with LitePullConsumer(f"G2-{topic}", **options(cluster)) as consumer:
        await consumer.assign(await consumer.queues(topic))
        got = []
        while len(got) < 5:
            got += [message.text for message in await consumer.poll(5)]
    assert sorted(got) == sorted(names(5))


async def test_a_start_waits_for_its_name_server(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    port = free_ports()[0]
    consumer = PushConsumer("g", nameserver=f"127.0.0.1:{port}", start_timeout_s=0.2)
    consumer.subscribe("T", print)
    with caplog.at_level(logging.WARNING), pytest.raises(NoNameServer):
        await consumer.start()
    assert "waiting for a name server" in caplog.text

    with own_cluster(tmp_path) as running:
        waiting = rocketeer.PushConsumer("g", nameserver=f"127.0.0.1:{port}", start_timeout_s=60)
        waiting.subscribe("T", print)
        starting = threading.Thread(target=waiting.start)
        starting.start()
        await asyncio.sleep(0.3)
        leading: list[asyncio.Task[None]] = []

        def lead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            leading.append(asyncio.create_task(_lead_to(running.nameserver, reader, writer)))

        async with await asyncio.start_server(lead, "127.0.0.1", port):
            await asyncio.to_thread(starting.join, 30)
            assert not starting.is_alive()
            assert waiting.client_id
            await asyncio.to_thread(waiting.close)
            await asyncio.wait_for(asyncio.gather(*leading), 30)  # or they would be ended with open sockets


async def _lead_to(address: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    host, _, port = address.rpartition(":")
    there, back = await asyncio.open_connection(host, int(port))

    async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(1 << 16):
                target.write(data)
        target.close()

    await asyncio.gather(copy(reader, back), copy(there, writer))


async def test_broadcasting_consumers_miss_nothing_of_a_topic_made_while_they_run(
    cluster: ServerCluster, topic: str, tmp_path: Path
) -> None:
    got: list[str] = []
    consumer = PushConsumer(
        f"G-{topic}",
        message_model=MessageModel.BROADCASTING,
        instance_name="one",
        offset_folder=tmp_path,
        **{**options(cluster), "consume_from": rocketeer.ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET},
    )
    consumer.subscribe(topic, lambda message: got.append(message.text))
    async with consumer:
        await send(cluster, topic, names(10))  # which makes the topic
        await until(lambda: len(got) == 10)
    assert sorted(got) == sorted(names(10))


FORK = """
import gc, os, sys
from rocketeer import Message, Producer, PullConsumer, PushConsumer

nameserver, topic = sys.argv[1:]
producer = Producer("P", nameserver=nameserver)
producer.send(Message(topic, b"parent"))
producer.send_async(Message(topic, b"parent")).result(30)
reader = PullConsumer("R", nameserver=nameserver)
reader.start()
queues = reader.queues(topic)
consumer = PushConsumer("C", nameserver=nameserver)
consumer.subscribe(topic, lambda message: None)
consumer.start()
child = os.fork()
if child == 0:
    producer.send(Message(topic, b"child"))
    producer.close()
    gc.collect()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
producer.send(Message(topic, b"parent again"))
assert sum(reader.max_offset(queue) for queue in queues) == 4
for each in (producer, reader, consumer):
    each.close()
print("done")
"""


def test_a_forked_child_leaves_no_warning_and_the_parent_goes_on(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic)
    # From 3.12 on Python itself warns of every fork in a process that has threads.
    allowed = "ignore:This process:DeprecationWarning"
    command = [
        sys.executable,
        "-X",
        "dev",
        "-W",
        "default",
        "-W",
        allowed,
        "-c",
        FORK,
        cluster.namesrv,
        topic,
    ]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout.strip()) == (0, "done"), ran.stderr
    assert "Warning" not in ran.stderr, ran.stderr


@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("time_limit_s", [0, -1.5, float("nan"), float("inf"), 1e12, "3"])
async def test_a_send_without_time_is_refused_and_says_which_argument_it_was(
    time_limit_s: Any, idempotent: bool
) -> None:
    text = re.escape(f"timeout_s is {time_limit_s!r}: a send needs some time")
    with scripted_broker() as broker:
        with rocketeer.Producer("g", nameserver=broker.address, idempotent=idempotent) as producer:
            with pytest.raises(ClientError, match=text):
                producer.send(Message("T", b"x"), timeout_s=time_limit_s)
            with pytest.raises(ClientError, match=text):
                producer.send_async(Message("T", b"x"), timeout_s=time_limit_s).result(10)
            with pytest.raises(ClientError, match=text):
                producer.request(Message("T", b"x"), timeout_s=time_limit_s)
        async with Producer("g", nameserver=broker.address, idempotent=idempotent) as sender:
            with pytest.raises(ClientError, match=text):
                await sender.send(Message("T", b"x"), timeout_s=time_limit_s)


def test_a_decorator_without_its_topic_is_refused() -> None:
    def bill(message: object) -> None: ...

    refused = "a topic is a text, not <function .*bill"
    app = App(group="g")
    for decorate in (app.listener, app.publish, app.dead_letters, PushConsumer("g").subscribe):
        with pytest.raises(InvalidTopic, match=refused):
            decorate(bill)  # type: ignore[operator]
    with pytest.raises(InvalidTopic, match=r"topic 'Bestellungen für 7': .* illegal characters"):
        PushConsumer("g").subscribe("Bestellungen für 7", bill)
    with pytest.raises(InvalidTopic, match=r"topic 'a b': .* illegal characters"):
        Message("a b", b"x")


def test_a_generator_is_no_listener() -> None:
    def plain(message: object) -> Any:
        yield message

    async def asynchronous(message: object) -> Any:
        yield message

    for wrong in (plain, asynchronous):
        with pytest.raises(ConfigError, match="a listener has no `yield`"):
            PushConsumer("g").subscribe("T", wrong)
        with pytest.raises(ConfigError, match="a listener has no `yield`"):
            App(group="g").listener("T")(wrong)


def test_tags_and_keys_of_other_kinds_are_refused_by_name() -> None:
    with pytest.raises(BadTagExpression, match=r"tags is \['a', 'b'\]: it is one text, as in 'a \|\| b'"):
        PushConsumer("g").subscribe("T", print, tags=["a", "b"])  # type: ignore[call-overload]
    with pytest.raises(InvalidMessage, match="keys must be text or a list of texts, not int"):
        Message("T", b"x", keys=7)  # type: ignore[arg-type]
    assert Message("T", b"x", keys=(key for key in "ab")).keys == "a b"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"tags": "\ud800"}, "tags"),
        ({"keys": "\ud800"}, "keys"),
        ({"keys": ["a", "\udfff"]}, "keys"),
        ({"sharding_key": "\ud800"}, "sharding_key"),
        ({"properties": {"a": "b\ud800"}}, "property 'a'"),
        ({"properties": {"\ud800": "b"}}, "property name"),
    ],
    ids=lambda each: ascii(each),
)
def test_text_that_has_no_utf_8_is_refused_when_the_message_is_made(fields: Any, what: str) -> None:
    """Alone they were refused when sent; in a batch they were stored, with other text in their place."""
    with pytest.raises(InvalidMessage, match=f"{what} .*cannot be written as UTF-8"):
        Message("T", b"x", **fields)
    with pytest.raises(InvalidMessage, match="cannot be encoded"):
        rocketeer.typed_message("T", "\ud800")


def test_a_message_is_no_value() -> None:
    message = Message("T", b"x")
    for value in (message, [message], (message, message)):
        with pytest.raises(InvalidMessage, match=r"Message is no value for topic 'T': send\(message\)"):
            rocketeer.typed_message("T", value)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"hooks": [1]}, "hooks has 1: a hook is an object with before_"),
        ({"hooks": [rocketeer.SendHook]}, "hooks has <class .*SendHook'>: a hook is an object"),
        ({"hooks": None}, "hooks is None: it must be a list"),
        ({"middlewares": rocketeer.Middleware()}, "middlewares is <.*Middleware .*: it must be a list"),
        ({"codec": 1}, r"codec is 1: it must be an object with encode\(value\)"),
        ({"codec": rocketeer.AvroCodec}, "codec is <class .*AvroCodec'>: it must be an object"),
    ],
    ids=lambda each: str(each)[:30],
)
def test_hooks_middlewares_and_codecs_that_are_none_are_refused(options: Any, text: str) -> None:
    for make in (rocketeer.Producer, Producer, rocketeer.PushConsumer, PushConsumer):
        with pytest.raises(ConfigError, match=text):
            make("g", **options)
    if "hooks" not in options:
        with pytest.raises(ConfigError, match=text):
            App(**options)


@pytest.mark.parametrize("wrong", [3, (OSError,), rocketeer.RetryPolicy], ids=str)
def test_what_is_no_retry_policy_is_refused(wrong: Any) -> None:
    text = r"retry of the listener of topic 'T' is .*: it must be a RetryPolicy\(\.\.\.\)"
    app = App(group="g")
    with pytest.raises(ConfigError, match=text):
        PushConsumer("g").subscribe("T", print, retry=wrong)
    with pytest.raises(ConfigError, match=text):
        app.listener("T", retry=wrong)(print)
    with pytest.raises(ConfigError, match=text):
        app.dead_letters("T", retry=wrong)(print)


@pytest.mark.parametrize(
    "wrong", [{"backoff": each} for each in (5, "1,2", [], [-1], ["1"], [float("nan")])], ids=str
)
def test_pauses_that_are_none_are_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r"backoff of a RetryPolicy is .*: seconds in a list"):
        rocketeer.RetryPolicy(**wrong)
    with pytest.raises(ConfigError, match="tries_max of a RetryPolicy is '3'"):
        rocketeer.RetryPolicy(tries_max="3")  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", ["AVG", rocketeer.Averagely], ids=str)
def test_what_is_no_strategy_is_refused(wrong: Any) -> None:
    for make in (PushConsumer, LitePullConsumer, rocketeer.PushConsumer):
        with pytest.raises(ConfigError, match=r"strategy is .*, as in Averagely\(\)"):
            make("g", strategy=wrong)
    with pytest.raises(ConfigError, match=r"strategy is .*, as in Averagely\(\)"):
        App(group="g").listener("T", strategy=wrong)(print)


async def test_places_that_are_in_no_queue_are_refused(cluster: ServerCluster, topic: str) -> None:
    (queue,) = make_topic(cluster, topic, queues=1)
    async with (
        PullConsumer(f"G-{topic}", **options(cluster)) as puller,
        LitePullConsumer(f"L-{topic}", **options(cluster)) as lite,
    ):
        await lite.assign([queue])
        for offset in (-1, "0", 1.5, None, True):
            for asked in (puller.pull, puller.commit, lite.seek):
                with pytest.raises(ConfigError, match=r"offset .* is not a place in a queue"):
                    await asked(queue, offset)  # type: ignore[operator]
        for asked in (puller.pull, puller.commit, lite.seek):
            with pytest.raises(ConfigError, match="queue is 0: it must be a MessageQueue"):
                await asked(0, 0)  # type: ignore[operator]
        with pytest.raises(ConfigError, match="max_count is 0"):
            await puller.pull(queue, 0, max_count=0)
        with pytest.raises(ConfigError, match="max_count is 0"):
            await lite.poll(1, max_count=0)
        with pytest.raises(ClientError, match="a ReceivedMessage can be sent back, not Message"):
            await puller.send_back(Message(topic, b"x"))  # type: ignore[arg-type]
        assert not await puller.committed(queue)


def test_a_reply_is_to_a_message_that_was_received() -> None:
    with (
        scripted_broker() as broker,
        rocketeer.Producer("g", nameserver=broker.address) as producer,
        pytest.raises(ClientError, match="a ReceivedMessage can be answered, not Message"),
    ):
        producer.reply(Message("T", b"x"), b"y")  # type: ignore[arg-type]


async def test_a_choice_of_queue_that_cannot_be_meant_is_refused(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic)
    message = Message(topic, b"x")
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"queue": 1}, "queue is 1: it must be a MessageQueue"),
        ({"queue": MessageQueue("Other", "broker-a", 0)}, f"is no queue of topic '{topic}'"),
        ({"arg": "customer-3"}, "arg is 'customer-3', and no selector is given"),
    ]
    async with Producer("g", nameserver=cluster.namesrv) as sender:
        with rocketeer.Producer("g", nameserver=cluster.namesrv) as producer:
            for target, text in wrong:
                with pytest.raises(ClientError, match=text):
                    await sender.send(message, **target)
                with pytest.raises(ClientError, match=text):
                    await sender.send_oneway(message, **target)
                with pytest.raises(ClientError, match=text):
                    producer.send(message, **target)
                with pytest.raises(ClientError, match=text):
                    producer.send_async(message, **target).result(30)
            assert (await sender.send(message, queue=(await sender.queues(topic))[0])).queue.topic == topic


def test_clients_say_what_they_are() -> None:
    options = {"nameserver": "mq:9876"}
    assert repr(rocketeer.Producer("g", **options)) == "<rocketeer.Producer 'g' nameserver='mq:9876'>"
    assert repr(Producer("g", **options)) == "<rocketeer.aio.Producer 'g' nameserver='mq:9876'>"
    assert repr(PushConsumer("g")) == "<rocketeer.aio.PushConsumer 'g' nameserver=None>"
    app = App(group="billing", **options)
    app.listener("orders")(print)
    assert repr(app) == "<rocketeer.App group='billing' topics=orders>"


def test_a_client_of_another_event_loop_says_so(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic)
    push = PushConsumer(f"G-{topic}", **options(cluster))
    push.subscribe(topic, print)
    lite = LitePullConsumer(f"L-{topic}", **options(cluster))
    lite.subscribe(topic)
    clients = (Producer("g", nameserver=cluster.namesrv), push, lite, PullConsumer("g", **options(cluster)))

    async def start() -> None:
        for client in clients:
            await client.start()

    async def close() -> None:
        for client in clients:
            await client.close()

    with asyncio.Runner() as first:
        first.run(start())
        with asyncio.Runner() as second:
            for client in clients:
                with pytest.raises(ClientError, match="runs on another event loop: use it there"):
                    second.run(client.close())
            with pytest.raises(ClientError, match="runs on another event loop: use it there"):
                second.run(push.start())
        first.run(close())


ONLY_FOR_CHECKERS = """
def take(message: ReceivedMessage, context: Context): ...
def bill(order: Order): ...
"""


def test_names_that_only_type_checkers_know_are_no_trouble() -> None:
    # Annotations are texts with this import, and from 3.14 on not looked at before somebody asks for them.
    source = "" if sys.version_info >= (3, 14) else "from __future__ import annotations\n"
    names: dict[str, Any] = {}
    exec(source + ONLY_FOR_CHECKERS, names)
    PushConsumer("g").subscribe("T", names["take"])
    with pytest.raises(ConfigError, match="bill asks for 'Order', which is not known where it is defined"):
        PushConsumer("g").subscribe("T", names["bill"])
