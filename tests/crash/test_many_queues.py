"""Thousands of queues under a small limit of open files: all take messages, all survive a restart.

TOPICS=1000 FILES=1024 .venv/bin/pytest tests/crash/test_many_queues.py    is the long form.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketeer.bench.control import Control
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import Command, request
from support.cluster import TEST_CONF, ServerCluster, open_files, restart_broker
from support.raw_connection import RawConnection
from support.senders import pull_header, read_queue, send_header

TOPICS = int(os.environ.get("TOPICS", "200"))
FILES = int(os.environ.get("FILES", "256"))
QUEUES = 8
ROUNDS = 2


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ServerCluster]:
    with ServerCluster("ours", tmp_path, conf=TEST_CONF, files_max=FILES) as running:
        yield running


def everywhere(code: int, header: object, cluster: ServerCluster) -> Iterator[Command]:
    """The same question for every queue of every topic, many at a time."""
    with RawConnection(cluster.broker) as line:
        asked = [
            request(
                code, header(f"Topic{topic:04}", queue), b"%d:%d" % (topic, queue) if code == 310 else b""
            )
            for topic in range(TOPICS)
            for queue in range(QUEUES)
        ]
        yield from line.ask_all(asked)


@pytest.mark.timeout(300)
def test_every_queue_is_served_with_few_descriptors(cluster: ServerCluster) -> None:
    with Control(cluster.broker, timeout_s=60) as broker:
        for topic in range(TOPICS):
            broker.create_topic(f"Topic{topic:04}", queues=QUEUES)
    for _ in range(ROUNDS):
        for reply in everywhere(RequestCode.SEND_MESSAGE_V2, lambda t, q: send_header(t, q, ""), cluster):
            assert reply.code == 0, reply
        most = open_files(cluster.broker_process.pid)
        assert most < FILES
    for kill in (False, True):
        restart_broker(cluster, kill=kill)
        for number, reply in enumerate(
            everywhere(RequestCode.PULL_MESSAGE, lambda t, q: pull_header(t, q, 0), cluster)
        ):
            assert reply.code == 0, reply
            assert reply.ext["maxOffset"] == str(ROUNDS)
            assert reply.body.count(b"%d:%d" % divmod(number, QUEUES)) >= ROUNDS
        assert open_files(cluster.broker_process.pid) < FILES
    with Control(cluster.broker, timeout_s=60) as broker:
        last = read_queue(broker, f"Topic{TOPICS - 1:04}", QUEUES - 1)
    assert [message.body for message in last] == [b"%d:%d" % (TOPICS - 1, QUEUES - 1)] * ROUNDS
