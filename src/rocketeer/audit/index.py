"""Index files against the log: every key of every message is there and can be found, and no entry points nowhere.

A file by itself (`check_index_file`): its header's counts, and a way from a slot to every entry. Entries are in the
order of the log, so those of a chunk of the log lie side by side and must equal its keys (`compare_index`).
"""

import mmap
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rocketeer.audit.overview import StoreOverview
from rocketeer.audit.report import Findings
from rocketeer.model.offsets import LogOffset
from rocketeer.store.index_layout import ENTRY, HEADER, SLOT, IndexHeader, file_bytes

NO_KEY: Final = "key without its index entry"
NOWHERE: Final = "index entry points to no message with its key"
LOST_WAY: Final = "index entry that no slot leads to"
BAD_HEADER: Final = "index header disagrees with its file"
BAD_TIME: Final = "index entry has a wrong time"

DEFAULT_SLOTS: Final = 5_000_000
DEFAULT_ENTRIES: Final = 20_000_000
_GUESSED_BYTES_MAX: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class IndexPlace:
    """An index file: where its parts are, and which part of the log it is about."""

    path: str
    slots: int
    count: int
    """Number of entries; they are numbered from 1."""
    begin_ms: int
    low: LogOffset
    high: LogOffset
    """The smallest and the largest log offset."""
    in_order: bool


@dataclass(slots=True)
class IndexFileResult:
    place: IndexPlace | None
    entries: int
    lagging: int
    findings: Findings


@dataclass(slots=True)
class IndexCompared:
    keys: int = 0
    entries: int = 0
    lagging: int = 0
    doubled: int = 0


def index_paths(store: Path) -> list[Path]:
    folder = store / "index"
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if len(path.name) == 17 and path.name.isdigit())


def check_index_file(overview: StoreOverview, path: Path) -> IndexFileResult:
    """Header and ways of one file."""
    findings = Findings()
    name = f"index/{path.name}"
    raw = _mapped(path)
    header = IndexHeader.unpack(bytes(raw[: HEADER.size]))
    count = header.next_entry - 1
    if count == 0:
        return IndexFileResult(None, 0, 0, findings)
    slots_max = slots_of(raw, header)
    if slots_max is None:
        findings.add(
            BAD_HEADER, name, 0, "a first and last entry as the header says", f"{header} in {len(raw)} bytes"
        )
        return IndexFileResult(None, count, 0, findings)
    entries_at = HEADER.size + slots_max * SLOT.itemsize
    room = (len(raw) - entries_at) // ENTRY.itemsize - 1
    if count > room:
        findings.add(BAD_HEADER, name, 36, f"at most {room} entries", count)
        count = room
    entries = np.frombuffer(raw, ENTRY, count + 1, entries_at)
    slots = np.frombuffer(raw, SLOT, slots_max, HEADER.size).astype(np.int64)
    offsets = entries["log_offset"][1:].astype(np.int64)
    safe = _safe_count(overview, header, entries, offsets)
    _check_ways(name, entries, slots, safe, findings)
    if safe == count:
        _check_header(name, header, offsets, slots, findings)
    in_order = bool((offsets[1:] >= offsets[:-1]).all())
    place = IndexPlace(
        str(path),
        slots_max,
        count,
        header.begin_ms,
        LogOffset(int(offsets.min())),
        LogOffset(int(offsets.max())),
        in_order,
    )
    return IndexFileResult(place, count, count - safe, findings)


def _mapped(path: Path) -> Any:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        return mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else b""


def slots_of(raw: Any, header: IndexHeader) -> int | None:
    """How many slots the file was made with, which it does not say: the first and the last entry tell."""
    size = len(raw)

    def fits(slots: int) -> bool:
        at = HEADER.size + slots * SLOT.itemsize
        first, last = at + ENTRY.itemsize + 4, at + (header.next_entry - 1) * ENTRY.itemsize + 4
        if slots <= 0 or last + 8 > size:
            return False
        return (
            int.from_bytes(raw[first : first + 8], "big") == header.begin_offset
            and int.from_bytes(raw[last : last + 8], "big") == header.end_offset
        )

    if size == file_bytes(DEFAULT_SLOTS, DEFAULT_ENTRIES):
        return DEFAULT_SLOTS
    quarter, rest = divmod(size - HEADER.size, SLOT.itemsize + 4 * ENTRY.itemsize)
    if rest == 0 and quarter > 0:
        return quarter  # four entries for a slot, as by default
    if size > _GUESSED_BYTES_MAX:
        return None
    possible = range(1, (size - HEADER.size) // SLOT.itemsize)
    return next((slots for slots in possible if fits(slots)), None)


def _safe_count(
    overview: StoreOverview, header: IndexHeader, entries: NDArray[Any], offsets: NDArray[np.int64]
) -> int:
    """Entries before the part that may be half written."""
    if overview.exact:
        return len(offsets)
    times = header.begin_ms + entries["seconds"][1:].astype(np.int64) * 1000
    late = (offsets >= overview.index_tail.offset) | (times >= overview.index_tail.time_ms)
    return int(np.flatnonzero(late)[0]) if late.any() else len(offsets)


def _check_ways(
    name: str, entries: NDArray[Any], slots: NDArray[np.int64], safe: int, findings: Findings
) -> None:
    """Check that every entry can be reached from its slot over newer entries, in one way only.

    An entry's older one stands before it, in the same slot, and is nobody else's: so the entries form rows, each of
    one slot, and every entry is on the way if the first ones of the rows are the ones that the slots name.
    """
    numbers = np.arange(1, safe + 1)
    older = entries["older"][1 : safe + 1].astype(np.int64)
    places = entries["hash"].astype(np.int64) % len(slots)
    linked = older > 0
    bad = (older < 0) | (older >= numbers)
    bad[~bad & linked] |= places[older[~bad & linked]] != places[1 : safe + 1][~bad & linked]
    named = np.bincount(older[linked & ~bad], minlength=safe + 1)
    for number in (np.flatnonzero(bad) + 1)[:20].tolist():
        if findings.wants(LOST_WAY):
            findings.add(LOST_WAY, name, number, "an older entry of the same slot", int(older[number - 1]), 0)
    findings.more(LOST_WAY, int(np.count_nonzero(bad)))
    twice = np.flatnonzero(named > 1)
    if len(twice):
        findings.add(LOST_WAY, name, int(twice[0]), "one newer entry", int(named[twice[0]]), len(twice))
    # Entries that are in no other's way must be the newest of their slot.
    free = np.flatnonzero(named[1 : safe + 1] == 0) + 1
    newest = slots[places[free]]
    lost = free[(newest != free) & (newest <= safe)]
    if len(lost):
        slot = int(places[lost[0]])
        findings.add(
            LOST_WAY,
            name,
            int(lost[0]),
            f"slot {slot} to lead to entry {lost[0]}",
            int(slots[slot]),
            len(lost),
        )


def _check_header(
    name: str, header: IndexHeader, offsets: NDArray[np.int64], slots: NDArray[np.int64], findings: Findings
) -> None:
    said = {
        "begin offset": (header.begin_offset, int(offsets[0])),
        "end offset": (header.end_offset, int(offsets[-1])),
        "used slots": (header.used_slots, int(np.count_nonzero(slots))),
    }
    for what, (says, is_really) in said.items():
        if says != is_really:
            findings.add(BAD_HEADER, name, 0, f"{what} {is_really}", says)


# --- a chunk of the log against all files --------------------------------------------------------------


def compare_index(
    overview: StoreOverview,
    places: list[IndexPlace],
    low: LogOffset,
    high: LogOffset,
    keys: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    findings: Findings,
) -> IndexCompared:
    """`keys`: hash, log offset and store time of every key that messages in [low, high) of the log have."""
    hashes, offsets, times = keys
    found_hashes, found_offsets, found_times = entries_between(places, low, high)
    result = IndexCompared(len(hashes), len(found_hashes))
    if (
        len(hashes) == len(found_hashes)
        and (offsets == found_offsets).all()
        and (hashes == found_hashes).all()
    ):
        wrong = (found_times >= 0) & (np.abs(times - found_times) >= 2_000)
        for at in np.flatnonzero(wrong)[:20].tolist():
            log_offset = LogOffset(int(offsets[at]))
            file = _file_of(places, log_offset)
            findings.add(BAD_TIME, file, log_offset, f"{times[at]} ms", f"{found_times[at]} ms", 0)
        findings.more(BAD_TIME, int(np.count_nonzero(wrong)))
        return result
    wanted = Counter(zip(offsets.tolist(), hashes.tolist(), strict=True))
    there = Counter(zip(found_offsets.tolist(), found_hashes.tolist(), strict=True))
    stored_ms = dict(zip(offsets.tolist(), times.tolist(), strict=True))
    for (offset, hashed), count in sorted((wanted - there).items()):
        if overview.index_tail.covers(offset, stored_ms[offset]):
            result.lagging += count
            continue
        findings.add(
            NO_KEY, _file_of(places, offset), offset, f"an entry with key hash {hashed}", "none", count
        )
    for (offset, hashed), count in sorted((there - wanted).items()):
        if (offset, hashed) in wanted:  # after a crash RocketMQ may add a message's keys again
            result.doubled += count
            continue
        expected = f"a message at {offset} with a key of hash {hashed}"
        findings.add(NOWHERE, _file_of(places, offset), offset, expected, "none", count)
    return result


def entries_between(
    places: list[IndexPlace], low: LogOffset, high: LogOffset
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Key hash, log offset and time (-1: not told) of the entries that point to [low, high)."""
    parts = []
    for place in places:
        if place.high < low or place.low >= high:
            continue
        raw = _mapped(Path(place.path))
        entries = np.frombuffer(raw, ENTRY, place.count + 1, HEADER.size + place.slots * SLOT.itemsize)
        if place.in_order:
            begin = _bisect(entries, low, 1, place.count + 1)
            mine = entries[begin : _bisect(entries, high, begin, place.count + 1)]
            first = begin
        else:
            offsets = entries["log_offset"][1:]
            mine = entries[1:][(offsets >= low) & (offsets < high)]
            first = 1
        times = place.begin_ms + mine["seconds"].astype(np.int64) * 1000
        if len(times) and first == 1:
            times[0] = -1  # measured from the end of the file before
        parts.append((mine["hash"].astype(np.int64), mine["log_offset"].astype(np.int64), times))
    if not parts:
        none = np.empty(0, dtype=np.int64)
        return none, none, none
    hashes, offsets, stored = (np.concatenate(column) for column in zip(*parts, strict=True))
    return hashes, offsets, stored


def _bisect(entries: NDArray[Any], wanted: LogOffset, low: int, high: int) -> int:
    while low < high:
        middle = (low + high) // 2
        if int(entries["log_offset"][middle]) < wanted:
            low = middle + 1
        else:
            high = middle
    return low


def _file_of(places: list[IndexPlace], log_offset: LogOffset) -> str:
    found = next((place.path for place in places if place.low <= log_offset <= place.high), None)
    found = found or (places[-1].path if places else "index")
    return "index/" + Path(found).name if places else "index"
