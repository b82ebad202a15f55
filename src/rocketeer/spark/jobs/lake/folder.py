"""A lake: messages as Parquet by topic and day, as a Delta table (`delta.py`) or as plain files (`parquet.py`).

    LAKE/topic=<quoted>/date=YYYY-MM-DD/*.parquet    the source's columns; the topic stands in the folder's name
    LAKE/_delta_log/                                 of a Delta table: which files count
    LAKE/_rocketeer/checkpoint/                      of the archive's stream
    LAKE/_rocketeer/lock                             held by whoever writes, where there is a file system

Nothing here needs Spark but `read_lake` and `read_files`.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from rocketeer.errors import ConfigError
from rocketeer.model.queue import MessageQueue
from rocketeer.spark.jobs.lake.delta import DeltaLake
from rocketeer.spark.jobs.lake.locations import LakeDamaged, LakeLocation, NoLake
from rocketeer.spark.jobs.lake.migration import is_old, migrate
from rocketeer.spark.jobs.lake.notes import META
from rocketeer.spark.jobs.lake.parquet import ParquetLake
from rocketeer.spark.jobs.lake.state import DataFile, LakeState, Range

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LakeTable: TypeAlias = DeltaLake | ParquetLake
Version: TypeAlias = "int | datetime | None"
FORMATS: Final = ("delta", "parquet")
ARCHIVE: Final = "checkpoint"
DEDUP: Final = "dedup-checkpoint"


@dataclass(frozen=True)
class Lake:
    """A lake's place and its table; every call looks at the files anew."""

    table: LakeTable

    @property
    def place(self) -> LakeLocation:
        return self.table.place

    @property
    def checkpoint(self) -> str:
        return self.place.spark_uri(f"{META}/{ARCHIVE}")

    @property
    def dedup_checkpoint(self) -> str:
        """Of a `dedup` that fills the lake; there is none where `archive` does."""
        return self.place.spark_uri(f"{META}/{DEDUP}")

    @property
    def is_deduplicated(self) -> bool:
        if self.place.is_local:  # it has the folder before its first start
            return (self.place.path / META / DEDUP).exists()
        return self.query_id(DEDUP) is not None

    def query_id(self, checkpoint: str) -> str | None:
        """The id of the stream that fills the lake, from its checkpoint; None before the first start."""
        name = f"{META}/{checkpoint}/metadata"
        if self.place.size(name) is None:
            return None
        with self.place.read(name) as file:
            return str(json.loads(file.read())["id"])

    @staticmethod
    def open(path: "str | Path") -> "Lake":
        """An existing lake; NoLake says why it is none."""
        place = LakeLocation.of(path)
        table = _found(place)
        if table is None:
            if is_old(place):
                raise NoLake(
                    f"{place} is a lake of format 1, from before Delta: run `rocketeer spark archive` on it once, "
                    "which makes it a Delta table in place"
                )
            what = "has neither a Delta table nor _rocketeer/lake.json"
            missing = place.is_local and not place.path.exists()
            raise NoLake(f"{place} is no lake: it {'does not exist' if missing else what}")
        table.check()
        return Lake(table)

    @staticmethod
    def create(path: "str | Path", kind: str | None = None) -> "Lake":
        """A new lake, or the one that is there; NoLake if the place holds something else. For a writer."""
        place = LakeLocation.of(path)
        plain = ParquetLake(place) if kind == "parquet" else None
        if is_old(place):
            migrate(place)
        table = _found(place)
        if table is not None:
            if kind is not None and kind != table.kind:
                raise ConfigError(f"the lake {place} is {table.kind}, not {kind}: choose another folder")
            table.check()
            return Lake(table)
        if place.has_files():
            raise NoLake(f"{place} is no lake, and not empty: choose another folder")
        table = plain or DeltaLake(place)
        table.create()
        return Lake(table)

    def state(self, version: Version = None) -> LakeState:
        return self.table.state(version)


def _found(place: LakeLocation) -> LakeTable | None:
    delta = DeltaLake(place)
    if delta.exists():
        return delta
    if place.is_local and not is_old(place):
        plain = ParquetLake(place)
        if plain.exists():
            return plain
    return None


# --- for readers --------------------------------------------------------------------------------------


def lake_offsets(path: "str | Path") -> dict[MessageQueue, tuple[Range, ...]]:
    """What is archived: for each queue its ranges of offsets, in order, none touching the next.

    More than one means that something between was lost before it could be archived.
    """
    return Lake.open(path).state().archived()


def chosen_files(
    state: LakeState,
    topics: Iterable[str] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> list[DataFile]:
    """The files that may have messages of the topics stored in [since, until)."""
    wanted = None if topics is None else set(topics)
    since_ms = None if since is None else since.timestamp() * 1000
    until_ms = None if until is None else until.timestamp() * 1000
    return [
        file
        for file in state.files.values()
        if (wanted is None or file.topic in wanted)
        and (since_ms is None or file.store_ms_max >= since_ms)
        and (until_ms is None or file.store_ms_min < until_ms)
    ]


def read_lake(
    spark: "SparkSession",
    path: "str | Path",
    *,
    topics: Iterable[str] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    version: Version = None,
) -> "DataFrame":
    """The messages of a lake as a DataFrame with the source's columns; `since` and `until` are times of storing.

    A time without a zone is this machine's. What is committed while the DataFrame is used is not in it. `version` is
    an older one, by its number or its time, as long as its files are there.
    """
    from pyspark.sql import functions as f

    lake = Lake.open(path)
    frame = read_files(spark, lake, chosen_files(lake.state(version), topics, since, until))
    if since is not None:
        frame = frame.where(f.col("storeTimestamp") >= f.lit(since))
    if until is not None:
        frame = frame.where(f.col("storeTimestamp") < f.lit(until))
    return frame


def read_files(spark: "SparkSession", lake: Lake, files: Iterable[DataFile]) -> "DataFrame":
    """Just these files of the lake."""
    from pyspark.sql.types import DateType, StructField, StructType

    from rocketeer.spark.source.columns import SCHEMA

    paths = [file.path for file in files]
    if not paths:
        return spark.createDataFrame([], SCHEMA)
    if lake.place.is_local:  # an object store is asked by Spark, which says the same
        missing = [path for path in paths if not (lake.place.path / path).exists()]
        if missing:
            raise LakeDamaged(f"{lake.place}: {len(missing)} files are missing, the first is {missing[0]}")
    schema = StructType([*SCHEMA.fields, StructField("date", DateType())])
    reader = spark.read.schema(schema).option("basePath", lake.place.root)
    return reader.parquet(*map(lake.place.spark_uri, paths)).select(*SCHEMA.names)
