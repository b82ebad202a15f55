"""Values instead of bytes: a listener's annotation decides what it is given."""

import logging
from dataclasses import dataclass
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest

import rocketeer
from rocketeer import (
    JSON,
    MSGPACK,
    ConfigError,
    InvalidMessage,
    Message,
    ReceivedMessage,
    UndecodableBody,
    typed_message,
)
from rocketeer.aio import Producer, PullConsumer, PushConsumer
from rocketeer.client.core.codecs import decoder_of
from support.cluster import ServerCluster
from support.consuming import make_topic, options, until


@dataclass
class Order:
    id: int
    lines: list[str]


class Struct(msgspec.Struct):
    id: int


class Typed(TypedDict):
    id: int


class Pydantic(pydantic.BaseModel):
    id: int = pydantic.Field(gt=0)


def given(function: Any, body: bytes, codec: Any = JSON) -> Any:
    """What the function would be called with."""
    decode = decoder_of("T", function, codec)

    class Body:
        text = body.decode("utf-8", "replace")

    Body.body = body  # type: ignore[attr-defined]
    return Body if decode is None else decode(Body())  # type: ignore[arg-type]


def as_order(order: Order) -> None: ...
def as_struct(value: Struct) -> None: ...
def as_typed(value: Typed) -> None: ...
def as_pydantic(value: Pydantic) -> None: ...
def as_dict(value: dict[str, Any]) -> None: ...
def as_text(value: str) -> None: ...
def as_bytes(value: bytes) -> None: ...
def as_message(message: ReceivedMessage) -> None: ...
def as_anything(message: Any) -> None: ...
def without(message) -> None: ...  # type: ignore[no-untyped-def]
def unknown(message: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821
def named(message: "ReceivedMessage") -> None: ...


def test_the_annotation_decides() -> None:
    assert given(as_order, b'{"id": 7, "lines": ["a"]}') == Order(7, ["a"])
    assert given(as_struct, b'{"id": 7}') == Struct(7)
    assert given(as_typed, b'{"id": 7}') == {"id": 7}
    assert given(as_pydantic, b'{"id": 7}').id == 7
    with pytest.raises(UndecodableBody, match=r"is no Pydantic: id: Input should be greater than 0$"):
        given(as_pydantic, b'{"id": -7}')
    assert given(as_dict, b'{"a": 1}') == {"a": 1}
    assert given(as_text, b"hello") == "hello"
    assert given(as_bytes, b"\xff") == b"\xff"
    assert given(as_struct, MSGPACK.encode(Struct(3)), MSGPACK) == Struct(3)
    for function in (as_message, as_anything, without, named):
        assert decoder_of("T", function, JSON) is None
    with pytest.raises(ConfigError, match="'Nowhere', which is not known where it is defined"):
        decoder_of("T", unknown, JSON)


def test_what_is_sent_is_encoded() -> None:
    assert typed_message("T", Order(7, ["a"])).body == b'{"id":7,"lines":["a"]}'
    assert typed_message("T", Pydantic(id=7)).body == b'{"id":7}'
    assert typed_message("T", "text", tags="x") == Message("T", b"text", tags="x")
    assert typed_message("T", b"bytes").body == b"bytes"
    assert typed_message("T", {"a": 1}, MSGPACK).body == MSGPACK.encode({"a": 1})
    with pytest.raises(InvalidMessage, match="cannot be encoded"):
        typed_message("T", object())


def test_a_typed_listener_takes_one_message_at_a_time() -> None:
    with pytest.raises(ConfigError, match="consume_batch is 5, it must be 1"):
        PushConsumer("g", consume_batch=5).subscribe("T", as_order)
    with (
        rocketeer.Producer("g", nameserver="127.0.0.1:1") as producer,
        pytest.raises(InvalidMessage, match="names a topic and no value"),
    ):
        producer.send("orders")


async def test_values_travel_and_a_body_that_does_not_decode_is_a_dead_letter_at_once(
    cluster: ServerCluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    make_topic(cluster, topic, queues=1)
    group = f"G-{topic}"
    got: list[Order] = []
    consumer = PushConsumer(group, **options(cluster))

    @consumer.subscribe(topic)
    async def bill(order: Order) -> None:
        got.append(order)

    async with Producer("P", nameserver=cluster.namesrv) as producer:
        await producer.send(topic, Order(1, ["a"]))
        await producer.send(topic, {"id": "no number"})
        await producer.send(topic, Order(2, []))
        with caplog.at_level(logging.ERROR):
            async with consumer, PullConsumer(f"D-{topic}", nameserver=cluster.namesrv) as reader:
                await until(lambda: len(got) == 2)
                dead: list[bytes] = []
                while not dead:
                    try:
                        queues = await reader.queues(f"%DLQ%{group}")
                    except rocketeer.NoRoute:
                        continue
                    dead = [message.body for queue in queues async for message in reader.read(queue)]
    assert got == [Order(1, ["a"]), Order(2, [])]
    assert dead == [b'{"id":"no number"}']
    assert "does not decode, to the dead letters" in caplog.text


def test_values_from_threads(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic, queues=1)
    with rocketeer.Producer("P", nameserver=cluster.namesrv, codec=MSGPACK) as producer:
        producer.send(topic, Struct(1))
        producer.send_async(topic, Struct(2)).result(10)
        producer.send_oneway(topic, Struct(3))
        found: list[Struct] = []
        with rocketeer.PullConsumer(f"G-{topic}", nameserver=cluster.namesrv) as reader:
            while len(found) < 3:
                found = [
                    msgspec.msgpack.decode(message.body, type=Struct)
                    for queue in reader.queues(topic)
                    for message in reader.read(queue)
                ]
    assert found == [Struct(1), Struct(2), Struct(3)]
