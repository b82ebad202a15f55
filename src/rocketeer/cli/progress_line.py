"""How far a command is, on one line of the terminal that is written over."""

import contextlib
import shutil
import sys
import time
from typing import Final

TERMINAL_S: Final = 0.5
"""How often the line changes."""
FILE_S: Final = 10.0


class ProgressLine:
    """Where stderr is no terminal, nothing is shown, or with `in_files` a line now and then."""

    def __init__(self, *, quiet: bool, in_files: bool = False) -> None:
        self._on_terminal = sys.stderr.isatty()
        self._quiet = quiet or not (self._on_terminal or in_files)
        self._width = min(100, shutil.get_terminal_size().columns - 1)
        self._began_s = self._shown_s = time.monotonic()

    @property
    def seconds(self) -> float:
        """Time since the command began."""
        return time.monotonic() - self._began_s

    def show(self, text: str) -> None:
        """Show the text unless another one was shown a moment ago."""
        now_s = time.monotonic()
        if self._quiet or now_s - self._shown_s < (TERMINAL_S if self._on_terminal else FILE_S):
            return
        self._shown_s = now_s
        if self._on_terminal:
            print(f"\r{text[: self._width]:<{self._width}}", end="", file=sys.stderr, flush=True)
        else:
            print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Empty the line."""
        if self._on_terminal and self._shown_s > self._began_s:
            with contextlib.suppress(OSError):
                print("\r" + " " * self._width, end="\r", file=sys.stderr, flush=True)
