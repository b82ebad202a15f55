"""Topics into a lake: each message once, whatever dies; small files become large ones; what is there can be continued."""

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, timedelta
from pathlib import Path
from threading import Barrier

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from rocketeer.errors import ConfigError, NoRoute
from rocketeer.model.queue import MessageQueue
from rocketeer.spark.failures import explain
from rocketeer.spark.jobs import archive, lake_offsets, read_lake
from rocketeer.spark.jobs.archive.command import Archived, ArchiveTerms
from rocketeer.spark.jobs.lake.delta import DeltaLake
from rocketeer.spark.jobs.lake.folder import Lake
from rocketeer.spark.jobs.lake.footers import all_parts
from rocketeer.spark.jobs.lake.locations import LakeDamaged, LakeLocation, NoLake
from rocketeer.spark.jobs.lake.session import LakeLocked, open_session
from rocketeer.spark.jobs.lake.state import Range
from rocketeer.spark.source.columns import SCHEMA

from ..conftest import Broker, numbers

pytestmark = pytest.mark.timeout(600)

SMALL = {"maxOffsetsPerTrigger": "100"}
CHECKSUM_SQL = "bit_xor(crc32(body) * (queueOffset % 2147483647 + 1))"


def data_files(lake: Path) -> list[str]:
    """What lies there, counted or not."""
    return list(LakeLocation.of(lake).data_files())


@pytest.fixture
def run(spark: SparkSession, broker: Broker, tmp_path: Path) -> Callable[..., Archived]:
    """`run(topic, ...)`: archive into `tmp_path / "lake"`."""

    def archived(*topics: str, **given: object) -> Archived:
        terms = ArchiveTerms(topics=topics, nameserver=broker.nameserver, **given)  # type: ignore[arg-type]
        return archive(spark, tmp_path / "lake", terms)

    return archived


def digest(frame: DataFrame) -> str:
    """Of every column of every row, in the order of the queues."""
    rows = frame.orderBy("topic", "brokerName", "queueId", "queueOffset").collect()
    return hashlib.sha256(repr([row.asDict(recursive=True) for row in rows]).encode()).hexdigest()


def test_a_lake_has_every_column_of_every_message(
    spark: SparkSession,
    broker: Broker,
    tmp_path: Path,
    run: Callable[..., Archived],
    read: Callable[..., DataFrame],
) -> None:
    topics = [broker.topic(), broker.topic(queues=2)]
    broker.fill(topics[0], 60)
    broker.fill(topics[1], 41, queues=2, keys="a b")
    done = run(*topics)
    assert (done.rows, done.commits) == (101, 1)
    lake = read_lake(spark, tmp_path / "lake")
    assert lake.schema == SCHEMA
    assert digest(lake) == digest(read(None, subscribe=",".join(topics)))
    assert numbers(read_lake(spark, tmp_path / "lake", topics=[topics[1]])) == list(range(41))
    assert lake_offsets(tmp_path / "lake")[MessageQueue(topics[0], "broker-a", 3)] == (Range(0, 15),)


def test_checksums_in_footers_are_those_spark_computes(
    spark: SparkSession, broker: Broker, tmp_path: Path, run: Callable[..., Archived]
) -> None:
    topic = broker.topic()
    broker.fill(topic, 50)
    run(topic)
    lake = Lake.open(tmp_path / "lake")
    found = {
        (part.broker, part.queue): (part.rows, part.body_bytes, part.checksum)
        for parts in all_parts(lake.place, lake.state().files.values()).values()
        for part in parts
    }
    rows = read_lake(spark, tmp_path / "lake").groupBy("brokerName", "queueId")
    sums = rows.agg(
        f.count("*").alias("n"), f.sum(f.length("body")).alias("size"), f.expr(CHECKSUM_SQL).alias("sum")
    )
    assert found == {(row.brokerName, row.queueId): (row.n, row.size, row["sum"]) for row in sums.collect()}


def test_another_run_adds_only_what_is_new_and_small_files_become_one(
    spark: SparkSession, broker: Broker, tmp_path: Path, run: Callable[..., Archived]
) -> None:
    topic = broker.topic()
    for begin in range(0, 400, 80):
        broker.fill(topic, 80, start=begin)
        done = run(topic, compact=begin == 320, options=SMALL)
        assert done.rows == 80
    assert done.compacted == 5, "one file of each run"
    folder = tmp_path / "lake"
    lake = Lake.open(folder)
    assert isinstance(lake.table, DeltaLake)
    assert len(lake.state().files) == 1
    assert len(data_files(folder)) == 6, "who reads the replaced ones may go on"
    assert numbers(read_lake(spark, folder)) == list(range(400))
    assert run(topic).rows == 0
    assert numbers(read_lake(spark, folder, version=2)) == list(range(160)), "as of the second run"
    assert lake.table.vacuum(keep_hours=0) == 5
    assert numbers(read_lake(spark, folder)) == list(range(400))
    with pytest.raises(LakeDamaged, match="files are missing"):
        read_lake(spark, folder, version=2)
    with pytest.raises(NoLake, match="cannot be read at version 99"):
        read_lake(spark, folder, version=99)


def test_a_batch_whose_end_spark_did_not_see_is_not_stored_again(
    spark: SparkSession, broker: Broker, tmp_path: Path, run: Callable[..., Archived]
) -> None:
    topic = broker.topic()
    broker.fill(topic, 300)
    run(topic, options=SMALL, compact=False)
    folder = tmp_path / "lake"
    (
        folder / "_rocketeer/checkpoint/commits/2"
    ).unlink()  # the lake's commit is there: a crash between the two
    assert run(topic, compact=False).rows == 0
    assert numbers(read_lake(spark, folder)) == list(range(300))


def test_files_without_a_commit_do_not_exist_and_are_vacuumed(
    spark: SparkSession, broker: Broker, tmp_path: Path, run: Callable[..., Archived]
) -> None:
    topic = broker.topic()
    broker.fill(topic, 300)
    run(topic, options=SMALL, compact=False)
    folder = tmp_path / "lake"
    before = set(data_files(folder))
    # A crash before the lake's commit: files, and nothing that names them.
    (folder / "_rocketeer/checkpoint/commits/2").unlink()
    (folder / f"_delta_log/{3:020d}.json").unlink()
    assert len(numbers(read_lake(spark, folder))) == 200
    assert run(topic, compact=False).rows == 100
    assert numbers(read_lake(spark, folder)) == list(range(300))
    assert len(data_files(folder)) > len(before), "they may be somebody's who writes at this moment"
    assert run(topic, compact=False, keep_hours=0).rows == 0
    after = set(data_files(folder))
    assert len(after) == len(before)
    assert after != before
    assert numbers(read_lake(spark, folder)) == list(range(300))


def test_a_lake_that_lost_its_checkpoint_goes_on_behind_what_it_has(
    spark: SparkSession, broker: Broker, tmp_path: Path, run: Callable[..., Archived]
) -> None:
    import shutil

    topic = broker.topic()
    broker.fill(topic, 120)
    run(topic)
    shutil.rmtree(tmp_path / "lake" / "_rocketeer" / "checkpoint")
    broker.fill(topic, 40, start=120)
    other = broker.topic()
    broker.fill(other, 10)
    assert run(topic, other).rows == 50
    assert numbers(read_lake(spark, tmp_path / "lake", topics=[topic])) == list(range(160))


def test_times_choose_messages(
    spark: SparkSession, broker: Broker, tmp_path: Path, run: Callable[..., Archived]
) -> None:
    topic = broker.topic()
    broker.fill(topic, 40)
    run(topic)
    stored = [
        row.storeTimestamp for row in read_lake(spark, tmp_path / "lake").select("storeTimestamp").collect()
    ]
    middle = sorted(stored)[20].astimezone(UTC)
    late = read_lake(spark, tmp_path / "lake", since=middle).count()
    early = read_lake(spark, tmp_path / "lake", until=middle).count()
    assert early + late == 40
    assert late == sum(time.astimezone(UTC) >= middle for time in stored)
    assert read_lake(spark, tmp_path / "lake", since=middle + timedelta(days=1)).count() == 0


def test_what_cannot_be_is_said_in_one_line(
    spark: SparkSession, broker: Broker, tmp_path: Path, run: Callable[..., Archived]
) -> None:
    with pytest.raises(ConfigError, match="one of them"):
        run("A", pattern="B")
    with pytest.raises(ConfigError, match="holds all messages"):
        run("A", options={"tags": "x"})
    with pytest.raises(NoRoute, match="no route to topic 'Nowhere'"):
        run("Nowhere")
    assert not (tmp_path / "lake").exists(), "no lake for nothing"
    topic = broker.topic()
    broker.fill(topic, 4)
    run(topic)
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine.txt").write_text("x")
    with pytest.raises(NoLake, match="not empty"):
        archive(spark, full, ArchiveTerms(topics=[topic], nameserver=broker.nameserver))
    with pytest.raises(NoLake, match="an object store that speaks S3"):
        read_lake(spark, "gs://bucket/lake")
    with pytest.raises(ConfigError, match="format 'iceberg': choose one of delta, parquet"):
        run(topic, kind="iceberg")
    with pytest.raises(ConfigError, match="is delta, not parquet: choose another folder"):
        run(topic, kind="parquet")
    with open_session(tmp_path / "lake"), pytest.raises(LakeLocked, match="another job is writing"):
        run(topic)


def test_of_two_jobs_that_begin_one_lake_at_the_same_moment_one_writes(tmp_path: Path) -> None:
    def outcomes(lake: Path, *kinds: str) -> list[str]:
        begin, tried = Barrier(len(kinds)), Barrier(len(kinds))

        def begin_a_lake(kind: str) -> str:
            begin.wait()
            try:
                with open_session(lake, kind):
                    tried.wait(60)
                    return "writes"
            except LakeLocked:
                tried.wait(60)
                return "waits"

        with ThreadPoolExecutor(len(kinds)) as pool:
            return sorted(pool.map(begin_a_lake, kinds))

    for number in range(5):
        assert outcomes(tmp_path / f"same-{number}", "delta", "delta") == ["waits", "writes"]
        assert outcomes(tmp_path / f"other-{number}", "delta", "parquet") == ["waits", "writes"]


def test_a_folder_of_somebody_else_stays_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(NoLake, match="not empty"), open_session(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_lost_file_is_missed(
    spark: SparkSession, broker: Broker, tmp_path: Path, run: Callable[..., Archived]
) -> None:
    topic = broker.topic()
    broker.fill(topic, 10)
    run(topic)
    (tmp_path / "lake" / data_files(tmp_path / "lake")[0]).unlink()
    with pytest.raises(LakeDamaged, match="1 files are missing"):
        read_lake(spark, tmp_path / "lake")


def test_a_lake_of_many_commits_keeps_its_ranges_and_batches(tmp_path: Path) -> None:
    """Delta-rs makes a checkpoint of the log every 100 commits, and cleans old ones away."""
    with open_session(tmp_path / "lake") as session:
        for batch in range(130):
            queue = MessageQueue(f"T{batch % 2}", "broker-a", 0)
            session.append("query", batch, [], [(queue, Range(batch, batch + 1))])
        wanted = session.ranges
    assert list((tmp_path / "lake" / "_delta_log").glob("*.checkpoint.parquet"))
    with open_session(tmp_path / "lake") as session:
        assert session.ranges == wanted
        assert session.has("query", 129)
        assert not session.has("query", 130)
        assert session.append("query", 129, [], []) is None


def test_what_was_lost_is_said_and_can_be_passed_over(
    spark: SparkSession, broker: Broker, tmp_path: Path, run: Callable[..., Archived]
) -> None:
    topic = broker.topic()
    broker.fill(topic, 40)
    run(topic)
    broker.delete(topic)
    broker.topic(name=topic)
    broker.fill(topic, 8)
    with pytest.raises(Exception, match="DataLost") as found:
        run(topic)
    assert "offsets went back from 10 to 2" in str(explain(found.value))
    assert run(topic, fail_on_data_loss=False).rows == 8
    broker.fill(topic, 8, start=8)
    assert run(topic).rows == 8


def test_any_dataframe_with_the_columns_can_be_appended_once(
    spark: SparkSession, broker: Broker, tmp_path: Path, read: Callable[..., DataFrame]
) -> None:
    topic = broker.topic()
    broker.fill(topic, 30)
    frame = read(None, subscribe=topic)
    for _ in range(2):
        with open_session(tmp_path / "lake") as session:
            session.append_frame(frame, "my-query", 0)
    assert digest(read_lake(spark, tmp_path / "lake")) == digest(frame)
