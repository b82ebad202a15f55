"""The source's columns: their Spark types, and the check of a schema the user gave instead."""

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from rocketeer.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FORMAT: Final = "rocketmq"
COLUMNS: Final[dict[str, DataType]] = {
    "topic": StringType(),
    "brokerName": StringType(),
    "queueId": IntegerType(),
    "queueOffset": LongType(),
    "body": BinaryType(),
    "tags": StringType(),
    "keys": StringType(),
    "properties": MapType(StringType(), StringType()),
    "msgId": StringType(),
    "offsetMsgId": StringType(),
    "flag": IntegerType(),
    "sysFlag": IntegerType(),
    "bornTimestamp": TimestampType(),
    "bornHost": StringType(),
    "storeTimestamp": TimestampType(),
    "storeHost": StringType(),
    "reconsumeTimes": IntegerType(),
}

SCHEMA: Final = StructType([StructField(name, kind, True) for name, kind in COLUMNS.items()])


def schema_text(names: Iterable[str]) -> str:
    """The schema of these columns, as `.schema(...)` takes it."""
    return ", ".join(f"{name} {COLUMNS[name].simpleString()}" for name in names)


def with_all_columns(frame: "DataFrame", read: Collection[str]) -> "DataFrame":
    """A frame of the columns that were read with all the others as NULL."""
    from pyspark.sql import functions as f

    return frame.select(
        *[f.col(n) if n in read else f.lit(None).cast(kind).alias(n) for n, kind in COLUMNS.items()]
    )


def check_schema(schema: StructType) -> None:
    """The columns of a user's `.schema(...)` must be ours, with our types; fewer and in any order is fine."""
    for part in schema.fields:
        if schema.names.count(part.name) > 1:
            raise ConfigError(
                f"column {part.name!r} is named twice: name it once, and select it twice afterwards"
            )
        kind = COLUMNS.get(part.name)
        if kind is None:
            raise ConfigError(f"column {part.name!r} does not exist; the source has {', '.join(COLUMNS)}")
        if part.dataType != kind:
            raise ConfigError(
                f"column {part.name!r} is {kind.simpleString()}, not {part.dataType.simpleString()}; "
                "give the schema its own type and cast afterwards"
            )
    if not schema.fields:
        raise ConfigError("the schema has no column")
