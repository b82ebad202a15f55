"""The lake: messages as Parquet, by topic and day, and the commits that say which files count.

    LAKE/topic=<quoted>/date=YYYY-MM-DD/*.parquet    the source's columns; the topic stands in the folder's name
    LAKE/_rocketeer/lake.json                        format version and columns
    LAKE/_rocketeer/commits/<number>.json            files added and removed, ranges of queues, checksums
    LAKE/_rocketeer/states/<number>.json             the sum of all commits below, now and then; older commits may go
    LAKE/_rocketeer/checkpoint/                      of the archive's stream
    LAKE/_rocketeer/lock                             held by whoever writes

A file that no commit names does not exist: what a crashed batch left is ignored, and swept by the next writer. A
commit is one file, made whole and then linked into place, so it is there or not. Nothing here needs Spark but
`read_lake`.
"""

import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

from rocketeer.errors import RocketeerError
from rocketeer.model.queue import MessageQueue
from rocketeer.spark.jobs.lake.state import Commit, DataFile, LakeState, Range

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT: Final = 1
META: Final = "_rocketeer"
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
"""One slash is enough: of `s3a://bucket/lake` a Path makes `s3a:/bucket/lake`."""
CHECKSUM_SQL: Final = "bit_xor(crc32(body) * (queueOffset % 2147483647 + 1))"
"""A range's checksum, as Spark computes it over its rows; in any order, and ranges' sums may be xor-ed."""
_NUMBER: Final = "{:020d}.json"
_ATTEMPTS: Final = 3


class NoLake(RocketeerError):
    """The folder is no lake, or one this version cannot read."""


class LakeDamaged(RocketeerError):
    """A lake whose own files contradict each other."""


class LakeConflict(RocketeerError):
    """Somebody else wrote a commit at the same time."""


def partition_folder(topic: str, date: str) -> str:
    """`topic=Orders/date=2026-11-15`; any topic's name makes one folder."""
    return f"topic={quote(topic, safe='')}/date={date}"


def topic_of(path: str) -> str:
    """The topic of a data file's path inside the lake."""
    return unquote(path.split("/", 1)[0].removeprefix("topic="))


@dataclass(frozen=True)
class Lake:
    """A lake's folder; every call looks at the files anew."""

    path: Path

    @property
    def meta(self) -> Path:
        return self.path / META

    @property
    def commits(self) -> Path:
        return self.meta / "commits"

    @property
    def states(self) -> Path:
        return self.meta / "states"

    @property
    def checkpoint(self) -> Path:
        return self.meta / "checkpoint"

    @property
    def dedup_checkpoint(self) -> Path:
        """Of a `dedup` that fills the lake; there is none where `archive` does."""
        return self.meta / "dedup-checkpoint"

    @property
    def exists(self) -> bool:
        return (self.meta / "lake.json").exists()

    @staticmethod
    def open(path: "str | Path") -> "Lake":
        """An existing lake; NoLake says why it is none."""
        lake = Lake(local_path(path))
        if not lake.exists:
            what = "has no _rocketeer/lake.json" if lake.path.exists() else "does not exist"
            raise NoLake(f"{lake.path} is no lake: it {what}")
        lake._check()
        return lake

    @staticmethod
    def create(path: "str | Path") -> "Lake":
        """A new lake, or the one that is there; NoLake if the folder holds something else."""
        lake = Lake(local_path(path))
        if lake.exists:
            lake._check()
            return lake
        if lake.path.exists() and (
            not lake.path.is_dir() or any(p.name != META for p in lake.path.iterdir())
        ):
            raise NoLake(f"{lake.path} is no lake, and not empty: choose another folder")
        lake.commits.mkdir(parents=True, exist_ok=True)
        about = {"format": FORMAT, "columns": lake_columns(), "partitioned_by": ["topic", "date"]}
        write_whole(lake.meta / "lake.json", about, replace=True)
        return lake

    def _check(self) -> None:
        about = read_json(self.meta / "lake.json")
        if about.get("format") != FORMAT:
            raise NoLake(
                f"{self.path} is a lake of format {about.get('format')!r}; this version reads {FORMAT}"
            )
        theirs, ours = about.get("columns", {}), lake_columns()
        if theirs != ours:
            odd = sorted(name for name in {*theirs, *ours} if theirs.get(name) != ours.get(name))
            raise NoLake(f"{self.path} is a lake of another schema: it differs in {', '.join(odd)}")

    # --- commits ---------------------------------------------------------------------------------

    def numbers(self, begin: int = 0) -> list[int]:
        """The commits' numbers from `begin` on, in order, without a hole."""
        found = [number for number in _numbers(self.commits) if number >= begin]
        if found and found != list(range(begin, begin + len(found))):
            missing = sorted(set(range(begin, found[-1] + 1)) - set(found))
            raise LakeDamaged(f"{self.path}: commits {missing[:5]} are missing")
        return found

    def state(self) -> LakeState:
        """All that the commits say, the latest one included."""
        for attempt in range(_ATTEMPTS):
            try:
                state = self._saved_state()
                for number in self.numbers(state.next_number):
                    state.apply(self.commit_of(number))
                return state
            except FileNotFoundError as error:  # a writer has just pruned: there is a newer state
                if attempt == _ATTEMPTS - 1:
                    raise LakeDamaged(f"{self.path}: {error.filename} has gone while it was read") from None
        raise AssertionError("returned or raised")

    def _saved_state(self) -> LakeState:
        saved = _numbers(self.states)
        if not saved:
            return LakeState()
        path = self.states / _NUMBER.format(saved[-1])
        try:
            return LakeState.from_json(read_json(path))
        except (KeyError, TypeError, ValueError) as error:
            raise LakeDamaged(f"{path} is no state of a lake: {error}") from None

    def save_state(self, state: LakeState) -> None:
        """So that readers need not read all commits."""
        write_whole(self.states / _NUMBER.format(state.next_number), state.to_json(), replace=True)

    def prune(self) -> None:
        """Delete commits and states that two saved states stand for. For the one writer."""
        saved = _numbers(self.states)
        if len(saved) < 2:
            return
        for folder in (self.states, self.commits):
            for number in _numbers(folder):
                if number < saved[-2]:
                    (folder / _NUMBER.format(number)).unlink(missing_ok=True)

    def commit_of(self, number: int) -> Commit:
        path = self.commits / _NUMBER.format(number)
        try:
            return Commit.from_json(read_json(path))
        except (KeyError, TypeError, ValueError) as error:
            raise LakeDamaged(f"{path} is no commit: {error}") from None

    def commit(self, commit: Commit) -> None:
        """Make it count. All files it names must lie there, whole. LakeConflict if its number is taken."""
        path = self.commits / _NUMBER.format(commit.number)
        try:
            write_whole(path, commit.to_json(), replace=False)
        except FileExistsError:
            raise LakeConflict(
                f"{self.path}: somebody else made commit {commit.number}; is another job writing?"
            ) from None


def _numbers(folder: Path) -> list[int]:
    return sorted(int(path.stem) for path in folder.glob("[0-9]*.json"))


def lake_columns() -> dict[str, str]:
    """Names and Spark types of the columns, as lake.json keeps them."""
    from rocketeer.spark.source.columns import COLUMNS

    return {name: kind.simpleString() for name, kind in COLUMNS.items()}


def local_path(path: "str | Path") -> Path:
    """A folder on this machine, or on a file system all machines have mounted."""
    text = str(path)
    if text.startswith("file:"):
        text = text.removeprefix("file:").replace("//", "", 1) if text.startswith("file://") else text[5:]
    elif _URL.match(text):
        raise NoLake(f"{text}: a lake is a folder of a mounted file system, not a URL")
    return Path(text).absolute()


def read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except ValueError as error:
        raise LakeDamaged(f"{path} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise LakeDamaged(f"{path} is no JSON object")
    return value


def write_whole(path: Path, value: dict[str, Any], *, replace: bool) -> None:
    """Whole or not at all, also after a power cut; without `replace` FileExistsError if there is one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    waiting = path.with_name(f".{path.name}.{os.getpid()}")
    with waiting.open("w") as file:
        json.dump(value, file, separators=(",", ":"))
        file.flush()
        os.fsync(file.fileno())
    try:
        if replace:
            waiting.replace(path)
        else:
            os.link(waiting, path)
    finally:
        waiting.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


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
        if (wanted is None or topic_of(file.path) in wanted)
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
) -> "DataFrame":
    """The messages of a lake as a DataFrame with the source's columns; `since` and `until` are times of storing.

    A time without a zone is this machine's. What is committed while the DataFrame is used is not in it.
    """
    from pyspark.sql import functions as f

    lake = Lake.open(path)
    frame = read_files(spark, lake, chosen_files(lake.state(), topics, since, until))
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
    missing = [path for path in paths if not (lake.path / path).exists()]
    if missing:
        raise LakeDamaged(f"{lake.path}: {len(missing)} files are missing, the first is {missing[0]}")
    schema = StructType([*SCHEMA.fields, StructField("date", DateType())])
    reader = spark.read.schema(schema).option("basePath", str(lake.path))
    return reader.parquet(*[str(lake.path / path) for path in paths]).select(*SCHEMA.names)
