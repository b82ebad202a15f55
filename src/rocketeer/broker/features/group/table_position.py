"""Up to where in the log a member's tables have the records of changes."""

import json
from collections import deque
from collections.abc import Callable
from pathlib import Path

from rocketeer.errors import BadBody
from rocketeer.model.offsets import LogOffset
from rocketeer.store.table_file import load_table


class WaitingRecords:
    """Where the records stand in the log that the tables do not have yet."""

    def __init__(self) -> None:
        self.offsets: deque[LogOffset] = deque()
        """The first in front. Another one where those of before are taken over otherwise."""
        self.joined_until: LogOffset | None = None
        """While the leader's tables are taken over, and when that was given up: the tables have all records below."""

    def first(self) -> LogOffset | None:
        if self.joined_until is not None:
            return self.joined_until
        return self.offsets[0] if self.offsets else None


class Position:
    """Up to where the tables' files have the records of changes; written after them."""

    file_name = "groupTables.json"
    saved_with_others = True

    def __init__(self, log_end: Callable[[], LogOffset], *, known_until: LogOffset | None) -> None:
        """`known_until`: what holds without a file; None: nothing is known, all records of the log are seen."""
        self._log_end = log_end
        self.waiting = WaitingRecords()
        self._saved: tuple[LogOffset, bool] | None = None
        self.log_offset = LogOffset(0) if known_until is None else known_until
        self._whole = False

    @property
    def whole(self) -> bool:
        """Whether the tables are the group's."""
        return self._whole

    def become_whole(self) -> None:
        """The tables are the group's from now on."""
        self._whole = True

    def encode(self) -> str:
        self.log_offset = self.end()
        self._saved = self.log_offset, self._whole
        return position_text(*self._saved)

    def decode(self, text: str) -> None:
        self.log_offset, self._whole = _decode_position(text)

    def take_dirty(self) -> bool:
        return self._saved != (self.end(), self._whole)

    def end(self) -> LogOffset:
        """The log offset up to which the tables in memory have the records."""
        waiting = self.waiting.first()
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
