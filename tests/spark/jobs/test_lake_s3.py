"""A lake in an object store: archived, compacted, queried, audited and replayed as on disk. `make test-s3` runs these.

The server is moto's, a process that speaks S3 over HTTP, with conditional puts; Spark reads s3a:// with hadoop-aws.
"""

import os
import subprocess
import urllib.request
from collections.abc import Iterator

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from rocketeer.bench.servers import free_ports
from rocketeer.spark.jobs import archive, audit, lake_offsets, query_tables, read_lake, replay, stats
from rocketeer.spark.jobs.archive.command import ArchiveTerms
from rocketeer.spark.jobs.lake.delta import DeltaLake
from rocketeer.spark.jobs.lake.folder import Lake
from rocketeer.spark.jobs.lake.locations import LakeLocation, NoLake
from rocketeer.spark.jobs.replay.terms import ReplayTerms

from ..conftest import Broker, numbers

pytestmark = pytest.mark.skipif(
    "ROCKETEER_S3_JARS" not in os.environ, reason="make test-s3 fetches the 690 MB of jars that Spark needs"
)


@pytest.fixture(scope="module")
def bucket(spark: SparkSession) -> Iterator[str]:
    port, _ = free_ports()
    endpoint = f"http://127.0.0.1:{port}"
    command = [os.environ["ROCKETEER_S3_SERVER"], "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        Broker.until(lambda: _answers(f"{endpoint}/moto-api/"))
        urllib.request.urlopen(urllib.request.Request(f"{endpoint}/messages", method="PUT")).close()
        hadoop = spark._jsc.hadoopConfiguration()
        for name, value in {
            "endpoint": endpoint,
            "endpoint.region": "us-east-1",
            "access.key": "test",
            "secret.key": "test",
            "path.style.access": "true",
            "connection.ssl.enabled": "false",
        }.items():
            hadoop.set(f"fs.s3a.{name}", value)
        yield "s3a://messages"
    finally:
        server.terminate()
        server.wait()


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url).close()
    except OSError:
        return False
    return True


def test_a_lake_in_an_object_store_is_like_one_on_disk(
    spark: SparkSession, broker: Broker, bucket: str, tmp_path: object
) -> None:
    topic, target = broker.topic(), broker.topic()
    lake = f"{bucket}/lake"
    with pytest.raises(NoLake, match="is no lake"):
        read_lake(spark, lake)
    for run in range(5):
        broker.fill(topic, 40, start=run * 40)
        terms = ArchiveTerms(topics=[topic], nameserver=broker.nameserver, compact=run == 4)
        done = archive(spark, lake, terms)
        assert done.rows == 40
    assert done.compacted == 5
    assert numbers(read_lake(spark, lake)) == list(range(200))
    assert numbers(read_lake(spark, lake, version=2)) == list(range(80))
    assert sum(ranges[-1].end for ranges in lake_offsets(lake).values()) == 200
    place = LakeLocation.of(lake)
    assert DeltaTable(place.delta_uri, storage_options=place.delta_options).count() == 200, (
        "without a line of ours"
    )

    broker.fill(topic, 8, start=200)
    tables = query_tables(spark, [topic], nameserver=broker.nameserver, lake=lake)
    assert tables[topic].count() == 208, "the lake, and what only the broker has"
    assert stats(read_lake(spark, lake)).topics[0].measures.messages == 200
    report = audit(spark, lake=lake, nameserver=broker.nameserver)
    assert report.ok, report.table()
    assert report.facts["lake rows compared"] == 200
    again = ReplayTerms(
        nameserver=broker.nameserver, lake=lake, topics=[topic], to=target, state_folder=str(tmp_path)
    )
    assert replay(spark, again).sent == 200

    assert DeltaLake(place).vacuum(keep_hours=0) == 5
    assert set(place.data_files()) == set(Lake.open(lake).state().files)
    assert archive(spark, lake, ArchiveTerms(topics=[topic], nameserver=broker.nameserver)).rows == 8
    assert numbers(read_lake(spark, lake)) == list(range(208))
