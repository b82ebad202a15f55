"""Up to where in the log a member's tables have the records of changes."""

import json
from collections.abc import Callable
from pathlib import Path

from rocketeer.errors import BadBody
from rocketeer.model.offsets import LogOffset
from rocketeer.store.table_file import load_table


class Position:
    """Which records the tables' files have; written after them. `whole`: they are the group's."""

    file_name = "groupTables.json"
    speaks_of_others = True

    def __init__(self, log_end: Callable[[], LogOffset], *, known_until: LogOffset | None) -> None:
        """`known_until`: what holds without a file; None: nothing is known, all records of the log are seen."""
        self._log_end = log_end
        self.first_waiting: Callable[[], LogOffset | None] = lambda: None
        """Where the first record stands that the tables do not have yet, if there is one."""
        self._saved: tuple[LogOffset, bool] | None = None
        self.log_offset = LogOffset(0) if known_until is None else known_until
        self.whole = False

    def encode(self) -> str:
        self.log_offset = self.end()
        self._saved = self.log_offset, self.whole
        return position_text(*self._saved)

    def decode(self, text: str) -> None:
        self.log_offset, self.whole = _decode_position(text)

    def take_dirty(self) -> bool:
        return self._saved != (self.end(), self.whole)

    def end(self) -> LogOffset:
        """As it is now."""
        waiting = self.first_waiting()
        return self._log_end() if waiting is None else min(waiting, self._log_end())


def position_text(log_offset: LogOffset, whole: bool) -> str:
    return json.dumps({"logOffset": log_offset, "whole": whole})


def read_position(path: Path) -> LogOffset | None:
    """Up to where in the log a store's tables are known to have its records; None when that is not known."""
    text = load_table(path)
    try:
        return None if text is None else _decode_position(text)[0]
    except BadBody:
        return None


def _decode_position(text: str) -> tuple[LogOffset, bool]:
    try:
        told = json.loads(text)
        return LogOffset(int(told["logOffset"])), bool(told["whole"])
    except (ValueError, KeyError, TypeError) as error:
        raise BadBody(f"no position of tables: {error}") from None
