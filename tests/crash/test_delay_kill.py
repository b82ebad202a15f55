"""kill -9 of the broker while delayed messages fall due: each is delivered exactly once.

ROUNDS=50 .venv/bin/pytest tests/crash/test_delay_kill.py    is the long form; SEED=7 chooses other moments.
"""

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketeer import Message, Producer
from rocketeer.bench.control import Control
from support.cluster import ServerCluster, restart_broker, running_cluster
from support.senders import read_topic, wait_for

ROUNDS = int(os.environ.get("ROUNDS", "2"))
SEED = int(os.environ.get("SEED", "1"))
TOPIC = "Later"
QUEUES = 4
MESSAGES = 200
CONF = {
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 500 * 20,
    "maxHashSlotNum": 1000,
    "maxIndexNum": 5000,
    "messageDelayLevel": "1s 2s",
    "flushConsumerOffsetInterval": 300,  # the tables are written now and then while messages are delivered
}


@pytest.fixture(params=["ASYNC_FLUSH", "SYNC_FLUSH"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServerCluster]:
    with running_cluster(tmp_path, conf={**CONF, "flushDiskType": request.param}) as running:
        with Control(running.broker) as broker:
            broker.create_topic(TOPIC, queues=QUEUES)
        yield running


def delivered(cluster: ServerCluster) -> Counter[bytes]:
    return Counter(message.body for queue in read_topic(cluster.broker, TOPIC, QUEUES) for message in queue)


def send(cluster: ServerCluster, number: int) -> set[bytes]:
    """Messages of both levels; all acknowledged. Some carry no name of their own but their body."""
    with Producer("later", nameserver=cluster.namesrv) as producer:
        messages = [
            Message(TOPIC, b"%d-%d" % (number, each), delay_level=1 + each % 2) for each in range(MESSAGES)
        ]
        for future in [producer.send_async(message) for message in messages]:
            assert future.result(60).ok
    return {message.body for message in messages}


@pytest.mark.timeout(120 + 60 * ROUNDS)
def test_each_delayed_message_is_delivered_exactly_once(cluster: ServerCluster) -> None:
    dice = random.Random(SEED)
    sent: set[bytes] = set()
    for number in range(ROUNDS):
        before = len(sent)
        sent |= send(cluster, number)
        if number % 3 == 0:  # in the midst of a level that falls due
            wait_for(lambda before=before: delivered(cluster).total() > before, what="a delivery")  # type: ignore[misc]
        else:
            time.sleep(0.5 + 2 * dice.random())
        cluster.kill_broker()
        if number % 2:
            time.sleep(dice.random())
        cluster.start_broker()
        if number % 3 == 1:  # right after the start, which has its own deliveries to make up for
            time.sleep(dice.random() / 2)
            cluster.kill_broker()
            cluster.start_broker()
        seen = delivered(cluster)
        assert seen.total() == len(seen), "delivered twice"
    wait_for(lambda: len(delivered(cluster)) == len(sent), what="all delayed messages")
    restart_broker(cluster)
    sent |= {b"last"}  # what were to come twice would have come before it
    with Producer("later", nameserver=cluster.namesrv) as producer:
        producer.send(Message(TOPIC, b"last", delay_level=1))
    wait_for(lambda: b"last" in delivered(cluster), what="the last delayed message")
    assert delivered(cluster) == Counter(sent)
