"""Values instead of bytes: what a listener's annotation asks for is decoded, what a send is given is encoded.

    @consumer.subscribe("orders")
    def bill(order: Order): ...       # a dataclass, msgspec Struct, TypedDict, pydantic model, dict ...

    producer.send("orders", Order(...))

JSON unless another codec is given (`codec=MSGPACK`, or anything with `encode` and `decoder`). `bytes` and `str` are
the body itself; a listener without an annotation, or with `ReceivedMessage`, gets the message.
"""

import inspect
import typing
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import msgspec

from rocketeer.client.core.received import ReceivedMessage
from rocketeer.errors import ConfigError
from rocketeer.model.message import InvalidMessage, Message

Decode = Callable[[bytes], Any]


class Codec(Protocol):
    """How values become bodies. Made by users for Avro, protobuf and the like."""

    def encode(self, value: Any) -> bytes:
        """The body for a value."""

    def decoder(self, kind: Any) -> Decode:
        """The function from a body to a value of the annotated kind; asked for once per listener."""


class JsonCodec:
    """JSON by msgspec; pydantic models by their own methods, so that their validators run."""

    def __repr__(self) -> str:
        return "JSON"

    def encode(self, value: Any) -> bytes:
        to_json = getattr(value, "model_dump_json", None)
        return to_json().encode() if callable(to_json) else msgspec.json.encode(value)

    def decoder(self, kind: Any) -> Decode:
        of_pydantic = getattr(kind, "model_validate_json", None)
        if callable(of_pydantic):
            return typing.cast(Decode, of_pydantic)
        return msgspec.json.Decoder(kind).decode


class MsgpackCodec:
    """MessagePack by msgspec."""

    def __repr__(self) -> str:
        return "MSGPACK"

    def encode(self, value: Any) -> bytes:
        return msgspec.msgpack.encode(value)

    def decoder(self, kind: Any) -> Decode:
        return msgspec.msgpack.Decoder(kind).decode


JSON: Final = JsonCodec()
MSGPACK: Final = MsgpackCodec()


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
    if isinstance(value, str):
        return Message(topic, value.encode(), **arguments)
    try:
        body = codec.encode(value)
    except Exception as error:
        raise InvalidMessage(
            f"{type(value).__name__} for topic {topic!r} cannot be encoded: {error}"
        ) from error
    return Message(topic, body, **arguments)


def decoder_of(
    topic: str, function: Callable[..., Any], codec: Codec
) -> Callable[[ReceivedMessage], Any] | None:
    """From a message to what the listener's annotation asks for; None when that is the message itself."""
    kind = _annotation(topic, function)
    if kind in (inspect.Parameter.empty, Any, object, ReceivedMessage) or _is_list_of_messages(kind):
        return None
    if kind is bytes:
        return lambda message: message.body
    if kind is str:
        return lambda message: message.text
    try:
        decode = codec.decoder(kind)
    except TypeError as error:
        raise ConfigError(
            f"the listener of topic {topic!r} asks for {kind!r}, which has no decoder: {error}"
        ) from error
    return lambda message: decode(message.body)


def _annotation(topic: str, function: Callable[..., Any]) -> Any:
    """What the first parameter is annotated with."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:  # some functions written in C do not tell
        return inspect.Parameter.empty
    if not parameters or parameters[0].annotation is inspect.Parameter.empty:
        return inspect.Parameter.empty
    first = parameters[0]
    if not isinstance(first.annotation, str):
        return first.annotation
    if first.annotation.rpartition(".")[2].rstrip("]") == ReceivedMessage.__name__:
        return ReceivedMessage  # often imported for type checkers only
    try:
        called = function if inspect.isroutine(function) else type(function).__call__
        return typing.get_type_hints(called)[first.name]
    except (NameError, TypeError, KeyError, AttributeError) as error:
        raise ConfigError(
            f"the listener of topic {topic!r} asks for {first.annotation!r}, which is not known where it is "
            f"defined: {error}"
        ) from None


def _is_list_of_messages(kind: Any) -> bool:
    return typing.get_origin(kind) is list and typing.get_args(kind) in (
        (ReceivedMessage,),
        (Any,),
        (object,),
    )
