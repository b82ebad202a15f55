"""Whether bodies can ever become what a listener asks for: said when it is declared, not with every message."""

import collections.abc
import inspect
import types
import typing
from collections.abc import Iterator
from typing import Any, Final

from msgspec import inspect as msgspec_inspect

from rocketeer.client.core.received import ReceivedMessage
from rocketeer.errors import ConfigError
from rocketeer.model.message import Message

_ANYTHING: Final = (inspect.Parameter.empty, Any, object)
_LISTS: Final = (list, collections.abc.Sequence, collections.abc.Collection, collections.abc.Iterable)
_DECODED: Final = (dict, list, str, int, float, bool, type(None))


def is_the_message(topic: str, kind: Any, *, batches: bool) -> bool:
    """Whether a listener annotated so takes messages (`batches`: lists of them) and not what is in them.

    Raises ConfigError for one message where lists are given, and the other way round.
    """
    if kind is Message:
        raise ConfigError(
            f"the listener of topic {topic!r} asks for a Message, which is what is sent: a listener is given a "
            "ReceivedMessage"
        )
    asks_one = _is_or_none(kind, ReceivedMessage)
    listed = _listed(kind)
    asks_list = listed is ReceivedMessage
    if asks_list and not batches:
        raise ConfigError(
            f"the listener of topic {topic!r} asks for a list of messages: give the consumer a consume_batch= over 1"
        )
    if asks_one and batches:
        raise ConfigError(
            f"the listener of topic {topic!r} asks for one message, and consume_batch is over 1, which gives lists: "
            "annotate it with list[ReceivedMessage]"
        )
    return asks_one or asks_list or kind in _ANYTHING or (batches and listed in _ANYTHING)


def check_decodable(kind: Any) -> None:
    """Raise TypeError when there is a class in it that neither msgspec nor pydantic can make."""
    for found in _unknown(msgspec_inspect.type_info(kind), set()):
        if not hasattr(found, "__pydantic_validator__") and not _is_what_decodes(found):
            raise TypeError(
                f"{found.__qualname__} is no dataclass, msgspec Struct, TypedDict, attrs class or pydantic model"
            )


def _is_what_decodes(kind: type) -> bool:
    """Such as numbers.Number, which an int is."""
    try:
        return any(issubclass(each, kind) for each in _DECODED)
    except TypeError:  # a protocol that cannot be asked
        return False


def _unknown(node: Any, seen: set[int]) -> Iterator[type]:
    """The classes in a type that msgspec has no rule for; a type may contain itself."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, msgspec_inspect.CustomType):
        yield node.cls
    for name in getattr(node, "__struct_fields__", ()):
        value = getattr(node, name)
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, msgspec_inspect.Type | msgspec_inspect.Field):
                yield from _unknown(each, seen)


def _is_or_none(kind: Any, wanted: type) -> bool:
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return set(typing.get_args(kind)) == {wanted, type(None)}
    return kind is wanted


def _listed(kind: Any) -> Any:
    """What a list is annotated to hold; None for what is no list."""
    if kind in _LISTS:
        return inspect.Parameter.empty
    arguments = typing.get_args(kind)
    return arguments[0] if typing.get_origin(kind) in _LISTS and arguments else None
