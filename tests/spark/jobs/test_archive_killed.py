"""Archives that die or are stopped in the middle of a batch: started again, each message is in the lake once."""

import hashlib
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from rocketeer.spark.jobs import read_lake
from rocketeer.spark.jobs.lake.folder import Lake
from rocketeer.spark.jobs.lake.locations import LakeLocation
from support.spark_commands import NOISE, Driver, to_its_end

from ..conftest import Broker, numbers

pytestmark = pytest.mark.timeout(1200)
GOES_ON = "; the same command goes on where it stopped"


def digest(frame: DataFrame) -> str:
    """Of every column of every row, in the order of the queues."""
    rows = frame.orderBy("topic", "brokerName", "queueId", "queueOffset").collect()
    return hashlib.sha256(repr([row.asDict(recursive=True) for row in rows]).encode()).hexdigest()


def is_in_the_middle_of_a_batch(folder: Path) -> bool:
    """A batch was begun and not ended, and of its files there is one that no commit names. Not the first batch."""
    if not (folder / "_delta_log").exists():
        return False
    checkpoint = folder / "_rocketeer" / "checkpoint"
    begun, ended = (
        {int(path.name) for path in (checkpoint / log).glob("[0-9]*")} for log in ("offsets", "commits")
    )
    if len(ended) < 2 or not begun - ended:
        return False
    named = Lake.open(folder).state().files
    return any(name not in named for name in LakeLocation.of(folder).data_files())


@pytest.mark.parametrize("how", [Driver.kill, Driver.kill_driver], ids=["all", "the driver alone"])
def test_killed_in_the_middle_of_a_batch_it_loses_and_doubles_nothing(
    how: Callable[[Driver], None],
    spark: SparkSession,
    broker: Broker,
    tmp_path: Path,
    read: Callable[..., DataFrame],
) -> None:
    topic = broker.topic()
    broker.fill(topic, 2000)
    lake = tmp_path / "lake"
    words = ["archive", lake, "-t", topic, "-n", broker.nameserver, "--no-compact"]
    with Driver(*words, "--option", "maxOffsetsPerTrigger=100") as first:
        first.freeze_when(lambda: is_in_the_middle_of_a_batch(lake))
        how(first)
        assert 0 < Lake.open(lake).state().rows < 2000, "killed on the way"
        to_its_end(*words).fine()  # a JVM that lost its driver may still be about to notice
    assert digest(read_lake(spark, lake)) == digest(read(None, subscribe=topic))
    assert numbers(read_lake(spark, lake)) == list(range(2000))
    left = set(LakeLocation.of(lake).data_files()) - set(Lake.open(lake).state().files)
    assert left, "what the dead one wrote"
    to_its_end(*words, "--keep", "0s").fine()
    assert set(LakeLocation.of(lake).data_files()) == set(Lake.open(lake).state().files), (
        "a vacuum takes it away"
    )


def test_a_command_that_goes_on_for_ever_is_stopped_and_goes_on(
    spark: SparkSession, broker: Broker, tmp_path: Path, read: Callable[..., DataFrame]
) -> None:
    topic = broker.topic()
    broker.fill(topic, 1500)
    lake = tmp_path / "lake"
    words = ["archive", lake, "-t", topic, "-n", broker.nameserver]
    small = ["--forever", "--interval", "100 ms", "--option", "maxOffsetsPerTrigger=20", "--no-compact"]
    stops = ((signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated"))
    for number, code, word in stops:
        before = Lake.open(lake).state().rows if (lake / "_delta_log").exists() else 0
        with Driver(*words, *small) as driver:
            driver.freeze_when(
                lambda before=before: (
                    is_in_the_middle_of_a_batch(lake) and Lake.open(lake).state().rows > before
                )
            )
            said = driver.stop(number)
        assert said.code == code, said
        assert said.err.splitlines()[-1] == f"rocketeer: {word}{GOES_ON}"
        assert not NOISE.search(said.out + said.err), said.err
        assert before < Lake.open(lake).state().rows < 1500, "stopped on the way"
    broker.fill(topic, 20, start=1500)
    with Driver(*words, "--forever", "--interval", "1s") as driver:
        broker.until(lambda: Lake.open(lake).state().rows == 1520, 300)
        broker.fill(topic, 20, start=1520)
        broker.until(lambda: Lake.open(lake).state().rows == 1540, 100)
        said = driver.stop(signal.SIGINT)
    assert said.code == 130, said
    assert numbers(read_lake(spark, lake)) == list(range(1540))
    assert digest(read_lake(spark, lake)) == digest(read(None, subscribe=topic))
