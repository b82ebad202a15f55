"""The executor's side of `storePath`: records of a range straight from the mapped log, some MB at a time."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rocketeer.filter.tags import tag_subscription
from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.model.subscription import SUB_ALL
from rocketeer.record.vectorised import OffsetArray
from rocketeer.spark.source.losses import DataLost, Loss
from rocketeer.spark.source.planning import QueueRange
from rocketeer.spark.source.store_view import StorePlace, place_entries
from rocketeer.store.consume_queue_ext import ADDRESS_MAX
from rocketeer.store.store_files import LogFilesView, QueueFilesView

log = logging.getLogger(__name__)

BATCH_BYTES: Final = 6 << 20
_ENTRIES_AT_ONCE: Final = 65_536


def read_files(
    place: StorePlace, wanted: QueueRange, tags: str | None, fail_on_data_loss: bool
) -> Iterator[tuple[NDArray[np.uint8], OffsetArray]]:
    """(a segment's bytes, where in it the next messages are), in order."""
    store = Path(place.store)
    files = QueueFilesView(store, wanted.queue.topic, wanted.queue.queue_id)
    records = LogFilesView(store)
    codes = _codes(wanted.queue.topic, tags)
    at = wanted.begin
    while at < wanted.end:
        entries = place_entries(place, files, at, QueueOffset(min(wanted.end, at + _ENTRIES_AT_ONCE)))
        if not len(entries):
            _lost(Loss(wanted.queue, at, wanted.end, "the queue's files do not have them"), fail_on_data_loss)
            return
        in_tail = at >= place.tail_begin
        for base, part, first in _by_segment(records, entries):
            offsets = part["log_offset"].astype(np.int64) - base
            sizes = part["size"].astype(np.int64)
            good = records.heads_match(base, offsets, sizes)
            if not good.all():
                bad = np.flatnonzero(~good)
                begin = QueueOffset(at + first + int(bad[0]))
                why = "their records are not in the log (any more)"
                _lost(Loss(wanted.queue, begin, QueueOffset(begin + len(bad)), why), fail_on_data_loss)
            if codes is not None and not in_tail:
                good &= np.isin(part["tag_code"], codes) | (part["tag_code"] <= ADDRESS_MAX)
            yield from _pieces(records.view(base), offsets[good], sizes[good])
        at = QueueOffset(at + len(entries))


def _by_segment(
    records: LogFilesView, entries: NDArray[Any]
) -> Iterator[tuple[LogOffset, NDArray[Any], int]]:
    """(base, entries, index of the first) for each run of entries in one segment."""
    at = 0
    while at < len(entries):
        first = LogOffset(int(entries["log_offset"][at]))
        base = records.base_of(first)
        if base is None:  # deleted meanwhile: no file, no record
            base, end = first, at + 1
        else:
            following = records.next_base(base)
            rest = entries["log_offset"][at:]
            outside = np.flatnonzero(
                (rest < base) | (rest >= (following if following is not None else 1 << 62))
            )
            end = at + int(outside[0]) if len(outside) else len(entries)
        yield base, entries[at:end], at
        at = end


def _pieces(
    data: NDArray[np.uint8], offsets: OffsetArray, sizes: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.uint8], OffsetArray]]:
    """Cut so that each piece holds about BATCH_BYTES."""
    if not len(offsets):
        return
    groups = np.cumsum(sizes) // BATCH_BYTES
    cuts = np.flatnonzero(groups[1:] != groups[:-1]) + 1
    for part in np.split(offsets, cuts):
        yield data, part


def _codes(topic: str, tags: str | None) -> NDArray[np.int64] | None:
    if tags is None or tags == SUB_ALL:
        return None
    return np.array(sorted(tag_subscription(topic, tags).codes), dtype=np.int64)


def _lost(loss: Loss, fails: bool) -> None:
    if fails:
        raise DataLost([loss])
    log.warning("data lost: %s", loss)
