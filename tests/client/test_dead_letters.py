"""Dead letters say why they are dead, and have handlers; a failed message comes again when its policy says."""

import time
from typing import Any

import pytest

from rocketeer import App, ConfigError, Context, Failure, ReceivedMessage, RetryPolicy, UndecodableBody
from rocketeer.aio import PushConsumer
from support.cluster import ServerCluster, chosen_make
from support.consuming import make_topic, options, send, until

ours = pytest.mark.skipif(
    chosen_make() == "apache", reason="Apache's broker keeps neither pauses nor reasons"
)
OFTEN = {"rebalance_s": 0.5, "route_poll_s": 0.5}
"""The topic of the dead letters is made while the consumer runs."""


def charge(text: str) -> None:
    raise ValueError(f"no money for {text}") from KeyError("account")


@ours
@pytest.mark.parametrize("orderly", [False, True])
async def test_a_dead_letter_carries_reason_trace_and_client(
    cluster: ServerCluster, topic: str, orderly: bool
) -> None:
    make_topic(cluster, topic, queues=1)
    app = App(group=f"G-{topic}", **options(cluster, **OFTEN))
    dead: list[tuple[str, Failure | None, str]] = []

    @app.listener(topic, orderly=orderly, retry=RetryPolicy(tries_max=1))
    def bill(text: str) -> None:
        charge(text)

    @app.dead_letters(topic)
    def look(text: str, message: ReceivedMessage) -> None:
        dead.append((text, message.failure, message.message_id))

    async with app:
        sent = app.producer.send(topic, "seven")
        client = app.consumers[0].client_id
        await until(lambda: bool(dead))
    ((text, failure, message_id),) = dead
    assert (text, message_id) == ("seven", sent.message_id)
    assert failure is not None
    assert failure.reason == "ValueError: no money for seven (from KeyError: 'account')"
    assert failure.trace.startswith("bill (test_dead_letters.py:")
    assert " > charge (test_dead_letters.py:" in failure.trace
    assert failure.client == client


@ours
async def test_a_body_that_does_not_decode_is_dead_at_once_with_the_reason(
    cluster: ServerCluster, topic: str
) -> None:
    make_topic(cluster, topic, queues=1)
    app = App(group=f"G-{topic}", **options(cluster, **OFTEN))
    story: list[Any] = []

    @app.listener(topic)
    async def bill(order: dict[str, int]) -> None:
        story.append(order)

    @app.dead_letters(topic)
    async def look(body: bytes, context: Context) -> None:
        story.append((body, context.message.failure.reason if context.message.failure else None))

    async with app:
        app.producer.send(topic, b"no json")
        await until(lambda: bool(story))
    ((body, reason),) = story
    assert body == b"no json"
    assert reason.startswith(f"{UndecodableBody.__name__}: a message of topic {topic!r} is no dict")


async def test_handlers_get_the_dead_letters_of_their_topic_and_are_tried_again_themselves(
    cluster: ServerCluster, topic: str
) -> None:
    other, third = f"{topic}-other", f"{topic}-third"
    for each in (topic, other, third):
        make_topic(cluster, each, queues=1)
    group = f"G-{topic}"
    app = App(group=group, **options(cluster, **OFTEN))
    story: list[tuple[str, str, int]] = []

    def fail(message: ReceivedMessage) -> None:
        raise OSError

    for each in (topic, other, third):
        app.listener(each, retry=RetryPolicy(tries_max=1))(fail)

    @app.dead_letters(topic, retry=RetryPolicy(backoff=[0.1]))
    def first(text: str, context: Context) -> None:
        story.append(("first", text, context.tries))
        if len([each for each in story if each[0] == "first"]) == 1:
            raise ConnectionError("not now")

    @app.dead_letters(other, group=group)
    async def second(text: str, context: Context) -> None:
        assert (context.topic, context.group) == (other, f"{group}-dead-letters")
        story.append(("second", text, 0))

    async with app:
        for name in (topic, other, third):
            app.producer.send(name, name)
        await until(lambda: len(story) == 3)
    assert [name for name, _, _ in sorted(story)] == ["first", "first", "second"]
    assert {text for name, text, _ in story if name == "first"} == {topic}
    tries = [tries for name, _, tries in story if name == "first"]
    assert tries[1] == tries[0] + 1


async def test_a_handler_nobody_would_call_is_refused(cluster: ServerCluster) -> None:
    def look(message: ReceivedMessage) -> None: ...

    app = App(group="g", **options(cluster))
    app.listener("a")(look)
    app.dead_letters("b")(look)
    with pytest.raises(ConfigError, match=r"'b': the app has no listener of it, so name the group="):
        await app.start()
    app = App(group="g", **options(cluster))
    app.listener("a")(look)
    app.dead_letters("a")(look)
    app.dead_letters("a", group="g")(look)
    with pytest.raises(ConfigError, match="topic 'a' and group 'g' have two handlers"):
        await app.start()


@ours
@pytest.mark.parametrize("backoff", [[0.3, 0.6], lambda tries: 0.3 * tries], ids=["list", "function"])
async def test_pauses_are_kept_exactly_where_the_broker_is_ours(
    cluster: ServerCluster, topic: str, backoff: Any
) -> None:
    make_topic(cluster, topic, queues=1)
    consumer = PushConsumer(f"G-{topic}", **options(cluster))
    at_s: list[float] = []
    pauses: list[str | None] = []

    @consumer.subscribe(topic, retry=RetryPolicy(backoff=backoff))
    def take(message: ReceivedMessage) -> None:
        at_s.append(time.monotonic())
        pauses.append(message.properties.get("TIMER_DELAY_MS"))
        if len(at_s) < 3:
            raise OSError

    await send(cluster, topic, ["one"])
    async with consumer:
        await until(lambda: len(at_s) == 3)
    assert pauses == [None, "300", "600"]
    assert at_s[1] - at_s[0] >= 0.29
    assert at_s[2] - at_s[1] >= 0.59
