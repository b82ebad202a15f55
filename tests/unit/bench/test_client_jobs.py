"""The client processes of the benchmark: whatever the library and the way to send, what they count is stored."""

import importlib.util
import subprocess
import sys
from collections.abc import Iterator

import msgspec
import pytest

from rocketeer.bench.clients.job import BATCH, ClientJob, Library, Mode, RunFigures
from rocketeer.bench.control import Control
from support.cluster import ServerCluster, running_cluster
from support.consuming import make_topic, until_sync

HAS_CPP = importlib.util.find_spec("rocketmq") is not None


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerCluster]:
    with running_cluster(tmp_path_factory.mktemp("jobs")) as running:
        yield running


def run(job: ClientJob) -> RunFigures:
    done = subprocess.run(
        [sys.executable, "-m", "rocketeer.bench.clients.worker", msgspec.json.encode(job).decode()],
        capture_output=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=RunFigures)


@pytest.mark.parametrize("mode", ["sync", "threads", "async", "oneway", "batch"])
@pytest.mark.parametrize(
    "library", ["ours", pytest.param("cpp", marks=pytest.mark.skipif(not HAS_CPP, reason="no C++ client"))]
)
def test_what_is_counted_is_stored(cluster: ServerCluster, library: Library, mode: Mode) -> None:
    topic = f"Jobs-{library}-{mode}"
    make_topic(cluster, topic, queues=1)
    job = ClientJob(
        library=library, mode=mode, namesrv=cluster.namesrv, topic=topic, group=f"G-{topic}", warmup_s=0.05,
        seconds=0.3, body_bytes=10, at_once=2,
    )  # fmt: skip
    figures = run(job)
    assert figures.sent > 0
    # On a busy machine the first send may outlast the run: then nothing was measured.
    assert 0 <= figures.messages <= figures.sent
    assert mode != "batch" or figures.sent % BATCH == figures.messages % BATCH == 0
    assert figures.p99_us >= figures.p50_us >= 0
    with Control(cluster.broker) as broker:
        if (library, mode) == ("cpp", "oneway"):  # it ends without waiting for what has not left yet
            assert 0 < broker.max_offset(topic, 0) <= figures.sent
        else:
            until_sync(lambda: broker.max_offset(topic, 0) == figures.sent, f"{figures.sent} stored")
