"""JSON bodies opened into columns beside the message's own.

A field has its own name, unless the message (or another field) has a column of that name: then `body_` stands before
it. `bodyIsJson` says whether the body was a JSON object that fits the schema; where it was not, all fields are NULL.
"""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from rocketeer.errors import ConfigError
from rocketeer.spark.source.columns import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

IS_JSON: Final = "bodyIsJson"
SAMPLE_ROWS: Final = 1000
SAMPLE_BYTES_MAX: Final = 4 << 20
_PARSED: Final = "_rocketeerParsed"
_CORRUPT: Final = "_rocketeerCorrupt"


def column_names(fields: Iterable[str]) -> list[str]:
    """What the fields are called as columns; Spark does not tell upper from lower case.

    >>> column_names(["id", "Tags", "ID"])
    ['id', 'body_Tags', 'body_ID']
    """
    taken = {name.lower() for name in (*COLUMNS, IS_JSON)}
    found: list[str] = []
    for field in fields:
        name = field
        while name.lower() in taken:
            name = f"body_{name}"
        taken.add(name.lower())
        found.append(name)
    return found


def parse_schema(topic: str, text: str) -> "StructType":
    """A schema a person wrote, `id long, amount double`, or Spark's JSON of one."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    try:
        given = text.strip()
        schema = (
            StructType.fromJson(json.loads(given)) if given.startswith("{") else StructType.fromDDL(given)
        )
    except (PySparkException, ValueError, KeyError) as error:
        first = str(error).strip().split("\n")[0]
        raise ConfigError(
            f"the JSON schema of {topic!r} cannot be read: {first}; write `id long, amount double`"
        ) from None
    if not isinstance(schema, StructType) or not schema.fields:
        raise ConfigError(f"the JSON schema of {topic!r} names no field: write `id long, amount double`")
    return schema


def infer_schema(spark: "SparkSession", topic: str, bodies: Iterable[bytes]) -> "StructType":
    """What the JSON objects among the bodies have in common; ConfigError if there is none."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, StructType, _parse_datatype_string

    objects: list[str] = []
    seen = size = 0
    for body in bodies:
        seen += 1
        text = _object_text(body)
        if text is not None and size + len(text) <= SAMPLE_BYTES_MAX:
            objects.append(text)
            size += len(text)
    # One array of all: Spark finds the type that fits each of its elements.
    sample = f"[{','.join(objects)}]"
    kind = spark.range(1).select(f.schema_of_json(f.lit(sample))).head() if objects else None
    schema = None if kind is None else _parse_datatype_string(kind[0])
    inner = schema.elementType if isinstance(schema, ArrayType) else None
    if not isinstance(inner, StructType) or not inner.fields:
        raise ConfigError(
            f"none of the {seen} newest messages of {topic!r} is a JSON object with fields: "
            "give the schema (--json-schema), or read it without"
        )
    return inner


def _object_text(body: bytes) -> str | None:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return json.dumps(value) if isinstance(value, dict) else None


def open_bodies(frame: "DataFrame", schema: "StructType") -> "DataFrame":
    """The frame with the body's fields and `bodyIsJson` behind its columns."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, StructField, StructType

    lower = [name.lower() for name in schema.names]
    if len(set(lower)) < len(lower) and frame.sparkSession.conf.get("spark.sql.caseSensitive") != "true":
        raise ConfigError(
            f"fields of the JSON bodies differ by case only ({', '.join(schema.names)}): give a schema with one of "
            "them, or set spark.sql.caseSensitive=true"
        )
    whole = StructType([*schema.fields, StructField(_CORRUPT, StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    parsed = frame.withColumn(_PARSED, f.from_json(f.col("body").cast("string"), whole, options))
    source = f.col(_PARSED)
    is_json = source.isNotNull() & source[_CORRUPT].isNull()
    names = column_names(schema.names)
    fields = [
        f.when(is_json, source.getField(field)).alias(name)
        for field, name in zip(schema.names, names, strict=True)
    ]
    return parsed.select(*frame.columns, *fields, is_json.alias(IS_JSON))
