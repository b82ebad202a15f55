"""Results of Admin as JSON: dataclasses become objects, tables with keys that are no texts become lists of pairs."""

import dataclasses
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Any

import msgspec

TEXT_BYTES_MAX = 1 << 20


def jsonable(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float | bool):
        return value.name if isinstance(value, Enum) else value
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value[:TEXT_BYTES_MAX]).decode(errors="replace")
    if isinstance(value, BaseException):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: jsonable(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if field.repr
        }
    if isinstance(value, msgspec.Struct):
        return {name: jsonable(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: jsonable(getattr(value, name)) for name in value._fields}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: jsonable(each) for key, each in value.items()}
        return [{"key": jsonable(key), "value": jsonable(each)} for key, each in value.items()]
    if isinstance(value, Sequence):
        return [jsonable(each) for each in value]
    if isinstance(value, AbstractSet):
        return sorted((jsonable(each) for each in value), key=str)
    return str(value)
