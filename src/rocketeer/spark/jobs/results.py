"""What a query found, as a table to look at, CSV, JSON lines or Parquet.

Spark turns values into text, so that times are those of the session's time zone and numbers are whole. Bytes are
base64 in CSV and JSON; in a table they are shown as text where they are text.
"""

import csv
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

from rocketeer.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

CELL_CHARS_MAX: Final = 120
NULL: Final = "NULL"


class OutputFormat(StrEnum):
    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


def check_target(form: OutputFormat, output: Path | None, overwrite: bool) -> None:
    """Before anything runs: whether the result can go there."""
    if form is OutputFormat.PARQUET and output is None:
        raise ConfigError("Parquet needs a place: --output FOLDER")
    if output is None:
        return
    if output.exists() and not overwrite:
        raise ConfigError(f"{output} exists: choose another place, or say --overwrite")
    if not output.absolute().parent.is_dir():
        raise ConfigError(f"{output}: the folder {output.absolute().parent} does not exist")


def write_result(
    df: "DataFrame", form: OutputFormat, output: Path | None, *, rows_max: int, overwrite: bool
) -> int | None:
    """Run the query and write what it finds; how many rows, None if nobody counted."""
    if form is OutputFormat.PARQUET:
        assert output is not None, "check_target"
        df.write.mode("overwrite" if overwrite else "errorifexists").parquet(str(output))
        return None
    with _target(output) as out:
        if form is OutputFormat.JSON:
            return _write_json(df, out)
        if form is OutputFormat.CSV:
            return _write_csv(df, out)
        return _write_table(df, out, None if output is not None else rows_max)


@contextmanager
def _target(output: Path | None) -> Iterator[TextIO]:
    """Stdout, or a file that is there only when it is whole."""
    if output is None:
        yield sys.stdout
        sys.stdout.flush()
        return
    waiting = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        with waiting.open("w", encoding="utf-8", newline="") as file:
            yield file
        waiting.replace(output)
    finally:
        waiting.unlink(missing_ok=True)


def _write_json(df: "DataFrame", out: TextIO) -> int:
    from pyspark.sql import functions as f

    # Numbered names inside, as a result may have two columns of one name; they are put back as the schema says.
    inner = df.toDF(*[f"c{number}" for number in range(len(df.columns))])
    named = [f.col(f"c{number}").alias(name) for number, name in enumerate(df.columns)]
    text = f.to_json(f.struct(*named), {"ignoreNullFields": "false"}).alias("text")
    count = 0
    for row in inner.select(text).toLocalIterator(prefetchPartitions=True):
        out.write(f"{row.text}\n")
        count += 1
    return count


def _write_csv(df: "DataFrame", out: TextIO) -> int:
    from pyspark.sql import functions as f

    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(df.columns)
    count = 0
    for row in _as_text(df, f.base64).toLocalIterator(prefetchPartitions=True):
        writer.writerow(["" if value is None else value for value in row])
        count += 1
    return count


def _write_table(df: "DataFrame", out: TextIO, rows_max: int | None) -> int:
    shown = _as_text(df, lambda column: column)
    rows = shown.collect() if rows_max is None else shown.limit(rows_max + 1).collect()
    more = rows_max is not None and len(rows) > rows_max
    kept = rows[:rows_max] if rows_max is not None else rows
    numbers = [part.dataType.typeName() in _NUMBERS for part in df.schema.fields]
    for line in table_lines(df.columns, kept, numbers):
        out.write(f"{line}\n")
    if more:
        out.write(f"({rows_max} rows shown; there are more: --rows, or --format csv)\n")
    else:
        out.write(f"({len(kept)} {'row' if len(kept) == 1 else 'rows'})\n")
    return len(kept)


_NUMBERS: Final = frozenset({"byte", "short", "integer", "long", "float", "double", "decimal"})


def table_lines(names: Sequence[str], rows: Sequence[Sequence[Any]], right: Sequence[bool]) -> Iterator[str]:
    """Columns side by side, numbers to the right."""
    head = [cell(name) for name in names]
    cells = [[cell(value) for value in row] for row in rows]
    widths = [max([len(name), *(len(row[at]) for row in cells)]) for at, name in enumerate(head)]

    def line(values: Sequence[str]) -> str:
        parts = [
            value.rjust(width) if is_right else value.ljust(width)
            for value, width, is_right in zip(values, widths, right, strict=True)
        ]
        return " | ".join(parts).rstrip()

    yield line(head)
    yield "-+-".join("-" * width for width in widths)
    for row in cells:
        yield line(row)


def cell(value: Any) -> str:
    """A value on one line, cut if it is long. Bytes that are no text are shown in hex, like Spark's X'00FF'."""
    if value is None:
        return NULL
    if isinstance(value, bytes | bytearray):
        try:
            text = bytes(value).decode()
        except UnicodeDecodeError:
            text = ""
        if not text or not all(c.isprintable() or c in "\r\n\t" for c in text):
            text = f"X'{bytes(value[:CELL_CHARS_MAX]).hex().upper()}'"
    else:
        text = str(value)
    text = "".join(_shown(c) for c in text)
    return text if len(text) <= CELL_CHARS_MAX else f"{text[: CELL_CHARS_MAX - 3]}..."


def _shown(character: str) -> str:
    return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(
        character, character if character.isprintable() else "\ufffd"
    )


def _as_text(df: "DataFrame", of_bytes: Any) -> "DataFrame":
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, BinaryType, MapType, StructType, VariantType

    inner = df.toDF(*[f"c{number}" for number in range(len(df.columns))])
    texts: list[Column] = []
    for number, part in enumerate(df.schema.fields):
        column = f.col(f"c{number}")
        if isinstance(part.dataType, BinaryType):
            column = of_bytes(column)
        elif isinstance(part.dataType, ArrayType | MapType | StructType | VariantType):
            column = f.to_json(column)
        else:
            column = column.cast("string")
        texts.append(column.alias(f"c{number}"))
    return inner.select(*texts)
