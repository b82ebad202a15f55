"""Lakes that others read: as a Delta table by tools that know nothing of us, as plain Parquet, from before Delta."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pytest
from deltalake import DeltaTable
from deltalake.schema import Field, PrimitiveType
from pyspark.sql import DataFrame, SparkSession

from rocketeer.errors import ConfigError
from rocketeer.model.queue import MessageQueue
from rocketeer.spark.jobs import archive, audit, lake_offsets, query_tables, read_lake
from rocketeer.spark.jobs.archive.command import ArchiveTerms
from rocketeer.spark.jobs.lake.delta import DeltaLake
from rocketeer.spark.jobs.lake.folder import Lake
from rocketeer.spark.jobs.lake.locations import LakeLocation, NoLake
from rocketeer.spark.jobs.lake.session import open_session
from rocketeer.spark.jobs.lake.state import Range

from ..conftest import Broker, numbers

SMALL = {"maxOffsetsPerTrigger": "50"}
OLD_LAKE = Path(__file__).parent / "lake_format_1"
RUNS = 5
PER_RUN = 40


def duck_delta() -> duckdb.DuckDBPyConnection:
    """DuckDB with its own reader of Delta, which comes from PyPI here: its usual place is a download."""
    import duckdb_extension_delta

    [extension] = Path(duckdb_extension_delta.__file__).parent.glob("extensions/*/*.duckdb_extension")
    connection = duckdb.connect()
    connection.execute(f"LOAD '{extension}'")
    return connection


@pytest.fixture(scope="module")
def filled(spark: SparkSession, broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A lake of several runs, then compacted: most of its files are replaced ones. And its topic."""
    folder = tmp_path_factory.mktemp("formats") / "lake"
    topic = broker.topic(name="Read%25ers|x")  # a name that must be quoted in paths
    for run in range(RUNS):
        broker.fill(topic, PER_RUN, start=run * PER_RUN)
        terms = ArchiveTerms(topics=[topic], nameserver=broker.nameserver, compact=run == RUNS - 1)
        done = archive(spark, folder, terms)
    assert done.compacted == RUNS
    return folder, topic


def test_tools_that_know_nothing_of_us_count_each_message_once(
    spark: SparkSession, filled: tuple[Path, str]
) -> None:
    folder, topic = filled
    wanted = RUNS * PER_RUN
    sql = f"SELECT count(*), count(DISTINCT body), any_value(topic) FROM delta_scan('{folder}')"
    assert duck_delta().execute(sql).fetchone() == (wanted, wanted, topic)
    frame = DeltaTable(folder).to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert (len(frame), frame["body"].nunique(), set(frame["topic"])) == (wanted, wanted, {topic})
    polars = pl.read_delta(str(folder))
    assert (polars.height, polars["body"].n_unique(), polars["topic"].unique().to_list()) == (
        wanted,
        wanted,
        [topic],
    )
    files = DeltaTable(folder).file_uris()
    assert spark.read.parquet(*files).count() == wanted, "Spark without Delta, given the table's files"


def test_older_versions_can_be_read_and_a_vacuum_ends_that(
    spark: SparkSession, filled: tuple[Path, str], tmp_path: Path
) -> None:
    folder, topic = filled
    copy = tmp_path / "lake"
    shutil.copytree(folder, copy)
    state = Lake.open(copy).state(3)
    assert state.rows == 3 * PER_RUN
    assert state.ends() == {MessageQueue(topic, "broker-a", queue): 3 * PER_RUN // 4 for queue in range(4)}
    assert DeltaTable(copy, version=3).count() == 3 * PER_RUN
    tables = query_tables(spark, [topic], lake=copy, lake_version=2)
    assert tables[topic].count() == 2 * PER_RUN
    assert DeltaLake(LakeLocation.of(copy)).vacuum(keep_hours=0) == RUNS
    assert numbers(read_lake(spark, copy)) == list(range(RUNS * PER_RUN))


def test_what_others_do_to_the_table_is_respected(
    spark: SparkSession, broker: Broker, filled: tuple[Path, str], tmp_path: Path
) -> None:
    """Another tool compacts, adds a column and rows; the archive goes on."""
    folder, topic = filled
    copy = tmp_path / "lake"
    shutil.copytree(folder, copy)
    broker.fill(topic, 8, start=RUNS * PER_RUN)
    table = DeltaTable(copy)
    table.alter.add_columns([Field("note", PrimitiveType("string"))])
    table.optimize.compact()
    assert archive(spark, copy, ArchiveTerms(topics=[topic], nameserver=broker.nameserver)).rows == 8
    assert numbers(read_lake(spark, copy)) == list(range(RUNS * PER_RUN + 8))
    report = audit(spark, lake=copy, nameserver=broker.nameserver)
    assert report.ok, report.table()
    found = duck_delta().execute(f"SELECT count(*), count(note) FROM delta_scan('{copy}')").fetchone()
    assert found == (RUNS * PER_RUN + 8, 0)


def test_columns_that_came_later_are_added_and_older_rows_have_none(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic = broker.topic(1)
    broker.fill(topic, 5, queues=1)
    folder = tmp_path / "lake"
    archive(spark, folder, ArchiveTerms(topics=[topic], nameserver=broker.nameserver))
    # As if a version of the package without the column reconsumeTimes had made it.
    log = folder / "_delta_log" / f"{0:020d}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "metaData" in line:
            schema = json.loads(line["metaData"]["schemaString"])
            schema["fields"] = [field for field in schema["fields"] if field["name"] != "reconsumeTimes"]
            line["metaData"]["schemaString"] = json.dumps(schema)
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert "reconsumeTimes" not in {field.name for field in DeltaTable(folder).schema().fields}
    broker.fill(topic, 5, start=5, queues=1)
    assert archive(spark, folder, ArchiveTerms(topics=[topic], nameserver=broker.nameserver)).rows == 5
    assert "reconsumeTimes" in {field.name for field in DeltaTable(folder).schema().fields}
    assert numbers(read_lake(spark, folder)) == list(range(10))


def test_a_table_with_features_nobody_here_knows_is_refused(filled: tuple[Path, str], tmp_path: Path) -> None:
    """Deletion vectors: rows of a file that do not count any more. Reading plain files would bring them back."""
    copy = tmp_path / "lake"
    shutil.copytree(filled[0], copy)
    log = copy / "_delta_log" / f"{DeltaTable(copy).version() + 1:020d}.json"
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    log.write_text(
        json.dumps({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}) + "\n"
    )
    with pytest.raises(NoLake, match="features that are not known here: deletionVectors"):
        Lake.open(copy)


def test_plain_parquet_is_read_by_everybody_at_every_moment_and_no_file_ever_goes(
    spark: SparkSession, broker: Broker, tmp_path: Path, read: Callable[..., DataFrame]
) -> None:
    topic = broker.topic()
    folder = tmp_path / "lake"
    pattern = f"{folder}/**/*.parquet"
    seen: set[str] = set()
    for run in range(4):
        broker.fill(topic, 60, start=run * 60)
        terms = ArchiveTerms(topics=[topic], nameserver=broker.nameserver, kind="parquet", options=SMALL)
        done = archive(spark, folder, terms)
        assert (done.rows, done.compacted) == (60, 0)
        wanted = (run + 1) * 60
        assert duckdb.sql(f"SELECT count(*), count(DISTINCT body) FROM '{pattern}'").fetchone() == (
            wanted,
            wanted,
        )
        assert len(pd.read_parquet(folder)) == pl.read_parquet(pattern).height == wanted
        assert spark.read.parquet(str(folder)).count() == wanted
        files = set(LakeLocation.of(folder).data_files())
        assert seen < files, "none has gone"
        seen = files
    assert numbers(read_lake(spark, folder)) == list(range(240))
    assert lake_offsets(folder)[MessageQueue(topic, "broker-a", 0)] == (Range(0, 60),)
    report = audit(spark, lake=folder, nameserver=broker.nameserver)
    assert report.ok, report.table()
    assert report.facts["lake rows compared"] == 240
    with pytest.raises(ConfigError, match="plain Parquet, which has no older versions"):
        read_lake(spark, folder, version=1)
    with pytest.raises(ConfigError, match="is parquet, not delta"):
        archive(spark, folder, ArchiveTerms(topics=[topic], nameserver=broker.nameserver, kind="delta"))
    with pytest.raises(NoLake, match="plain Parquet needs files that can be renamed"):
        archive(
            spark, "s3a://b/x", ArchiveTerms(topics=[topic], nameserver=broker.nameserver, kind="parquet")
        )


def test_a_plain_batch_interrupted_while_its_files_get_their_names_is_finished(
    spark: SparkSession,
    broker: Broker,
    tmp_path: Path,
    read: Callable[..., DataFrame],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topics = [broker.topic(), broker.topic()]
    for topic in topics:
        broker.fill(topic, 20)
    frame = read(None, subscribe=",".join(topics))
    folder = tmp_path / "lake"
    names = iter(range(1))

    def rename_once(self: Path, target: Path) -> Path:
        next(names)  # StopIteration: killed
        return real(self, target)

    real = Path.rename
    monkeypatch.setattr(Path, "rename", rename_once)
    with open_session(folder, "parquet") as session, pytest.raises(StopIteration):
        session.append_frame(frame.repartition(1), "query", 0)
    monkeypatch.undo()
    assert len(list(LakeLocation.of(folder).data_files())) == 1, "in the middle"
    with open_session(folder) as session:
        assert session.has("query", 0)
        assert session.append_frame(frame, "query", 0) is None
    assert read_lake(spark, folder).count() == 40
    assert not list(folder.glob("**/*.pending"))


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A lake that the code before Delta made: 31 messages of the topic Old, six runs, one compaction."""
    shutil.copytree(OLD_LAKE, tmp_path / "old")
    return tmp_path / "old"


def test_a_lake_from_before_delta_is_refused_by_readers_and_migrated_by_archive(
    spark: SparkSession, broker: Broker, old: Path
) -> None:
    with pytest.raises(
        NoLake, match="is a lake of format 1, from before Delta: run `rocketeer spark archive`"
    ):
        read_lake(spark, old)
    with open_session(old) as session:
        ends = {queue.queue_id: ranges for queue, ranges in session.ranges.items()}
    assert sum(ranges[-1].end for ranges in ends.values()) == 31
    assert sorted(path.name for path in (old / "_rocketeer").iterdir()) == ["checkpoint", "lock"]
    bodies = sorted(bytes(row.body) for row in read_lake(spark, old).collect())
    assert bodies == sorted([b"x", *(str(number).encode() for number in range(30))])
    assert DeltaTable(old).count() == 31
    assert audit(spark, lake=old).ok
    query = json.loads((old / "_rocketeer/checkpoint/metadata").read_text())["id"]
    assert DeltaTable(old).transaction_version(query) == 5, "the batches that are in"
    # A topic of the same name that has more: the checkpoint goes on where it was.
    broker.topic(4, name="Old")
    for queue, [*_, last] in ends.items():
        for _ in range(last.end + (queue == 0)):
            broker.producer.send(_message(queue), queue=MessageQueue("Old", "broker-a", queue))
    done = archive(spark, old, ArchiveTerms(topics=["Old"], nameserver=broker.nameserver))
    assert done.rows == 1
    assert DeltaTable(old).count() == 32


def test_a_migration_that_was_interrupted_goes_on(spark: SparkSession, old: Path) -> None:
    from rocketeer.spark.jobs.lake import migration

    place = LakeLocation.of(old)
    found = migration._read(place, old / "_rocketeer")
    DeltaLake(place).adopt(found.files.values(), found.ranges, found.last_batch)  # and then it died
    with open_session(old):
        pass
    assert not migration.is_old(place)
    assert read_lake(spark, old).count() == 31


def _message(queue: int) -> Any:
    from rocketeer import Message

    return Message("Old", f"new {queue}".encode())
