"""Values instead of bytes: what a listener's annotation asks for is decoded, what a send is given is encoded.

    @consumer.subscribe("orders")
    def bill(order: Order): ...       # a dataclass, msgspec Struct, TypedDict, pydantic model, dict ...

    producer.send("orders", Order(...))

JSON unless another codec is given: `MSGPACK`, `PROTOBUF`, `AvroCodec`, or anything with `encode` and `decoder`.
`bytes` and `str` are the body itself; a listener without an annotation, or with `ReceivedMessage`, gets the message.
"""

import datetime
import decimal
import inspect
import typing
import uuid
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from io import BytesIO
from typing import Any, Final, Protocol

import msgspec

from rocketeer.client.core.decodable import check_decodable, is_the_message
from rocketeer.client.core.depends import annotation_of, parameters_of
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.errors import ConfigError, UndecodableBody
from rocketeer.extras import needed
from rocketeer.model.message import InvalidMessage, Message

Decode = Callable[[bytes], Any]


class Codec(Protocol):
    """How values become bodies. Made by users for Avro, protobuf and the like."""

    def encode(self, value: Any) -> bytes:
        """The body for a value."""

    def decoder(self, kind: Any) -> Decode:
        """The function from a body to a value of the annotated kind; asked for once per listener."""


class JsonCodec:
    """JSON by msgspec; what pydantic models are in by pydantic, so that their validators run."""

    def __repr__(self) -> str:
        return "JSON"

    def encode(self, value: Any) -> bytes:
        to_json = getattr(value, "model_dump_json", None)
        return to_json().encode() if callable(to_json) else msgspec.json.encode(value, enc_hook=_plain)

    def decoder(self, kind: Any) -> Decode:
        if is_pydantic(kind):
            return typing.cast(Decode, _adapter(kind).validate_json)
        check_decodable(kind)
        return msgspec.json.Decoder(kind, dec_hook=_model).decode


class MsgpackCodec:
    """MessagePack by msgspec; pydantic models as JSON codecs do."""

    def __repr__(self) -> str:
        return "MSGPACK"

    def encode(self, value: Any) -> bytes:
        return msgspec.msgpack.encode(value, enc_hook=_plain)

    def decoder(self, kind: Any) -> Decode:
        if is_pydantic(kind):
            validate = _adapter(kind).validate_python
            return lambda body: validate(msgspec.msgpack.decode(body))
        check_decodable(kind)
        return msgspec.msgpack.Decoder(kind, dec_hook=_model).decode


class ProtobufCodec:
    """Messages of classes that protoc made: they bring their own encoding."""

    def __repr__(self) -> str:
        return "PROTOBUF"

    def encode(self, value: Any) -> bytes:
        return typing.cast(bytes, value.SerializeToString())

    def decoder(self, kind: Any) -> Decode:
        decode = getattr(kind, "FromString", None)
        if decode is None:
            raise TypeError("it is no class that protoc made")
        return typing.cast(Decode, decode)


class AvroCodec:
    """Avro records without a container, by fastavro (`pip install 'rocketeer[avro]'`): a schema for each class.

    `AvroCodec({Order: {"type": "record", "name": "Order", "fields": [...]}})`; the classes are dataclasses, msgspec
    Structs, TypedDicts or pydantic models.
    """

    def __init__(self, schemas: Mapping[type, Any]) -> None:
        fastavro = needed("fastavro", "AvroCodec", "avro")
        self._write, self._read = fastavro.schemaless_writer, fastavro.schemaless_reader
        self._schemas = {kind: fastavro.parse_schema(schema) for kind, schema in schemas.items()}

    def __repr__(self) -> str:
        return f"AvroCodec({', '.join(kind.__name__ for kind in self._schemas)})"

    def encode(self, value: Any) -> bytes:
        """The record of a value whose class has a schema."""
        schema = self._schemas.get(type(value))
        if schema is None:
            raise TypeError(f"AvroCodec has no schema of {type(value).__name__}")
        body = BytesIO()
        self._write(body, schema, msgspec.to_builtins(value, builtin_types=_AVRO_TYPES, enc_hook=_plain))
        return body.getvalue()

    def decoder(self, kind: Any) -> Decode:
        """The function from a record to a value of that class."""
        schema = self._schemas.get(kind)
        if schema is None:
            raise TypeError("AvroCodec has no schema of it")
        if is_pydantic(kind):
            return lambda body: _adapter(kind).validate_python(self._read(BytesIO(body), schema))
        return lambda body: msgspec.convert(self._read(BytesIO(body), schema), kind)


_AVRO_TYPES: Final = (bytes, datetime.datetime, datetime.date, datetime.time, decimal.Decimal, uuid.UUID)
"""Values that fastavro takes as they are."""


def checked_codec(codec: Codec) -> Codec:
    """Raise ConfigError for what is no codec, or the class of one."""
    if isinstance(codec, type) or not all(
        callable(getattr(codec, each, None)) for each in ("encode", "decoder")
    ):
        raise ConfigError(
            f"codec is {codec!r:.80}: it must be an object with encode(value) and decoder(kind)"
        )
    return codec


def is_pydantic(kind: Any) -> bool:
    """Whether pydantic has to look at it: a model, or something with one in it, as `list[Model]`."""
    if hasattr(kind, "__pydantic_validator__"):
        return True
    return any(is_pydantic(each) for each in typing.get_args(kind))


def _adapter(kind: Any) -> Any:
    return import_module("pydantic").TypeAdapter(kind)


def _plain(value: Any) -> Any:
    """What msgspec does not know: a pydantic model among other things."""
    dump = getattr(value, "model_dump", None)
    if not callable(dump):
        raise TypeError(f"{type(value).__name__} has no form in this codec")
    return dump(mode="json")


def _model(kind: type, value: Any) -> Any:
    """A pydantic model that is a part of something msgspec decodes."""
    validate = getattr(kind, "model_validate", None)
    return validate(value) if callable(validate) else value


JSON: Final = JsonCodec()
"""The codec unless another is given: values as JSON."""
MSGPACK: Final = MsgpackCodec()
"""Codec: values as MessagePack."""
PROTOBUF: Final = ProtobufCodec()
"""Codec: messages of Protocol Buffers, whose classes listeners name."""


class _Nothing:
    def __repr__(self) -> str:
        return "NOTHING"


NOTHING: Final = _Nothing()
"""The default of `value` in sends: None is a value like every other."""


def as_message(
    message: "Message | Sequence[Message] | str", value: Any, codec: Codec
) -> "Message | Sequence[Message]":
    """What is to be sent: the message itself, or one made of a topic and a value."""
    if value is NOTHING:
        if isinstance(message, str):
            raise InvalidMessage(
                f"send({message!r:.80}) names a topic and no value: send(topic, value), or a Message"
            )
        return message
    return typed_message(typing.cast(str, message), value, codec)


def typed_message(topic: str, value: Any, codec: Codec = JSON, **arguments: Any) -> Message:
    """A message whose body is the value; further arguments are `Message`'s.

    >>> typed_message("orders", {"id": 7}, tags="new").body
    b'{"id":7}'
    """
    if not isinstance(topic, str):
        raise InvalidMessage(f"a value is sent to a topic, send('orders', value), not to {topic!r:.80}")
    if isinstance(value, bytes | bytearray | memoryview):
        return Message(topic, bytes(value), **arguments)
    first = value[0] if isinstance(value, list | tuple) and value else value
    if isinstance(first, Message | ReceivedMessage):
        raise InvalidMessage(
            f"{type(first).__name__} is no value for topic {topic!r}: send(message) sends a message, or give its body"
        )
    try:
        body = value.encode() if isinstance(value, str) else codec.encode(value)
    except Exception as error:
        raise InvalidMessage(
            f"{type(value).__name__} for topic {topic!r} cannot be encoded: {error}"
        ) from error
    return Message(topic, body, **arguments)


def decoder_of(
    topic: str, function: Callable[..., Any], codec: Codec, *, batches: bool = False
) -> Callable[[ReceivedMessage], Any] | None:
    """From a message to what the listener's annotation asks for; None when that is the message itself."""
    kind = _annotation(function)
    if is_the_message(topic, kind, batches=batches):
        return None
    if kind in (bytes, bytearray, memoryview):
        return lambda message: message.body if kind is bytes else kind(message.body)
    if kind is str:
        return lambda message: _text(topic, message)
    try:
        decode = codec.decoder(kind)
    except (TypeError, NameError) as error:
        raise ConfigError(
            f"the listener of topic {topic!r} asks for {kind!r}, which has no decoder: {error}"
        ) from error

    def decoded(message: ReceivedMessage) -> Any:
        try:
            return decode(message.body)
        except Exception as error:  # whatever a codec raises for bytes it cannot read
            raise UndecodableBody(topic, kind, _reason(error)) from error

    return decoded


def _reason(error: Exception) -> str:
    """The error in one line; pydantic's without the values, which are not for logs."""
    details = getattr(error, "errors", None) or getattr(error.__cause__, "errors", None)
    if not callable(details):
        return f"{error}"
    found = details(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{'.'.join(str(part) for part in each['loc'])}: {each['msg']}" for each in found)


def _text(topic: str, message: ReceivedMessage) -> str:
    try:
        return message.text
    except UnicodeDecodeError as error:
        raise UndecodableBody(topic, str, error) from error


def _annotation(function: Callable[..., Any]) -> Any:
    """What the first parameter is annotated with; `Annotated[Order, ...]` is an Order."""
    first = next(iter(parameters_of(function)), None)
    if first is None:
        return inspect.Parameter.empty
    kind = annotation_of(function, first)
    return typing.get_args(kind)[0] if typing.get_origin(kind) is typing.Annotated else kind
