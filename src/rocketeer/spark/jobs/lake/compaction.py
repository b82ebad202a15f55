"""Compaction: many small files of one topic and day become few large ones, as one commit. Rows and order are kept.

Tasks read and write files; a task checks that what it wrote has the rows and checksums of what it read.
"""

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketeer.spark.jobs.lake.folder import LakeDamaged
from rocketeer.spark.jobs.lake.session import LakeSession
from rocketeer.spark.jobs.lake.state import COMPACT, Commit, DataFile, QueuePart
from rocketeer.spark.jobs.lake.writer import OpenFile, WriterTerms, files_of, joined, summary_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES_MIN: Final = 4
"""So many small files of a day are worth rewriting; fewer wait for more."""
_READ_ROWS: Final = 8192


def plan_compaction(
    files: Iterable[DataFile], file_bytes: int, files_min: int = FILES_MIN
) -> list[tuple[DataFile, ...]]:
    """Groups of small files (under half of `file_bytes`) to be made one each, in the order of storing."""
    by_folder: dict[str, list[DataFile]] = {}
    for file in files:
        if file.bytes * 2 < file_bytes:
            by_folder.setdefault(str(Path(file.path).parent), []).append(file)
    groups: list[tuple[DataFile, ...]] = []
    for folder in sorted(by_folder):
        small = sorted(by_folder[folder], key=lambda file: (file.store_ms_min, file.store_ms_max, file.path))
        if len(small) < files_min:
            continue
        group: list[DataFile] = []
        size = 0
        for file in small:
            if group and size + file.bytes > file_bytes:
                groups.append(tuple(group))
                group, size = [], 0
            group.append(file)
            size += file.bytes
        groups.append(tuple(group))
    return [group for group in groups if len(group) > 1]


def compact(
    spark: "SparkSession",
    session: LakeSession,
    terms: WriterTerms | None = None,
    files_min: int = FILES_MIN,
) -> int:
    """Replace small files by large ones; how many were replaced. Old files stay a while for those who read them."""
    chosen = terms or WriterTerms()
    groups = plan_compaction(session.state.files.values(), chosen.file_bytes, files_min)
    if not groups:
        return 0
    lake = str(session.lake.path)

    def merge(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            for text in batch.column(0).to_pylist():
                merged = merge_files(lake, files_of(text), chosen)
                yield pa.RecordBatch.from_pydict({"files": [summary_json([merged])]})

    # A task for each group: what one reads is what another must not wait for.
    work = spark.createDataFrame([(summary_json(group),) for group in groups], "files string")
    rows = work.repartition(len(groups)).mapInArrow(merge, "files string").collect()
    added = tuple(sorted((file for row in rows for file in files_of(row.files)), key=lambda file: file.path))
    removed = tuple(file.path for group in groups for file in group)
    session.commit(Commit(session.state.next_number, COMPACT, time.time_ns() // 1_000_000, added, removed))
    return len(removed)


def merge_files(lake: str, files: Iterable[DataFile], terms: WriterTerms) -> DataFile:
    """One file with the rows of several of one folder; LakeDamaged if they are not what the commits say."""
    import pyarrow.parquet as pq

    given = list(files)
    target: OpenFile | None = None
    for file in given:
        with pq.ParquetFile(Path(lake) / file.path) as source:
            for batch in source.iter_batches(batch_size=_READ_ROWS):
                if target is None:
                    target = OpenFile(Path(lake), str(Path(file.path).parent), batch.schema, terms)
                target.add(batch)
    assert target is not None, "files of a lake have rows"
    merged = target.close()
    wanted: dict[tuple[str, int], QueuePart] = {}
    for part in (part for file in given for part in file.queues):
        place = (part.broker, part.queue)
        wanted[place] = joined(wanted[place], part) if place in wanted else part
    if {(part.broker, part.queue): part for part in merged.queues} != wanted:
        (Path(lake) / merged.path).unlink(missing_ok=True)
        names = json.dumps([asdict(file)["path"] for file in given])
        raise LakeDamaged(
            f"{lake}: these files do not hold what was written to them, rows or bodies differ: {names}"
        )
    return merged
