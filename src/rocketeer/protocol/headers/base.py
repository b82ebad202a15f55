"""What every typed header shares: Java's names beside ours, and the way from and to `extFields`.

`decode_header` makes a header from a command's texts, `encode_header` turns it back into texts. msgspec reads one
from the JSON bytes of `extFields` as well, without a dict in between (the two agree; tested): pulls are read so.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

import msgspec

from rocketeer.errors import BadHeader
from rocketeer.model.java_types import I32, I64, LogOffsetI64, QueueOffsetI64

__all__ = ["I32", "I64", "Header", "LogOffsetI64", "QueueOffsetI64", "decode_header", "encode_header"]


class Header(msgspec.Struct, rename="camel", gc=False):
    """A typed header; a field without a default is one RocketMQ 4.9.8 cannot do without."""


H = TypeVar("H", bound=Header)

_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")


def decode_header(kind: type[H], ext: Mapping[str, str]) -> H:
    """The typed header of a command's texts; raises BadHeader naming the field."""
    try:
        return msgspec.convert(ext, kind, strict=False)
    except msgspec.ValidationError:
        return _decode_field_by_field(kind, ext)


def _decode_field_by_field(kind: type[H], ext: Mapping[str, str]) -> H:
    """Reads numbers and booleans as Java does (`+5`, `007`; whatever is not `true` is false)."""
    values: dict[str, Any] = {}
    for field in _fields(kind):
        name = field.encode_name
        text = ext.get(name)
        if text is None:
            if field.required:
                raise BadHeader(f"the custom field <{name}> is null")
            continue
        value: object = text
        expected = _python_type(field.type)
        if expected is bool:
            value = text.lower() == "true"
        elif expected is int:
            if text == "" and not field.required:
                continue
            value = int(text) if _INTEGER.fullmatch(text) else text
        try:
            values[field.name] = msgspec.convert(value, field.type, strict=False)
        except msgspec.ValidationError as why:
            raise BadHeader(f"the custom field <{name}> of {kind.__name__} is {text[:64]!r}: {why}") from None
    return kind(**values)


@cache
def _fields(kind: type[Header]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(kind)


@cache
def _python_type(annotation: Any) -> type | None:
    """int, bool or str under Annotated and Optional."""
    kind = msgspec.inspect.type_info(annotation)
    options = kind.types if isinstance(kind, msgspec.inspect.UnionType) else (kind,)
    for option in options:
        if isinstance(option, msgspec.inspect.BoolType):
            return bool
        if isinstance(option, msgspec.inspect.IntType):
            return int
    return str


def encode_header(header: Header) -> dict[str, str]:
    """The texts of a typed header under Java's names; what is None is left out."""
    ext = {}
    for field in _fields(type(header)):
        value = getattr(header, field.name)
        if value is None:
            continue
        if value is True:
            ext[field.encode_name] = "true"
        elif value is False:
            ext[field.encode_name] = "false"
        else:
            ext[field.encode_name] = str(value)
    return ext
