"""Effectively once: something dies in the middle, the job goes on or is started again: no duplicate, no hole."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.cluster import ServerCluster, running_cluster
from support.spark_sink import WAIT_S, Driver, bodies, make_topic, until

pytestmark = pytest.mark.timeout(2 * WAIT_S)

ROWS = 9000
EARLY = {"checkFirst": "false", "batchRows": "10"}
"""Rows are sent while later ones are still being made: so that much is stored when something dies."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerCluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def options(cluster: ServerCluster, topic: str, **more: str) -> dict[str, str]:
    once = {"nameserver": cluster.namesrv, "topic": topic, "delivery": "effectively-once"}
    return {**once, **EARLY, **more}


def body(number: int) -> bytes:
    return b"row-%d-%s" % (number, b"x" * 1000)


def each_once(count: int = ROWS) -> Counter[bytes]:
    return Counter(body(number) for number in range(count))


def job(cluster: ServerCluster, tmp_path: Path, topic: str, dies: str, **more: str) -> dict[str, Any]:
    return {
        "broker": cluster.broker, "rows": ROWS, "parts": [3], "at": 0, "dies": dies,
        "marker": str(tmp_path / "died"), "options": options(cluster, make_topic(cluster, topic), **more),
    }  # fmt: skip


def test_a_killed_worker_leaves_no_duplicate_and_no_hole(cluster: ServerCluster, tmp_path: Path) -> None:
    killed = job(cluster, tmp_path, "WorkerKilled", "worker", idColumn="id")
    Driver("write", tmp_path, master="local[2,3]", **killed).wait()
    assert (tmp_path / "died").exists()
    assert bodies(cluster.broker, "WorkerKilled") == each_once()


def test_without_an_id_column_equal_rows_are_all_there_and_none_twice(
    cluster: ServerCluster, tmp_path: Path
) -> None:
    killed = job(cluster, tmp_path, "EqualRows", "worker", writeId="equal-rows")
    # The same write again, cut into other partitions, adds nothing.
    again = killed | {"by_content": True, "parts": [3, 5]}
    Driver("write", tmp_path, master="local[2,3]", **again).wait()
    assert (tmp_path / "died").exists()
    assert bodies(cluster.broker, "EqualRows") == Counter(body(number // 3) for number in range(ROWS))


def test_a_killed_executor_leaves_no_duplicate_and_no_hole(cluster: ServerCluster, tmp_path: Path) -> None:
    killed = job(cluster, tmp_path, "ExecutorKilled", "executor", idColumn="id")
    Driver("write", tmp_path, master="local-cluster[2,1,1024]", **killed).wait()
    assert (tmp_path / "died").exists()
    assert bodies(cluster.broker, "ExecutorKilled") == each_once()


def test_a_killed_driver_goes_on_from_its_checkpoint(cluster: ServerCluster, tmp_path: Path) -> None:
    half = ROWS // 2
    files = tmp_path / "files"
    files.mkdir()
    for number in range(2):
        lines = [json.dumps({"id": row}) for row in range(number * half, (number + 1) * half)]
        (files / f"{number}.json").write_text("\n".join(lines))
    killed = job(cluster, tmp_path, "DriverKilled", "driver", idColumn="id") | {
        "master": "local[2]", "files": str(files), "checkpoint": str(tmp_path / "checkpoint"), "at": half,
    }  # fmt: skip
    with Driver("stream", tmp_path, **killed) as first:
        until((tmp_path / "died").exists, within_s=WAIT_S, what="the second batch")
        first.kill()
    assert half < sum(bodies(cluster.broker, "DriverKilled").values()) < ROWS, (
        "in the middle of the second batch"
    )
    make_topic(cluster, "DriverKilled", queues=7)  # which must not move what is sent again
    Driver("stream", tmp_path, **killed).wait()
    assert bodies(cluster.broker, "DriverKilled", queues=7) == each_once()
