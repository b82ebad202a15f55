"""One store, two makes of broker in turn, while delayed messages wait in it: what one took in the other delivers, once.

Needs Java and Apache's jars (`make interop`).
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketeer import Message, Producer
from rocketeer.bench.control import Control
from rocketeer.bench.servers import ApacheMissing, Make, apache_lib
from support.cluster import ServerCluster
from support.senders import read_topic, wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

TOPIC = "ExchangedDelays"
QUEUES = 4
CONF = {
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 500 * 20,
    "maxHashSlotNum": 1000,
    "maxIndexNum": 5000,
    "messageDelayLevel": "1s 25s",
}


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[list[ServerCluster]]:
    try:
        apache_lib()
    except ApacheMissing as missing:
        pytest.skip(str(missing))
    clusters: list[ServerCluster] = []
    yield clusters
    for cluster in clusters:
        cluster.kill()
    for log in sorted(tmp_path.glob("*.out")):
        print(f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}")


def open_with(make: Make, folder: Path, opened: list[ServerCluster]) -> ServerCluster:
    cluster = ServerCluster(make, folder, conf=CONF, heap="512m", ready_s=120)
    opened.append(cluster)
    cluster.start()
    return cluster


def send(cluster: ServerCluster, name: str, level: int, count: int = 30) -> set[bytes]:
    with Producer("later", nameserver=cluster.namesrv, send_timeout_s=30) as producer:
        bodies = [f"{name}-{number}".encode() for number in range(count)]
        for body in bodies:
            assert producer.send(Message(TOPIC, body, delay_level=level)).ok
    return set(bodies)


def delivered(cluster: ServerCluster) -> Counter[bytes]:
    return Counter(message.body for queue in read_topic(cluster.broker, TOPIC, QUEUES) for message in queue)


@pytest.mark.parametrize("kill", [False, True], ids=["stop", "kill -9"])
@pytest.mark.parametrize(
    "makes", [("ours", "apache"), ("apache", "ours")], ids=["ours first", "apache first"]
)
def test_what_waits_is_delivered_by_the_next_broker_once(
    makes: tuple[Make, Make], kill: bool, tmp_path: Path, opened: list[ServerCluster]
) -> None:
    first, second = makes
    cluster = open_with(first, tmp_path, opened)
    with Control(cluster.broker) as broker:
        broker.create_topic(TOPIC, queues=QUEUES)
    due = send(cluster, "short", 1)
    waiting = send(cluster, "long", 2)
    wait_for(lambda: due <= set(delivered(cluster)), what="the short delays")
    leave(cluster, kill=kill)

    cluster = open_with(second, tmp_path, opened)
    due |= send(cluster, "second", 1)
    wait_for(lambda: due | waiting <= set(delivered(cluster)), what="all delays", timeout_s=90)
    seen = delivered(cluster)
    if second == "ours":
        assert seen == Counter(due | waiting), "exactly once, whatever Java left behind"
    elif not kill:
        assert seen == Counter(due | waiting), "a clean stop leaves nothing for Java to repeat"
    leave(cluster, kill=kill)

    cluster = open_with(first, tmp_path, opened)
    before = delivered(cluster)
    due = send(cluster, "third", 1)
    wait_for(lambda: due <= set(delivered(cluster)), what="the last delays")
    if first == "ours":
        assert delivered(cluster) == before + Counter(due), "nothing again"
    leave(cluster, kill=False)


def leave(cluster: ServerCluster, *, kill: bool) -> None:
    if kill:
        cluster.kill()
    else:
        assert cluster.stop_broker() in (0, 143), "Java says 143 when it was terminated"
        cluster.stop()
