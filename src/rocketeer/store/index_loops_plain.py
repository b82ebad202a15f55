"""The inner loops of the index in numpy: what `_index_loops.pyx` does compiled."""

from functools import lru_cache
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from rocketeer.model.offsets import LogOffset
from rocketeer.record.entry import DispatchEntry
from rocketeer.record.flags import TX_ROLLBACK
from rocketeer.record.properties import keys_of
from rocketeer.store.hash_columns import Hashes, hash_keys, positive
from rocketeer.store.index_layout import ENTRY, SLOT

PAGE_BYTES = 4096

_SECONDS_MAX = 0x7FFFFFFF


def link_entries(
    slots: NDArray[np.uint8],
    hashes: NDArray[np.int32],
    log_offsets: NDArray[np.int64],
    store_ms: NDArray[np.int64],
    first: int,
    first_begin_ms: int,
    begin_ms: int,
) -> tuple[bytes, int]:
    """The bytes of the entries from number `first` on, and how many slots they are the first in.

    `slots` stays as it is: `fill_slots` follows when the entries are written. The first entry counts its seconds from
    `first_begin_ms`, the others from `begin_ms`.
    """
    count = len(hashes)
    table = slots.view(SLOT)
    places = hashes % np.int32(len(table))
    numbers = np.arange(first, first + count, dtype=np.int32)
    older = table[places].astype(np.int32)
    older[(older < 0) | (older > numbers)] = 0
    _link_within(places, numbers, older)
    batch = np.empty(count, ENTRY)
    batch["hash"] = hashes
    batch["log_offset"] = log_offsets
    batch["seconds"] = _seconds_since(begin_ms, store_ms)
    batch["seconds"][:1] = _seconds_since(first_begin_ms, store_ms[:1])
    batch["older"] = older
    return batch.tobytes(), count - int(np.count_nonzero(older))


def _seconds_since(begin_ms: int, store_ms: NDArray[np.int64]) -> NDArray[np.int64]:
    if begin_ms <= 0:
        return np.zeros(len(store_ms), np.int64)
    return np.minimum(np.maximum((store_ms - begin_ms) // 1000, 0), _SECONDS_MAX)


def _link_within(places: NDArray[np.int32], numbers: NDArray[np.int32], older: NDArray[np.int32]) -> None:
    """Where several entries of one batch fall into one slot, each points to the one before it."""
    in_order = np.sort(places)
    if not (in_order[1:] == in_order[:-1]).any():
        return
    order = np.argsort(places, kind="stable")
    same = places[order[1:]] == places[order[:-1]]
    older[order[1:][same]] = numbers[order[:-1][same]]


def fill_slots(
    slots: NDArray[np.uint8], hashes: NDArray[np.int32], first: int, changed: NDArray[np.uint8], slots_at: int
) -> None:
    """Let every slot point to its newest entry; mark the pages of the file they lie in, `slots_at` from its start."""
    table = slots.view(SLOT)
    places = hashes % np.int32(len(table))
    table[places] = np.arange(
        first, first + len(hashes), dtype=np.int32
    )  # of equal places the last one stays
    changed[(slots_at + places.astype(np.int64) * SLOT.itemsize) // PAGE_BYTES] = 1


def newest_in_slots(
    entries: NDArray[np.uint8], first: int, before: LogOffset, log_offset: LogOffset, slots: NDArray[np.int32]
) -> tuple[int, LogOffset]:
    """Let every slot point to its newest entry among the good ones of `entries`, which begin with number `first`.

    How many are good from the start on, and the log offset of the last of them: offsets only grow, from `before` on
    and below `log_offset`; zeros are no entry.
    """
    chunk = entries.view(ENTRY)
    offsets = chunk["log_offset"].astype(np.int64)
    bad = offsets >= log_offset
    bad[:1] |= offsets[:1] < before
    bad[1:] |= offsets[1:] < offsets[:-1]
    bad |= (offsets == 0) & (chunk["hash"] == 0) & (chunk["seconds"] == 0) & (chunk["older"] == 0)
    good = int(bad.argmax()) if bad.any() else len(bad)
    places = chunk["hash"][:good].astype(np.int32) % np.int32(len(slots))
    slots[places] = np.arange(first, first + good, dtype=np.int32)
    return good, LogOffset(int(offsets[good - 1])) if good else before


def key_columns(entries: list[DispatchEntry]) -> tuple[bytes, bytes, bytes]:
    """Hash, log offset and store time of every key, as the bytes of three arrays: of each message its uniq key, then
    its keys."""
    if not entries:
        return b"", b"", b""
    log_offsets, _, topics, _, _, _, store_ms, keys, uniqs, flags, _, _ = zip(*entries, strict=True)
    counts: int | NDArray[np.int64]
    usual = None not in uniqs and all(flag & TX_ROLLBACK != TX_ROLLBACK for flag in set(flags))
    if usual and "" not in keys and " " not in "".join(keys):  # what nearly all messages look like
        texts = list(chain.from_iterable(zip(uniqs, keys, strict=True)))
        counts = 2
    elif usual and not any(keys):
        texts = list(uniqs)
        counts = 1
    else:
        per_message = list(map(_indexed_keys, uniqs, keys, flags))
        texts = list(chain.from_iterable(per_message))
        counts = np.fromiter(map(len, per_message), np.int64, len(per_message))
    many = len(entries)
    prefix: np.uint32 | Hashes
    if topics.count(topics[0]) == many:
        prefix = _prefix_hash(topics[0])
    else:
        prefix = np.repeat(np.fromiter(map(_prefix_hash, topics), np.uint32, many), counts)
    return (
        positive(hash_keys(texts, prefix)).tobytes(),
        np.repeat(np.fromiter(log_offsets, np.int64, many), counts).tobytes(),
        np.repeat(np.fromiter(store_ms, np.int64, many), counts).tobytes(),
    )


@lru_cache(maxsize=1024)
def _prefix_hash(topic: str) -> np.uint32:
    """hashCode of "topic#"."""
    return np.uint32(hash_keys([f"{topic}#"], np.uint32(0))[0])


def _indexed_keys(uniq: str | None, words: str, flag: int) -> list[str]:
    return keys_of(uniq, words) if flag & TX_ROLLBACK != TX_ROLLBACK else []
