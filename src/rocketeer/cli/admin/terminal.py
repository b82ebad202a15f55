"""Output on a terminal: tables with colours, redrawn in place while a command watches."""

from collections.abc import Iterator

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table as RichTable
from rich.text import Text as RichText

from rocketeer.cli.admin.output import Output, OutputLines, OutputTable, row_object, text_of

ROWS_AT_ONCE = 500
"""A table's columns are sized by so many rows; what follows is a table of its own."""


def show(console: Console, output: Output) -> None:
    for renderable in renderables(output):
        console.print(renderable)


def renderables(output: Output) -> Iterator[RenderableType]:
    for part in output.parts:
        if isinstance(part, OutputLines):
            style = "green" if part.good else "red" if part.bad else ""
            for line in part.lines:
                yield RichText(line, style=style)
            continue
        rows = iter(part.rows)
        more = True
        while more:
            table, more = _table(part, rows)
            yield table
    for failure in output.failures:
        yield RichText(str(failure), style="bold red")


def _table(part: OutputTable, rows: Iterator[object]) -> tuple[RichTable, bool]:
    """The next rows, and whether there may be more."""
    table = RichTable(
        box=box.SIMPLE_HEAD if part.heading else None,
        show_header=part.heading,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    numeric = [True] * len(part.columns)
    lines: list[tuple[list[str], str]] = []
    for row in rows:
        assert isinstance(row, (tuple, list))
        values = row_object(part, row)
        for at, value in enumerate(values.values()):
            numeric[at] = numeric[at] and (value is None or isinstance(value, (int, float)))
        style = "yellow" if part.warn is not None and part.warn(values) else ""
        lines.append(([text_of(value) for value in row], style))
        if len(lines) == ROWS_AT_ONCE:
            break
    for at, column in enumerate(part.columns):
        right = numeric[at] and bool(lines) and column.key != "queueId"
        table.add_column(
            column.title.lstrip("#"),
            justify="right" if right else "left",
            header_style="bold cyan",
            style="bold" if at == 0 else "",
            overflow="fold",
        )
    for texts, style in lines:
        table.add_row(*(RichText(text) for text in texts), style=style)
    return table, len(lines) == ROWS_AT_ONCE


class Screen:
    """One picture, redrawn in place; as a `with` block."""

    def __init__(self, console: Console, title: str) -> None:
        self._title = title
        self._live = Live(console=console, auto_refresh=False, transient=False)

    def __enter__(self) -> "Screen":
        self._live.__enter__()
        return self

    def __exit__(self, *what: object) -> None:
        self._live.__exit__(None, None, None)

    def draw(self, output: Output, note: str) -> None:
        head = RichText(f"{self._title}  {note}", style="dim")
        self._live.update(Group(head, *renderables(output)), refresh=True)
