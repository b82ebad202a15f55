"""Compaction: many small files of one topic and day become few large ones, as one commit. Rows and order are kept.

Tasks read and write files; a task checks that what it wrote has the rows and checksums of what it read.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketeer.spark.jobs.lake.delta import DeltaLake
from rocketeer.spark.jobs.lake.locations import LakeDamaged, LakeLocation
from rocketeer.spark.jobs.lake.session import LakeSession
from rocketeer.spark.jobs.lake.state import DataFile, QueuePart
from rocketeer.spark.jobs.lake.writer import (
    OpenLakeFile,
    WriterTerms,
    files_of,
    joined,
    parts_of,
    summary_json,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES_MIN: Final = 4
"""Fewest small files of a day that are worth rewriting; fewer wait for more."""
_READ_ROWS: Final = 8192


def plan_compaction(files: Iterable[DataFile], file_bytes: int) -> list[tuple[DataFile, ...]]:
    """Groups of small files (under half of `file_bytes`) to be made one each, in the order of storing."""
    by_folder: dict[str, list[DataFile]] = {}
    for file in files:
        if file.bytes * 2 < file_bytes:
            by_folder.setdefault(str(Path(file.path).parent), []).append(file)
    groups: list[tuple[DataFile, ...]] = []
    for folder in sorted(by_folder):
        small = sorted(by_folder[folder], key=lambda file: (file.store_ms_min, file.store_ms_max, file.path))
        if len(small) < FILES_MIN:
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


def compact(spark: "SparkSession", session: LakeSession, terms: WriterTerms | None = None) -> int:
    """Replace small files by large ones; how many were replaced. Plain Parquet has no way to: 0.

    Old files stay for those who read an older version, until a vacuum.
    """
    table = session.lake.table
    if not isinstance(table, DeltaLake):
        return 0
    chosen = session.terms(terms)
    groups = plan_compaction(table.state().files.values(), chosen.file_bytes)
    if not groups:
        return 0
    place = session.lake.place

    def merge(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            for text in batch.column(0).to_pylist():
                merged = merge_files(place, files_of(text), chosen)
                yield pa.RecordBatch.from_pydict({"files": [summary_json([merged])]})

    # A task for each group: what one reads is what another must not wait for.
    work = spark.createDataFrame([(summary_json(group),) for group in groups], "files string")
    rows = work.repartition(len(groups)).mapInArrow(merge, "files string").collect()
    added = sorted((file for row in rows for file in files_of(row.files)), key=lambda file: file.path)
    removed = [file for group in groups for file in group]
    table.replace(added, removed, session.ranges)
    return len(removed)


def merge_files(place: LakeLocation, files: Iterable[DataFile], terms: WriterTerms) -> DataFile:
    """One file with the rows of several of one folder; LakeDamaged if they are not what was written to them."""
    import pyarrow.parquet as pq

    given = list(files)
    target: OpenLakeFile | None = None
    wanted: dict[tuple[str, int], QueuePart] = {}
    for file in given:
        with (
            place.read(file.path) as opened,
            pq.ParquetFile(opened, page_checksum_verification=True) as source,
        ):
            rows = source.metadata.num_rows
            if rows != file.rows:
                raise LakeDamaged(f"{place}: {file.path} has {rows} rows, and its commit says {file.rows}")
            for part in parts_of(source.metadata) or []:
                where = (part.broker, part.queue)
                wanted[where] = joined(wanted[where], part) if where in wanted else part
            for batch in source.iter_batches(batch_size=_READ_ROWS):
                if target is None:
                    target = OpenLakeFile(place, str(Path(file.path).parent), batch.schema, terms)
                target.add(batch)
    assert target is not None, "files of a lake have rows"
    merged = target.close()
    with place.read(merged.path) as opened:
        made = {(part.broker, part.queue): part for part in parts_of(pq.read_metadata(opened)) or []}
    # Files from before Delta say nothing of their queues in their footers: then only rows are compared.
    known = sum(part.rows for part in wanted.values()) == merged.rows
    if merged.rows != sum(file.rows for file in given) or (known and made != wanted):
        place.delete(merged.path)
        names = json.dumps([file.path for file in given])
        raise LakeDamaged(
            f"{place}: these files do not hold what was written to them, rows or bodies differ: {names}"
        )
    return merged
