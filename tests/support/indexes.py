"""Small indexes for tests: filled, asked, and compared with the reference on disk."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from rocketeer.record.entry import DispatchEntry
from rocketeer.store.index import Index
from support.clock import ManualClock
from support.index_reference import content_of, entry, reference_files

SLOTS, ENTRIES = 16, 40
START_MS = 1_700_000_000_000


def opened(folder: Path, *, slots: int = SLOTS, entries: int = ENTRIES) -> Index:
    return Index(folder / "index", slots, entries, ManualClock(START_MS))


def drain(index: Index) -> None:
    while index.flush_pending():
        pass
    assert index.pending_count == 0


def filled(folder: Path, messages: Sequence[DispatchEntry]) -> Index:
    index = opened(folder)
    for message in messages:
        index.add(message)
    drain(index)
    return index


def messages(count: int, start: int = 0) -> list[DispatchEntry]:
    return [
        entry(n * 100, keys=f"k{n} shared", uniq=f"U{n:06d}", store_ms=START_MS + n * 700)
        for n in range(start, start + count)
    ]


def write_slots(index: Index) -> list[str]:
    """What a checkpoint does; the paths it would sync."""
    changed, paths = index.take_unsynced()
    for slots in changed:
        slots.write()
    return paths


def contents(folder: Path) -> list[object]:
    return [content_of(path, SLOTS, ENTRIES) for path in sorted((folder / "index").glob("2*"))]


def expected(written: Sequence[DispatchEntry]) -> list[object]:
    return [file.content() for file in reference_files(written, SLOTS, ENTRIES)]


def query(index: Index, topic: str, key: str, begin_ms: int, end_ms: int, count_max: int) -> list[int]:
    """The newest log offsets that may hold the key."""
    steps = index.querying(topic, key, begin_ms, end_ms)
    return list(islice((offset for offset in steps if offset is not None), count_max))


def everything(index: Index, key: str) -> list[int]:
    return query(index, "T", key, 0, 1 << 60, 1000)
