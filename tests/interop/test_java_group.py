"""Stock clients and slaves of RocketMQ with a group of ours: a producer outlives the leader, a slave reads along.

Needs Java, Apache's jars (`make interop`) and an etcd.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketeer.bench.control import Control
from rocketeer.bench.groups import GroupCluster
from rocketeer.bench.servers import ApacheMissing, Slave, apache_lib
from rocketeer.protocol.codes import ResponseCode
from rocketeer.record.properties import decode_properties
from support.cluster import TEST_CONF
from support.grouped import QUEUES, TOPIC, Ledger, others, send
from support.needs_etcd import needs_etcd
from support.peers import java_peer
from support.replicas import log_files
from support.senders import read_topic, wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

ROUTES_S = 30
"""So often a stock client reads routes again; no sooner when a broker is gone."""


@pytest.fixture(autouse=True)
def programs() -> None:
    try:
        apache_lib()
    except ApacheMissing as missing:
        pytest.skip(str(missing))
    needs_etcd()


@pytest.fixture
def group(tmp_path: Path) -> Iterator[GroupCluster]:
    with GroupCluster(tmp_path, conf=TEST_CONF) as group:
        group.wait_until_in_sync()
        yield group


def test_a_stock_producer_goes_on_with_the_next_leader_when_it_reads_routes_again(
    group: GroupCluster, tmp_path: Path
) -> None:
    leader = group.wait_for_leader()
    with Control(leader.address) as broker:
        broker.create_topic(TOPIC, queues=QUEUES)
    java = java_peer(tmp_path)
    try:
        sending = java.start(
            "send", namesrv=group.namesrv, topic=TOPIC, count=1_000_000, pause_ms=10,
            poll_ms=ROUTES_S * 1000, keep_on=True,
        )  # fmt: skip
        sending.wait_for(lambda: len(sending.of("sent")) > 50, timeout_s=60, what="sends")
        leader.kill()
        killed_s, before = time.monotonic(), len(sending.of("sent"))
        now = group.wait_for_leader(other_than=leader)
        sending.wait_for(
            lambda: len(sending.of("sent")) > before + 50, timeout_s=ROUTES_S + 30, what="sends that go on"
        )
        print(f"a stock producer's pause: {time.monotonic() - killed_s:.1f} s")
    finally:
        java.stop_all()
    queues = read_topic(now.address, TOPIC, QUEUES)
    for event in sending.of("sent"):
        assert event["status"] == "SEND_OK"
        stored = queues[int(event["queue"])][int(event["offset"])]
        assert decode_properties(stored.properties)["UNIQ_KEY"] == event["id"], (
            "it is where it was acknowledged"
        )


def test_a_java_slave_reads_along_over_a_change_of_leader_and_never_counts(
    group: GroupCluster, tmp_path: Path
) -> None:
    ledger = Ledger()
    leader = group.wait_for_leader()
    slave = Slave("apache", tmp_path / "slave", group, broker_id=9, conf=TEST_CONF, heap="512m", ready_s=120)
    try:
        slave.start()
        with ledger.load(leader.address):
            pass
        wait_for(
            lambda: log_files(slave.store) == log_files(leader.store), timeout_s=90, what="the leader's log"
        )
        first, second = others(group, leader)
        leader.kill()
        now = group.wait_for_leader(other_than=leader)
        with ledger.load(now.address):
            pass
        wait_for(
            lambda: log_files(slave.store) == log_files(now.store), timeout_s=90, what="the next one's log"
        )
        (second if now is first else first).kill()
        wait_for(
            lambda: send(now.address, b"alone", timeout_s=10) == ResponseCode.SERVICE_NOT_AVAILABLE,
            what="a refusal: a leader with an observer is alone",
        )
    finally:
        slave.kill()
