"""The inner steps of sending, in plain Python: what `_speed.pyx` does compiled, and the measure of its results.

Every function here has a twin there; `speed.py` picks, the tests hold both to the same answers.
"""

import re
from abc import ABC, abstractmethod
from struct import Struct
from typing import Any, Final, TypeAlias

from isal.isal_zlib import crc32

from rocketeer.record.batch import iter_batch
from rocketeer.record.dispatch_entry import DispatchEntry
from rocketeer.record.flags import BORN_HOST_V6, HOSTS_V6
from rocketeer.record.hosts import V6_BYTES
from rocketeer.record.java_hash import tag_hash
from rocketeer.record.layout import HEADS, MAGIC

PlainProperties: TypeAlias = tuple[bytes, bool, int, str, str | None]
"""(what is stored, whether to wait for durability, tag code, KEYS, UNIQ_KEY)."""

Row: TypeAlias = tuple[str, int, int, int, int, bytes, bytes, bytes, int, int, int, str, str | None]
"""A message ready to be stored: topic, queue id, flag, system flag, born time, born host, body, properties,
times reconsumed, prepared offset, and what the properties say: tag code, keys, unique key."""

MAGIC_BYTES: Final = MAGIC.to_bytes(4, "big", signed=True)
_new: Final = tuple.__new__  # makes a NamedTuple in half the time of calling its class
_length: Final = Struct(">h").pack
_ENTRY: Final = Struct(">qiq")  # of a consume queue: log offset, size, tag code
_ENTRY_BYTES: Final = _ENTRY.size
_pack_entry: Final = _ENTRY.pack
_unpack_entries: Final = _ENTRY.iter_unpack
_offset: Final = Struct(">q").unpack_from
# One search finds all four, however many properties a sender adds. It reads them as decode_properties does:
# names only where a name may stand, empty values as none.
_MARKS: Final = re.compile("\x02(TAGS|KEYS|UNIQ_KEY|DELAY)\x01([^\x02]+)")


def plain_properties(text: str, claims: frozenset[str], cluster_property: str) -> PlainProperties | None:
    """From a request's properties to the stored ones: without WAIT, with the cluster. None if one is claimed."""
    kept = []
    wait = True
    tag_code = 0
    keys = ""
    uniq_key = None
    for piece in text.split("\x02"):
        name, _, value = piece.partition("\x01")
        if not value or not name:
            continue  # nobody reads such a piece
        if name == "UNIQ_KEY":
            uniq_key = value
        elif name == "KEYS":
            keys = value
        elif name == "TAGS":
            tag_code = tag_hash(value)
        elif name == "WAIT":
            wait = value.lower() == "true"
            continue
        elif name in claims:
            return None
        kept.append(piece)
    kept.append(cluster_property)
    return "\x02".join(kept).encode("utf-8", "replace"), wait, tag_code, keys, uniq_key


def find_marks(properties: bytes) -> tuple[str | None, str, str | None, str]:
    """TAGS, KEYS, UNIQ_KEY and DELAY of stored properties; of two with one name the last counts."""
    tags = uniq_key = None
    keys = level = ""
    for name, value in _MARKS.findall(f"\x02{properties.decode('utf-8', 'replace')}"):
        if name == "TAGS":
            tags = value
        elif name == "KEYS":
            keys = value
        elif name == "UNIQ_KEY":
            uniq_key = value
        else:
            level = value
    return tags, keys, uniq_key, level


def split_batch(body: bytes) -> list[tuple[int, bytes, bytes]]:
    """(flag, body, properties) of every message of a batch; BadBatch where the lengths do not fit together."""
    return [(item.flag, item.body, item.properties) for item in iter_batch(body)]


def write_run(
    target: Any,
    at: int,
    rows: list[Row],
    topic_parts: list[bytes],
    sizes: list[int],
    queue_offsets: list[int],
    log_offset: int,
    store_ms: int,
    store_host: bytes,
    store_bits: int,
) -> list[DispatchEntry]:
    """Store the records of a run into `target` (a mapped log file) from `at` on; what dispatch needs of each.

    The magics come last: a process that dies on the way leaves a log that ends with a whole record.
    """
    parts: list[bytes] = []
    entries: list[DispatchEntry] = []
    for row, topic_part, size, queue_offset in zip(rows, topic_parts, sizes, queue_offsets, strict=True):
        (
            topic,
            queue_id,
            flag,
            sys_flag,
            born_ms,
            born_host,
            body,
            properties,
            reconsume_times,
            prepared_offset,
            tag_code,
            keys,
            uniq_key,
        ) = row
        bits = store_bits if len(born_host) != V6_BYTES else store_bits | BORN_HOST_V6
        sys_flag = sys_flag & ~HOSTS_V6 | bits
        parts += (
            HEADS[bits >> 4].pack(
                size,
                0,
                crc32(body) & 0x7FFFFFFF,
                queue_id,
                flag,
                queue_offset,
                log_offset,
                sys_flag,
                born_ms,
                born_host,
                store_ms,
                store_host,
                reconsume_times,
                prepared_offset,
                len(body),
            ),
            body,
            topic_part,
            _length(len(properties)),
            properties,
        )
        entries.append(
            _new(
                DispatchEntry,
                (log_offset, size, topic, queue_id, queue_offset, tag_code, store_ms, keys, uniq_key, sys_flag,
                 prepared_offset),
            )
        )  # fmt: skip
        log_offset += size
    records = b"".join(parts)
    target[at : at + len(records)] = records
    for size in sizes:
        target[at + 4 : at + 8] = MAGIC_BYTES
        at += size
    return entries


def run_bounds(entries: bytes) -> tuple[int, int, int]:
    """Of consume-queue entries: where in the log the first record begins, where the last ends, the bytes of all."""
    sizes = [size for _, size, _ in _unpack_entries(entries)]
    (first,) = _offset(entries)
    (last,) = _offset(entries, len(entries) - _ENTRY_BYTES)
    return first, last + sizes[-1], sum(sizes)


def gather_records(window: memoryview, entries: bytes, first: int, total: int) -> bytes | None:
    """The records that entries point to, joined; None if one is not within `window`, which begins at `first`."""
    parts = []
    for log_offset, size, _ in _unpack_entries(entries):
        at = log_offset - first
        if at < 0 or size < 0 or at + size > len(window):
            return None
        parts.append(window[at : at + size])
    records = b"".join(parts)
    return records if len(records) == total else None


class QueueTail(ABC):
    """The end of a consume queue: what the hot path needs of it. `store.consume_queue` builds on it."""

    __slots__ = ("_due", "_tail", "max_offset")

    max_offset: int
    _due: int
    _tail: bytearray

    def put(self, queue_offset: int, log_offset: int, size: int, tag_code: int) -> bool:
        """Add the next entry; False if the queue has that offset already (dispatch may repeat itself)."""
        if queue_offset != self.max_offset and not self._move_to(queue_offset):
            return False
        self._tail += _pack_entry(log_offset, size, tag_code)
        self.max_offset = queue_offset + 1
        if queue_offset >= self._due:
            self._write_out_due()
        return True

    @abstractmethod
    def _move_to(self, offset: int) -> bool:
        """Make `offset` the next; False when the queue is past it."""

    @abstractmethod
    def _write_out_due(self) -> None:
        """The tail has grown to what is written at once."""
