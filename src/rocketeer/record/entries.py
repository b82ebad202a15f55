"""From log bytes to dispatch entries, many at a time: what a slave does with all it copies.

Compiled for plain records, one behind the other; `entry_at` for the others, and where nothing is compiled.
"""

from typing import TYPE_CHECKING, NamedTuple

from rocketeer.compiled import COMPILED
from rocketeer.errors import BadRecord
from rocketeer.record.delay_levels import DelayLevels
from rocketeer.record.dispatch_entry import DispatchEntry
from rocketeer.record.entry import Blank, entry_at
from rocketeer.record.layout import BLANK, BLANK_MAGIC, MAGIC, Buffer


def plain_entries(buf: Buffer, start: int, base: int) -> tuple[list[DispatchEntry], int]:
    """Entries of plain records from `start` on, and where the first record begins that is left to `entry_at`."""
    return [], start


if COMPILED and not TYPE_CHECKING:
    from rocketeer.record._entries import plain_entries


class Entries(NamedTuple):
    """The whole records found; `end` is behind the last, where a blank begins or a record that is not whole."""

    found: list[DispatchEntry]
    end: int
    blank_bytes: int
    """Of the blank that begins at `end`, 0 if none does."""
    wanted_bytes: int
    """So many bytes from `end` on make the next record whole, as far as that can be told; at least 8."""


def entries_in(buf: Buffer, start: int, base: int, file_end: int, levels: DelayLevels) -> Entries:
    """The records of `buf` from `start` on; its first byte has the log offset `base`, its file ends at `file_end`.

    BadRecord for bytes that are none.
    """
    found, at = plain_entries(buf, start, base)
    while len(buf) - at >= BLANK.size:
        here = base + at
        size, magic = BLANK.unpack_from(buf, at)
        if magic == BLANK_MAGIC:
            if size != file_end - here:
                raise BadRecord(at=here, reason=f"a blank of {size} bytes does not end its file")
            return Entries(found, at, size, size)
        if magic == MAGIC and 0 < size <= file_end - here and len(buf) - at < size:
            return Entries(found, at, 0, size)
        entry = entry_at(buf, at, levels, check_crc=True)
        if entry is None or isinstance(entry, Blank) or entry.log_offset != here:
            raise BadRecord(at=here, reason=f"found {entry}")
        found.append(entry)
        more, at = plain_entries(buf, at + entry.size, base)
        found += more
    return Entries(found, at, 0, BLANK.size)
