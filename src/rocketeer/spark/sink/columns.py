"""The DataFrame's schema against what a message has: checked once, when the write is planned."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyspark.sql import types as t

from rocketeer.errors import RocketeerError
from rocketeer.spark.sink.options import EFFECTIVELY_ONCE, SinkOptions

IDENTITY: Final = "_rowIdentity"
"""Made by `identify_rows`: equal rows have the same, and it decides which partition they meet in."""

# What the source reads and nobody can write: passed over, so that what was read can be written again.
_OF_THE_SOURCE: Final = frozenset(
    {
        "brokername", "queueid", "queueoffset", "msgid", "offsetmsgid", "flag", "sysflag", "borntimestamp",
        "bornhost", "storetimestamp", "storehost", "reconsumetimes",
    }
)  # fmt: skip
_WHOLE: Final = (t.ByteType, t.ShortType, t.IntegerType, t.LongType)


class SinkSchemaError(RocketeerError, ValueError):
    """Columns that do not make messages; the text names each."""


def _is_texts(kind: t.DataType) -> bool:
    return isinstance(kind, t.ArrayType) and isinstance(kind.elementType, t.StringType)


def _is_text_map(kind: t.DataType) -> bool:
    return (
        isinstance(kind, t.MapType)
        and isinstance(kind.keyType, t.StringType)
        and isinstance(kind.valueType, t.StringType)
    )


# column -> (what its type must be, in words, the test)
_KINDS: Final[dict[str, tuple[str, Callable[[t.DataType], bool]]]] = {
    "body": ("binary or string", lambda kind: isinstance(kind, t.BinaryType | t.StringType)),
    "value": ("binary or string", lambda kind: isinstance(kind, t.BinaryType | t.StringType)),
    "topic": ("string", lambda kind: isinstance(kind, t.StringType)),
    "tags": ("string", lambda kind: isinstance(kind, t.StringType)),
    "keys": ("string or array<string>", lambda kind: isinstance(kind, t.StringType) or _is_texts(kind)),
    "properties": ("map<string,string>", _is_text_map),
    "shardingKey": ("string or a whole number", lambda kind: isinstance(kind, (t.StringType, *_WHOLE))),
    "delayLevel": ("a whole number", lambda kind: isinstance(kind, _WHOLE)),
    "deliverAt": ("timestamp", lambda kind: isinstance(kind, t.TimestampType)),
}
_ID_KINDS: Final = (t.StringType, t.BinaryType, *_WHOLE)
PARTS: Final = tuple(_KINDS)
_PROPER: Final = {name.lower(): name for name in _KINDS}


@dataclass(frozen=True)
class Columns:
    """Where in a record batch each part of a message stands; None where the DataFrame does not have it."""

    body: int
    topic: int | None = None
    tags: int | None = None
    keys: int | None = None
    properties: int | None = None
    sharding_key: int | None = None
    delay_level: int | None = None
    deliver_at: int | None = None
    id: int | None = None
    id_name: str | None = None
    identity: int | None = None


def plan_columns(schema: t.StructType, options: SinkOptions) -> Columns:
    """The columns to send; SinkSchemaError says everything that does not fit."""
    problems: list[str] = []
    found: dict[str, int] = {}
    id_at: int | None = None
    identity_at: int | None = None
    for at, column in enumerate(schema.fields):
        if options.id_column is not None and column.name.lower() == options.id_column.lower():
            id_at = at
            if not isinstance(column.dataType, _ID_KINDS):
                problems.append(_misfit(column, "string, binary or a whole number, to be the idColumn"))
        name = _PROPER.get(column.name.lower())
        if name is not None:
            if name in found:
                problems.append(f"there are two columns {name!r}")
            found[name] = at
            words, fits = _KINDS[name]
            if not fits(column.dataType):
                problems.append(_misfit(column, words))
        elif column.name == IDENTITY:
            identity_at = at
        elif at != id_at and column.name.lower() not in _OF_THE_SOURCE:
            problems.append(
                f"column {column.name!r} is no part of a message (those are {', '.join(_KINDS)}): drop it, "
                "or put it into the body or the properties"
            )
    if "body" in found and "value" in found:
        problems.append("there are both a body and a value column: keep the one to send")
    body = found.get("body", found.get("value"))
    if body is None:
        problems.append("there is no body column (or value): what is the message?")
    if "topic" not in found and options.topic is None:
        problems.append("there is neither a topic column nor the option topic")
    if options.id_column is not None and id_at is None:
        problems.append(f"there is no column {options.id_column!r}, which the option idColumn names")
    if options.effectively_once and options.id_column is None and identity_at is None:
        problems.append(
            f"delivery {EFFECTIVELY_ONCE} needs to know a row again when it is sent again: name a unique column "
            "with the option idColumn, or write rocketeer.spark.identify_rows(df)"
        )
    if problems:
        raise SinkSchemaError(f"this DataFrame cannot be written to RocketMQ: {'; '.join(problems)}")
    assert body is not None, "a missing one is a problem"
    return Columns(
        body=body,
        topic=None if options.topic is not None else found.get("topic"),
        tags=found.get("tags"),
        keys=found.get("keys"),
        properties=found.get("properties"),
        sharding_key=found.get("shardingKey"),
        delay_level=found.get("delayLevel"),
        deliver_at=found.get("deliverAt"),
        id=id_at,
        id_name=options.id_column,
        identity=identity_at,
    )


def _misfit(column: t.StructField, wanted: str) -> str:
    return f"column {column.name!r} is {column.dataType.simpleString()}, but must be {wanted}"
