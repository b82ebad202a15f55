"""What an audit knows of a store before it reads it: files, sizes, how far queues and index were safe; and its tasks.

A store is looked at once, on the driver; the value goes to every task.
"""

import json
import mmap
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rocketeer.errors import StoreError
from rocketeer.model.offsets import LogOffset
from rocketeer.record.layout import MAGIC_BYTES
from rocketeer.store.base_names import base_name, bases_in
from rocketeer.store.checkpoint import Checkpoint, read_checkpoint

CHUNK_BYTES: Final = 64 << 20
NEVER: Final = LogOffset(1 << 62)


@dataclass(frozen=True, slots=True)
class Tail:
    """From where on derived files may lack what the log has; NEVER when they must be exact."""

    offset: LogOffset = NEVER
    time_ms: int = NEVER

    def covers(self, log_offset: LogOffset, store_ms: int) -> bool:
        return log_offset >= self.offset or store_ms >= self.time_ms


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """A file of the log. `size` is what it must cover; behind `data_end` it has only zeros."""

    base: LogOffset
    size: int
    data_end: int
    is_last: bool

    @property
    def name(self) -> str:
        return f"commitlog/{base_name(self.base)}"


@dataclass(frozen=True, slots=True)
class Chunk:
    """A task: the records that begin in [begin, end) of a segment. `known`: one begins at `begin`, or should."""

    segment: SegmentFacts
    begin: int
    end: int
    known: bool


@dataclass(frozen=True, slots=True)
class StoreOverview:
    """The store as it was when the audit began."""

    store: str
    exact: bool
    segments: tuple[SegmentFacts, ...]
    checkpoint: Checkpoint
    queue_tail: Tail
    index_tail: Tail
    topics: frozenset[str] | None
    """Topics that exist, by config/topics.json; None when it cannot be read."""
    delays_ms: tuple[int, ...] | None
    """Delays by level, when they are known."""

    @property
    def log_min(self) -> LogOffset:
        return self.segments[0].base if self.segments else LogOffset(0)

    def path(self, name: str) -> Path:
        return Path(self.store) / name

    def chunks(self, chunk_bytes: int = CHUNK_BYTES) -> list[Chunk]:
        found = []
        for segment in self.segments:
            for begin in range(0, max(segment.data_end, 1), chunk_bytes):
                end = min(begin + chunk_bytes, max(segment.data_end, 1))
                found.append(Chunk(segment, begin, end, known=begin == 0))
        return found


def inspect_store(
    store: Path, *, exact: bool | None = None, delays_ms: tuple[int, ...] | None = None
) -> StoreOverview:
    """`exact` None: exact unless the broker runs or died, which its file `abort` says."""
    folder = store / "commitlog"
    if not folder.is_dir():
        raise StoreError(f"{store} is not a store: it has no folder commitlog")
    checkpoint = read_checkpoint(store / "checkpoint")
    must_be_exact = not (store / "abort").exists() if exact is None else exact
    return StoreOverview(
        store=str(store),
        exact=must_be_exact,
        segments=segments_of(folder),
        checkpoint=checkpoint,
        queue_tail=Tail()
        if must_be_exact
        else _tail(checkpoint.dispatched_offset, checkpoint.recover_from_ms),
        index_tail=Tail()
        if must_be_exact
        else _tail(checkpoint.index_offset, checkpoint.recover_index_from_ms),
        topics=topics_of(store),
        delays_ms=delays_ms,
    )


def _tail(offset: LogOffset | None, time_ms: int) -> Tail:
    """Rocketeer notes offsets; RocketMQ only times."""
    return Tail(offset=offset) if offset is not None else Tail(time_ms=time_ms)


def segments_of(folder: Path) -> tuple[SegmentFacts, ...]:
    bases = bases_in(folder)
    while len(bases) > 1 and _is_unused(folder / base_name(bases[-1])):
        bases.pop()  # brokers make the next file before they need it
    found = []
    for at, base in enumerate(bases):
        try:
            file_bytes, data_end = _extent(folder / base_name(base))
        except FileNotFoundError:
            continue  # retention was quicker
        is_last = at == len(bases) - 1
        found.append(SegmentFacts(LogOffset(base), file_bytes, data_end, is_last))
    return tuple(found)


def _is_unused(path: Path) -> bool:
    """No record in it, not even behind bytes that are none."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            if not size:
                return True
            with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as raw:
                return raw[:8] == bytes(8) and raw.find(MAGIC_BYTES, 0, _extent(path)[1]) < 0
    except FileNotFoundError:
        return True


def _extent(path: Path) -> tuple[int, int]:
    """A file's size, and the end of its last part that is no hole."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        end = at = 0
        while at < size:
            try:
                data = os.lseek(file.fileno(), at, os.SEEK_DATA)
                at = end = os.lseek(file.fileno(), data, os.SEEK_HOLE)
            except OSError:  # nothing but holes from here
                break
        return size, min(end, size)


def topics_of(store: Path) -> frozenset[str] | None:
    try:
        table = json.loads((store / "config" / "topics.json").read_bytes())["topicConfigTable"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return frozenset(table)
