"""From log bytes to dispatch entries in plain Python: what `_entries.pyx` does compiled."""

from typing import Final

from rocketeer.errors import BadRecord
from rocketeer.model.offsets import LogOffset
from rocketeer.model.topic import WAITING_TOPICS
from rocketeer.record.delay_levels import DEFAULT_DELAY_LEVELS, DelayLevels
from rocketeer.record.dispatch_entry import DispatchEntry
from rocketeer.record.entry import entry_at
from rocketeer.record.flags import HOSTS_V6
from rocketeer.record.layout import Buffer

_ANY_LEVELS: Final = DelayLevels.parse(DEFAULT_DELAY_LEVELS)
"""Only messages that wait depend on them, and these are not plain."""


def plain_entries(
    buf: Buffer, start: int, base: LogOffset, count: int = 1 << 62
) -> tuple[list[DispatchEntry], int]:
    """Entries of up to `count` plain records of `buf` from `start` on, and where the first that is none begins.

    `base` is the log offset of the buffer's first byte; a record must stand where it says.
    """
    found: list[DispatchEntry] = []
    at = start
    while count > len(found):
        entry = plain_entry(buf, at, LogOffset(base + at))
        if entry is None:
            break
        found.append(entry)
        at += entry.size
    return found, at


def plain_entry(buf: Buffer, at: int, log_offset: LogOffset) -> DispatchEntry | None:
    """The entry of the record at `at`; None if that is not plain, not whole or no record."""
    try:
        entry = entry_at(buf, at, _ANY_LEVELS, check_crc=True)
    except BadRecord:
        return None
    if (
        not isinstance(entry, DispatchEntry)
        or entry.log_offset != log_offset
        or entry.sys_flag & HOSTS_V6
        or entry.topic in WAITING_TOPICS
    ):
        return None
    return entry
