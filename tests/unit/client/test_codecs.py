"""Codecs: what each makes of values of every kind, there and back."""

import datetime
import decimal
import numbers
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Optional, TypedDict

import msgspec
import pydantic
import pytest
from google.protobuf import wrappers_pb2

from rocketeer import (
    JSON,
    MSGPACK,
    PROTOBUF,
    AvroCodec,
    Codec,
    ConfigError,
    InvalidMessage,
    Message,
    ReceivedMessage,
    UndecodableBody,
    typed_message,
)
from rocketeer.client.core.codecs import decoder_of


@dataclass
class Line:
    item: str
    count: int = 1


@dataclass
class Order:
    id: int
    lines: list[Line] = field(default_factory=list)


class Struct(msgspec.Struct):
    id: int


class Typed(TypedDict):
    id: int


class Model(pydantic.BaseModel):
    id: int = pydantic.Field(gt=0)
    when: datetime.datetime | None = None


class Box(TypedDict):
    models: list[Model]


@dataclass
class Basket:
    model: Model
    others: "list[Basket]" = field(default_factory=list)


class Plain:
    pass


@dataclass
class Holder:
    plain: Plain


def there_and_back(value: Any, kind: Any, codec: Codec) -> Any:
    def listen(value: Any) -> None: ...

    listen.__annotations__["value"] = kind
    decode = decoder_of("T", listen, codec)
    assert decode is not None

    class Received:
        body = typed_message("T", value, codec).body
        text = body.decode("utf-8", "replace")

    return decode(Received())  # type: ignore[arg-type]


@pytest.mark.parametrize("codec", [JSON, MSGPACK], ids=repr)
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (Order(7, [Line("a"), Line("b", 2)]), Order),
        (Struct(7), Struct),
        ({"id": 7}, Typed),
        ({"id": 7}, dict),
        ({"id": 7}, dict[str, int]),
        ([1, 2], list[int]),
        (7, int),
        (7.5, float),
        (Model(id=7, when=datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)), Model),
        ([Model(id=7), Model(id=8)], list[Model]),
        (Model(id=7), Model | None),
        (Struct(7), Annotated[Struct, "a note"]),
        (Basket(Model(id=7), [Basket(Model(id=8))]), Basket),
        (7, numbers.Number),
        ([1, 2], Sequence[int]),
        ([1, 2], list),
        (bytearray(b"x"), bytearray),
        (b"x", memoryview),
    ],
    ids=lambda each: str(each)[:40],
)
def test_values_of_every_kind_come_back(value: Any, kind: Any, codec: Codec) -> None:
    assert there_and_back(value, kind, codec) == value


def test_a_model_inside_is_validated_too() -> None:
    with pytest.raises(UndecodableBody, match=r"0\.id: Input should be greater than 0"):
        there_and_back([{"id": -7}], list[Model], JSON)
    assert there_and_back({"models": [Model(id=7)]}, dict[str, list[Model]], JSON) == {
        "models": [Model(id=7)]
    }


def test_what_a_model_inside_refuses_is_told_without_its_value() -> None:
    with pytest.raises(UndecodableBody, match=r"is no Basket: id: Input should be greater than 0$"):
        there_and_back({"model": {"id": -7}}, Basket, JSON)
    with pytest.raises(UndecodableBody, match=r"is no Optional\[int\]: |is no int \| None: "):
        there_and_back({}, Optional[int], JSON)  # noqa: UP045 they print differently


@pytest.mark.parametrize("codec", [JSON, MSGPACK], ids=repr)
@pytest.mark.parametrize("kind", [Plain, Plain | None, list[Plain], Holder, dict[str, Holder], Path])
def test_a_class_that_no_body_can_become_is_refused_when_its_listener_is_declared(
    kind: Any, codec: Codec
) -> None:
    with pytest.raises(ConfigError, match=r"no decoder: (Plain|Path) is no dataclass, msgspec Struct"):
        there_and_back({}, kind, codec)


def asks(kind: Any, batches: bool) -> bool:
    """Whether a listener annotated so is given messages."""

    def listen(value: Any) -> None: ...

    listen.__annotations__["value"] = kind
    return decoder_of("T", listen, JSON, batches=batches) is None


@pytest.mark.parametrize(
    "kind",
    [ReceivedMessage, ReceivedMessage | None, Optional[ReceivedMessage], Any, object],  # noqa: UP045
)
def test_a_listener_may_ask_for_the_message_itself(kind: Any) -> None:
    assert asks(kind, batches=False)


@pytest.mark.parametrize(
    "kind", [list[ReceivedMessage], Sequence[ReceivedMessage], list, list[Any], Sequence, Any, object]
)
def test_a_listener_of_batches_may_ask_for_a_list_of_messages(kind: Any) -> None:
    assert asks(kind, batches=True)


def test_a_listener_that_asks_for_other_messages_than_it_is_given_is_refused() -> None:
    with pytest.raises(ConfigError, match="asks for one message, and consume_batch is over 1"):
        asks(ReceivedMessage, batches=True)
    for kind in (list[ReceivedMessage], Sequence[ReceivedMessage]):
        with pytest.raises(ConfigError, match=r"asks for a list of messages: .* consume_batch= over 1"):
            asks(kind, batches=False)
    for batches in (False, True):
        with pytest.raises(ConfigError, match="a listener is given a ReceivedMessage"):
            asks(Message, batches=batches)


def test_protobuf_messages_bring_their_own_encoding() -> None:
    value = wrappers_pb2.StringValue(value="hello")
    assert there_and_back(value, wrappers_pb2.StringValue, PROTOBUF) == value
    with pytest.raises(ConfigError, match="no class that protoc made"):
        there_and_back(value, Order, PROTOBUF)
    with pytest.raises(InvalidMessage, match="cannot be encoded"):
        typed_message("T", {"id": 7}, PROTOBUF)
    with pytest.raises(UndecodableBody):
        there_and_back(b"\xff\xff", wrappers_pb2.StringValue, PROTOBUF)


@dataclass
class Sale:
    id: int
    at: datetime.datetime
    price: decimal.Decimal
    note: str | None = None


SALE = {
    "type": "record",
    "name": "Sale",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
MODEL = {"type": "record", "name": "Model", "fields": [{"name": "id", "type": "long"}]}


class Plain(pydantic.BaseModel):
    id: int = pydantic.Field(gt=0)


def test_avro_has_a_schema_for_each_class() -> None:
    codec = AvroCodec({Sale: SALE, Plain: MODEL})
    sale = Sale(7, datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC), decimal.Decimal("12.50"))
    assert there_and_back(sale, Sale, codec) == sale
    assert there_and_back(Plain(id=3), Plain, codec) == Plain(id=3)
    assert len(typed_message("T", sale, codec).body) < 15
    with pytest.raises(ConfigError, match="AvroCodec has no schema of it"):
        there_and_back(sale, Order, codec)
    with pytest.raises(InvalidMessage, match="AvroCodec has no schema of dict"):
        typed_message("T", {"id": 7}, codec)
    with pytest.raises(UndecodableBody):
        there_and_back(b"", Sale, codec)


def test_text_that_is_no_text_is_undecodable() -> None:
    class Received:
        @property
        def text(self) -> str:
            return b"\xff".decode()

    def listen(text: str) -> None: ...

    decode = decoder_of("T", listen, JSON)
    assert decode is not None
    with pytest.raises(UndecodableBody, match="is no str"):
        decode(Received())  # type: ignore[arg-type]
