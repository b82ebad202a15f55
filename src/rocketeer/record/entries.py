"""From log bytes to dispatch entries, many at a time: for recovery, replays, and what a slave dispatches one by one.

Plain records, one behind the other, in bulk (compiled or `entries_plain.py`); `entry_at` for the others. Most of what
a slave copies becomes no entry where there are compiled modules: `store/log_bytes_runs.py` dispatches it in runs.
"""

from typing import TYPE_CHECKING, NamedTuple

from rocketeer.compiled import COMPILED
from rocketeer.errors import BadRecord
from rocketeer.model.offsets import LogOffset
from rocketeer.record.delay_levels import DelayLevels
from rocketeer.record.dispatch_entry import DispatchEntry
from rocketeer.record.entries_plain import plain_entries as plain_entries
from rocketeer.record.entry import Blank, entry_at
from rocketeer.record.layout import BLANK, BLANK_MAGIC, MAGIC, Buffer

if COMPILED and not TYPE_CHECKING:
    from rocketeer.record._entries import plain_entries


class IncompleteTail(NamedTuple):
    """What stands behind the last whole record: a blank, or a record that is not whole."""

    end: int
    blank_bytes: int
    """How large the blank is that begins at `end`; 0 if none does."""
    wanted_bytes: int
    """How many bytes from `end` on make the next record whole, as far as that can be told; at least 8."""


def entries_in(
    buf: Buffer, base: LogOffset, file_end: LogOffset, levels: DelayLevels
) -> tuple[list[DispatchEntry], IncompleteTail]:
    """The records of `buf`; its first byte has the log offset `base`, its file ends at `file_end`.

    BadRecord for bytes that are none.
    """
    found, at = plain_entries(buf, 0, base)
    while True:
        entry = next_entry(buf, at, base, file_end, levels)
        if isinstance(entry, IncompleteTail):
            return found, entry
        found.append(entry)
        more, at = plain_entries(buf, at + entry.size, base)
        found += more


def next_entry(
    buf: Buffer, at: int, base: LogOffset, file_end: LogOffset, levels: DelayLevels
) -> DispatchEntry | IncompleteTail:
    """The record at `at`; BadRecord for bytes that are none."""
    if len(buf) - at < BLANK.size:
        return IncompleteTail(at, 0, BLANK.size)
    here = base + at
    size, magic = BLANK.unpack_from(buf, at)
    if magic == BLANK_MAGIC:
        if size != file_end - here:
            raise BadRecord(at=here, reason=f"a blank of {size} bytes does not end its file")
        return IncompleteTail(at, size, size)
    if magic == MAGIC and 0 < size <= file_end - here and len(buf) - at < size:
        return IncompleteTail(at, 0, size)
    plain, _ = plain_entries(buf, at, base, 1)
    if plain:
        return plain[0]
    entry = entry_at(buf, at, levels, check_crc=True)
    if entry is None or isinstance(entry, Blank) or entry.log_offset != here:
        raise BadRecord(at=here, reason=f"found {entry}")
    return entry
