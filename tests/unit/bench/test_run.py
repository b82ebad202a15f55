"""The load generator against a real broker: what it reports is what the broker has."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rocketeer.bench.control import Control
from rocketeer.bench.processes import anonymous_bytes, cpu_seconds
from rocketeer.bench.run import Measured
from rocketeer.bench.session import (
    BenchServer,
    LoadPlan,
    existing,
    prepare,
    run_batch,
    run_end_to_end,
    run_pull,
    run_send,
)
from support.cluster import ServerCluster, open_files, restart_broker, running_cluster

PLAN = LoadPlan(connections=3, in_flight=4, warmup_s=0.1, seconds=0.8, queues=4)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerCluster]:
    with running_cluster(tmp_path_factory.mktemp("bench")) as running:
        yield running


@pytest.fixture
def server(cluster: ServerCluster) -> BenchServer:
    return existing(cluster.broker, cluster.broker_process.pid)


def stored(server: BenchServer, plan: LoadPlan) -> int:
    target = prepare(server, plan)
    with Control(server.address) as control:
        return sum(
            control.max_offset(topic, queue) for topic in target.topics for queue in range(target.queues)
        )


def assert_sound(measured: Measured) -> None:
    assert measured.messages > 0
    assert measured.messages_per_s > 0
    assert (measured.refused, measured.mismatched, measured.unanswered) == (0, 0, 0)
    assert measured.lost_or_invented == 0
    assert 0 < measured.p50_us <= measured.p99_us <= measured.p999_us
    assert measured.server_cpu_s_per_million is not None


@pytest.mark.parametrize("processes", [1, 2])
def test_every_acknowledged_send_is_in_the_queues(server: BenchServer, processes: int) -> None:
    before = stored(server, PLAN)
    measured = run_send(server, replace(PLAN, processes=processes))
    assert_sound(measured)
    assert stored(server, PLAN) - before >= measured.messages


def test_a_batch_counts_as_32_messages(server: BenchServer) -> None:
    measured = run_batch(server, PLAN)
    assert_sound(measured)
    assert measured.messages % 32 == 0


def test_pulls_count_the_messages_they_bring(server: BenchServer) -> None:
    run_batch(server, PLAN)
    assert_sound(run_pull(server, PLAN))


def test_an_open_loop_sends_at_the_rate_it_was_told(server: BenchServer) -> None:
    measured = run_send(server, replace(PLAN, rate=500, seconds=2))
    assert_sound(measured)
    assert measured.rate == 500
    assert 2 * 500 * 0.5 < measured.messages < 2 * 500 * 1.5, "about as many, on a machine that stalls, too"
    assert measured.lateness_p99_us is not None


def test_end_to_end_sees_messages_arrive(server: BenchServer) -> None:
    assert_sound(run_end_to_end(server, replace(PLAN, connections=1, rate=300, seconds=1.5)))


def test_many_topics_are_all_written_to(server: BenchServer) -> None:
    plan = replace(PLAN, topics=20, queues=2, seconds=1)
    assert_sound(run_send(server, plan))
    target = prepare(server, plan)
    with Control(server.address) as control:
        assert all(control.max_offset(topic, 1) > 0 for topic in target.topics)


def test_a_process_is_measured_through_proc(cluster: ServerCluster) -> None:
    pid = cluster.broker_process.pid
    assert cpu_seconds(pid) > 0
    assert anonymous_bytes(pid) > 1_000_000
    assert open_files(pid) > 3


def test_a_broker_comes_back_on_its_ports_and_store_after_a_kill(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as cluster:
        server = existing(cluster.broker, None)
        run_send(server, PLAN)
        count = stored(server, PLAN)
        address = cluster.broker
        restart_broker(cluster, kill=True)
        assert cluster.broker == address
        assert stored(server, PLAN) == count
        assert cluster.stop_broker() == 0, "SIGTERM is a clean stop"
