"""Writing to a lake: one writer at a time, what a crashed one left is swept, batches are committed once."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketeer.errors import RocketeerError
from rocketeer.model.queue import MessageQueue
from rocketeer.spark.jobs.lake.folder import META, Lake
from rocketeer.spark.jobs.lake.state import APPEND, Commit, DataFile, LakeState, Range, merged
from rocketeer.spark.jobs.lake.writer import LakeWriter, WriterTerms, files_of, summary_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEEP_REMOVED_S: Final = 3600
"""So long files stay that a compaction replaced: somebody may be reading them."""

STATE_EVERY: Final = 100
"""Commits between saved states."""


class LakeLocked(RocketeerError):
    """Another job writes to the lake."""


class LakeSession:
    """The right to write to a lake, and its state as of now. `with open_session(path) as lake: ...`"""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.state: LakeState = lake.state()

    def append(
        self,
        writer: str,
        batch: int,
        files: Iterable[DataFile],
        ranges: Iterable[tuple[MessageQueue, Range]] = (),
    ) -> Commit | None:
        """Commit a batch; None if it is in already. Batches without files and ranges leave no commit."""
        if self.state.has(writer, batch):
            return None
        by_queue: dict[MessageQueue, list[Range]] = {}
        for queue, found in ranges:
            by_queue.setdefault(queue, []).append(found)
        commit = Commit(
            self.state.next_number,
            APPEND,
            time.time_ns() // 1_000_000,
            tuple(sorted(files, key=lambda file: file.path)),
            ranges=tuple((queue, one) for queue in sorted(by_queue) for one in merged(by_queue[queue])),
            writer=writer,
            batch=batch,
        )
        if not commit.added and not commit.ranges:
            return commit
        self.commit(commit)
        return commit

    def append_frame(
        self, df: "DataFrame", writer: str, batch: int, terms: WriterTerms | None = None
    ) -> Commit | None:
        """Write a DataFrame with the lake's columns as one batch: for `foreachBatch` of any stream.

        `writer` names the stream (its query id): the same batch of it is stored once, however often it is tried.
        Ranges are not noted: only `archive` knows that a queue's messages are all there.
        """
        if self.state.has(writer, batch):
            return None
        from rocketeer.spark.source.columns import SCHEMA

        chosen = terms or WriterTerms()
        path = str(self.lake.path)

        def write(batches: Iterator[Any]) -> Iterator[Any]:
            import pyarrow as pa

            target = LakeWriter(path, chosen)
            for rows in batches:
                if len(rows):
                    target.add(rows)
            yield pa.RecordBatch.from_pydict({"files": [summary_json(target.finish())]})

        rows = df.select(*SCHEMA.names).mapInArrow(write, "files string").collect()
        return self.append(writer, batch, [file for row in rows for file in files_of(row.files)])

    def commit(self, commit: Commit) -> None:
        for folder in {(self.lake.path / file.path).parent for file in commit.added}:
            handle = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(handle)  # the names must be there when the commit is
            finally:
                os.close(handle)
        self.lake.commit(commit)
        self.state.apply(commit)
        if self.state.next_number % STATE_EVERY == 0:
            self.lake.save_state(self.state)
            self.lake.prune()

    def sweep(self, now_s: float | None = None) -> int:
        """Delete what no commit names, and what compactions replaced long ago; how many files."""
        limit_ms = ((time.time() if now_s is None else now_s) - KEEP_REMOVED_S) * 1000
        swept = 0
        for path in data_files(self.lake.path):
            name = path.relative_to(self.lake.path).as_posix()
            removed_ms = self.state.removed.get(name)
            if name in self.state.files or (removed_ms is not None and removed_ms > limit_ms):
                continue
            path.unlink(missing_ok=True)
            self.state.removed.pop(name, None)
            swept += 1
        return swept


def data_files(lake: Path) -> Iterator[Path]:
    """Every Parquet file that lies in the lake, counted or not."""
    for folder in sorted(lake.glob("topic=*")):
        yield from sorted(folder.glob("date=*/*.parquet"))


@contextlib.contextmanager
def open_session(path: "str | Path") -> Iterator[LakeSession]:
    """The lake, made if there is none, for one writer; LakeLocked if there is another. Sweeps it first."""
    lake = Lake.create(path)
    with (lake.meta / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # a dead process holds no lock
        except BlockingIOError:
            raise LakeLocked(
                f"another job is writing to the lake {lake.path}: wait for it, or stop it"
            ) from None
        session = LakeSession(lake)
        session.sweep()
        yield session


__all__ = ["META", "LakeLocked", "LakeSession", "data_files", "open_session"]
