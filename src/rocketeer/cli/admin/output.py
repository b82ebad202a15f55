"""What a command shows: tables and lines, written as RocketMQ's tool writes them, as JSON, or coloured on a terminal.

All three come from the same values. A value nobody answered is None: `-` in a table, null in JSON.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from rocketeer.admin.results import NotAnswered

UNKNOWN: Final = "-"


@dataclass(frozen=True, slots=True)
class Cell:
    """A value and how it is written."""

    value: object
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Column:
    """`key` in JSON, `title` above it."""

    key: str
    title: str


@dataclass(frozen=True, slots=True)
class OutputTable:
    """Rows under titles; `form` and `head_form` are how RocketMQ's tool sets them (printf, texts only).

    `warn` says which rows a terminal shows in yellow.
    """

    form: str
    columns: Sequence[Column]
    rows: Iterable[Sequence[object]]
    head_form: str | None = None
    heading: bool = True
    warn: Callable[[Mapping[str, object]], bool] | None = None


@dataclass(frozen=True, slots=True)
class OutputLines:
    """Lines; `good` ones are green on a terminal, `bad` ones red."""

    lines: Iterable[str]
    good: bool = False
    bad: bool = False


OutputPart = OutputTable | OutputLines


@dataclass(frozen=True, slots=True)
class Output:
    """Everything one run of a command shows.

    --json gives `data`, or `rows` one after the other (they may be many), or else the rows of the only table.
    """

    parts: Iterable[OutputPart]
    data: object = None
    failures: tuple[NotAnswered, ...] = ()
    rows: Iterable[object] | None = None


def columns(*keys_and_titles: str) -> tuple[Column, ...]:
    """Columns from keys and titles in turn: `columns("queueId", "#QID", ...)`."""
    return tuple(
        Column(keys_and_titles[at], keys_and_titles[at + 1]) for at in range(0, len(keys_and_titles), 2)
    )


def said(*lines: str, data: object = None, failures: tuple[NotAnswered, ...] = ()) -> Output:
    """An action that worked, in sentences."""
    return Output([OutputLines(lines, good=True)], {"done": list(lines)} if data is None else data, failures)


# --- cells --------------------------------------------------------------------------------------


def when(ms: int | None, form: str = "%Y-%m-%d %H:%M:%S", *, millis: str = "", missing: str = "N/A") -> Cell:
    """A time as the tool writes it, local time; in JSON milliseconds since 1970."""
    if not ms or ms < 0:
        return Cell(None, missing)
    text = datetime.fromtimestamp(ms / 1000).strftime(form)
    return Cell(ms, f"{text}{millis}{ms % 1000:03d}" if millis else text)


def fixed(value: float | None, digits: int = 2) -> Cell:
    return Cell(value, UNKNOWN if value is None else f"{value:.{digits}f}")


def text_of(value: object) -> str:
    """As a table shows it."""
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


# --- as RocketMQ's tool writes it ---------------------------------------------------------------


def plain_lines(output: Output, *, heading: bool = True) -> Iterator[str]:
    for part in output.parts:
        if isinstance(part, OutputLines):
            yield from part.lines
            continue
        if part.heading and heading:
            yield (part.head_form or part.form) % tuple(column.title for column in part.columns)
        for row in part.rows:
            yield part.form % tuple(text_of(value) for value in row)


# --- JSON ---------------------------------------------------------------------------------------


def json_pieces(output: Output) -> Iterator[str]:
    """One JSON document in pieces: rows are written as they come, so a large topic needs little memory."""
    if output.data is not None:
        yield json.dumps(plain_value(output.data), ensure_ascii=False, indent=2)
        return
    between = "["
    for row in output.rows if output.rows is not None else _table_rows(output):
        yield between + "\n  " + json.dumps(plain_value(row), ensure_ascii=False)
        between = ","
    yield "[]" if between == "[" else "\n]"


def _table_rows(output: Output) -> Iterator[object]:
    tables = [part for part in output.parts if isinstance(part, OutputTable)]
    assert len(tables) == 1, "an output without data and rows has one table"
    return (row_object(tables[0], row) for row in tables[0].rows)


def row_object(table: OutputTable, row: Sequence[object]) -> dict[str, object]:
    return {column.key: plain_value(value) for column, value in zip(table.columns, row, strict=True)}


def plain_value(value: Any) -> Any:
    """Values as JSON has them."""
    if isinstance(value, Cell):
        return plain_value(value.value)
    if isinstance(value, Mapping):
        return {str(key): plain_value(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain_value(each) for each in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return str(value)
