"""A slice of dispatched messages as columns, one row for every key: between `Index` and its files."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from rocketeer.model.offsets import LogOffset
from rocketeer.record.entry import DispatchEntry
from rocketeer.record.flags import TX_ROLLBACK
from rocketeer.store.index_hash import Hashes, hash_keys, positive
from rocketeer.store.index_twin import compiled


@dataclass(slots=True)
class IndexSlice:
    """Keys on their way into files; kept when the disk is full, so that none is written twice."""

    hashes: NDArray[np.int32]
    log_offsets: NDArray[np.int64]
    store_ms: NDArray[np.int64]
    runs: int
    end_offset: LogOffset
    done: int = 0


class PrefixHashes(dict[str, np.uint32]):
    """hashCode of "topic#", computed once per topic."""

    def __missing__(self, topic: str) -> np.uint32:
        value = np.uint32(hash_keys([f"{topic}#"], np.uint32(0))[0])
        self[topic] = value
        return value


def key_columns(
    entries: list[DispatchEntry], prefixes: PrefixHashes
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    """Key hash, log offset and store time of every key: of each message its uniq key, then its keys."""
    if compiled is not None:
        hashes, offsets, times = compiled.key_columns(entries)
        return (
            np.frombuffer(hashes, np.int32),
            np.frombuffer(offsets, np.int64),
            np.frombuffer(times, np.int64),
        )
    return plain_key_columns(entries, prefixes)


def plain_key_columns(
    entries: Sequence[DispatchEntry], prefixes: PrefixHashes
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    """`key_columns` without a compiler."""
    if not entries:
        return np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.int64)
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
        per_message = list(map(_keys_of, uniqs, keys, flags))
        texts = list(chain.from_iterable(per_message))
        counts = np.fromiter(map(len, per_message), np.int64, len(per_message))
    many = len(entries)
    prefix: np.uint32 | Hashes
    if topics.count(topics[0]) == many:
        prefix = prefixes[topics[0]]
    else:
        prefix = np.repeat(np.fromiter(map(prefixes.__getitem__, topics), np.uint32, many), counts)
    return (
        positive(hash_keys(texts, prefix)),
        np.repeat(np.fromiter(log_offsets, np.int64, many), counts),
        np.repeat(np.fromiter(store_ms, np.int64, many), counts),
    )


def _keys_of(uniq: str | None, words: str, flag: int) -> list[str]:
    if flag & TX_ROLLBACK == TX_ROLLBACK:
        return []
    keys = [word for word in words.split(" ") if word]
    return keys if uniq is None else [uniq, *keys]
