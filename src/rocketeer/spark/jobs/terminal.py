"""The console that reports are printed to."""

import os
from typing import Final

from rich.console import Console

FILE_COLUMNS: Final = 240


def console() -> Console:
    """As wide as the terminal; into a file or a pipe wide enough that no name is broken."""
    found = Console()
    return found if found.is_terminal or "COLUMNS" in os.environ else Console(width=FILE_COLUMNS)
