"""The console that reports are printed to, and its tables."""

import os
from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

FILE_COLUMNS: Final = 240


def console() -> Console:
    """As wide as the terminal; into a file or a pipe wide enough that no name is broken."""
    found = Console()
    return found if found.is_terminal or "COLUMNS" in os.environ else Console(width=FILE_COLUMNS)


def columns_table(left: Sequence[str], right: Sequence[str], title: str | None = None) -> Table:
    """A table of texts, then numbers: `left` and `right` are the titles of its columns."""
    shown = None if title is None else Text(title)
    table = Table(title=shown, title_justify="left", header_style="bold")
    for head in left:
        table.add_column(head, overflow="fold")
    for head in right:
        table.add_column(head, justify="right")
    return table
