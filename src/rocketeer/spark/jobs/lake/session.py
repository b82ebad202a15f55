"""Writing to a lake: one writer at a time, batches are committed once."""

import contextlib
import fcntl
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocketeer.errors import RocketeerError
from rocketeer.model.queue import MessageQueue
from rocketeer.spark.jobs.lake.folder import Lake
from rocketeer.spark.jobs.lake.locations import LakeLocation, NoLake
from rocketeer.spark.jobs.lake.notes import META
from rocketeer.spark.jobs.lake.parquet import PENDING, ParquetLake
from rocketeer.spark.jobs.lake.state import DataFile, Range, with_ranges
from rocketeer.spark.jobs.lake.writer import LakeWriter, WriterTerms, files_of, summary_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class LakeLocked(RocketeerError):
    """Another job writes to the lake."""


class LakeSession:
    """The right to write to a lake. `with open_session(path) as lake: ...`"""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        if isinstance(lake.table, ParquetLake):
            lake.table.recover()
        self.ranges = lake.state().ranges

    def terms(self, terms: WriterTerms | None = None) -> WriterTerms:
        """How tasks write: files of a plain lake get their names later."""
        chosen = terms or WriterTerms()
        return replace(chosen, suffix=PENDING) if isinstance(self.lake.table, ParquetLake) else chosen

    def has(self, writer: str, batch: int) -> bool:
        """Whether that batch is in. Writers make their batches in order."""
        return batch <= self.lake.table.last_batch(writer)

    def append(
        self,
        writer: str,
        batch: int,
        files: Iterable[DataFile],
        ranges: Iterable[tuple[MessageQueue, Range]] = (),
    ) -> int | None:
        """Commit a batch: how many files it has; None if it is in already. One without files and ranges is none."""
        added = sorted(files, key=lambda file: file.path)
        new = list(ranges)
        if self.has(writer, batch):
            return None
        if added or new:
            known = with_ranges(self.ranges, new)
            self.lake.table.append(added, known, writer, batch)
            self.ranges = known
        return len(added)

    def append_frame(
        self, df: "DataFrame", writer: str, batch: int, terms: WriterTerms | None = None
    ) -> int | None:
        """Write a DataFrame with the lake's columns as one batch: for `foreachBatch` of any stream.

        `writer` names the stream (its query id): the same batch of it is stored once, however often it is tried.
        Ranges are not noted: only `archive` knows that a queue's messages are all there.
        """
        if self.has(writer, batch):
            return None
        from rocketeer.spark.source.columns import SCHEMA

        chosen = self.terms(terms)
        place = self.lake.place

        def write(batches: Iterator[Any]) -> Iterator[Any]:
            import pyarrow as pa

            target = LakeWriter(place, chosen)
            for rows in batches:
                if len(rows):
                    target.add(rows)
            yield pa.RecordBatch.from_pydict({"files": [summary_json(target.finish())]})

        rows = df.select(*SCHEMA.names).mapInArrow(write, "files string").collect()
        return self.append(writer, batch, [file for row in rows for file in files_of(row.files)])


@contextlib.contextmanager
def open_session(path: "str | Path", kind: str | None = None) -> Iterator[LakeSession]:
    """The lake, made if there is none, for one writer; LakeLocked if there is another.

    An object store has no locks: there, of two that commit the same batch one is refused.
    """
    place = LakeLocation.of(path)
    # Before anything is looked at: of two jobs that begin with an empty folder one makes the lake.
    with _locked(place) if place.is_local else contextlib.nullcontext():
        yield LakeSession(Lake.create(path, kind))


@contextlib.contextmanager
def _locked(place: LakeLocation) -> Iterator[None]:
    notes = place.path / META
    was_there = notes.exists()
    notes.mkdir(parents=True, exist_ok=True)
    with (notes / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # a dead process holds no lock
        except BlockingIOError:
            raise LakeLocked(f"another job is writing to the lake {place}: wait for it, or stop it") from None
        try:
            yield
        except NoLake:
            if not was_there:  # somebody else's folder stays as it was
                _remove_notes(notes)
            raise


def _remove_notes(notes: Path) -> None:
    with contextlib.suppress(OSError):
        (notes / "lock").unlink()
        notes.rmdir()
