"""The disk of a running broker fills up: sends are refused, reads go on, and it recovers when there is room again."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketeer.bench.control import Control
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command
from support.cluster import ServerCluster, restart_broker, running_cluster
from support.senders import (
    Acked,
    Sender,
    assert_ledger_holds,
    key_of,
    query_by_key,
    read_topic,
    send_header,
    wait_for,
)
from support.volumes import fill, small_volume

TOPIC = "Filling"
QUEUES = 4
VOLUME_MB = 40

SMALL = {
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 500 * 20,
    "maxHashSlotNum": 1000,
    "maxIndexNum": 20_000,
    "flushConsumeQueueThoroughInterval": 500,
    "flushConsumerOffsetInterval": 200,
}
# By these a full disk is met by the writer itself, before anybody measures it.
NO_WATCH = {
    "diskSpaceWarningLevelRatio": 100,
    "diskSpaceCleanForciblyRatio": 100,
    "diskMaxUsedSpaceRatio": 100,
}
REFUSED = (
    "service not available now. It may be caused by one of the following reasons: the broker's disk is full ["
)


@pytest.fixture(params=["tmpfs", "ext4"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServerCluster]:
    """With the store, and only the store, on a small volume; NO_WATCH unless the test says otherwise."""
    conf = {**SMALL, **getattr(request.function, "conf", NO_WATCH)}
    with (
        small_volume(tmp_path / "store", megabytes=VOLUME_MB, kind=request.param),
        running_cluster(tmp_path, conf=conf) as running,
    ):
        with Control(running.broker) as broker:
            broker.create_topic(TOPIC, queues=QUEUES)
        yield running


def load_until_refused(cluster: ServerCluster, round_name: str) -> list[Sender]:
    """Send until the disk is full, and a little longer."""
    senders = [
        Sender(cluster.broker, TOPIC, name=f"{round_name}-plain", queues=QUEUES, window=16),
        Sender(cluster.broker, TOPIC, name=f"{round_name}-batch", queues=QUEUES, window=2, kind="batch"),
    ]
    for sender in senders:
        sender.start()
    wait_for(
        lambda: all(sender.refused for sender in senders), what="refusals on every connection", state=senders
    )
    time.sleep(1)  # what is written in the background meets the full disk, too
    for sender in senders:
        sender.finish()
        assert not sender.lost_connection
        for code, remark in sender.refused:
            assert code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert remark is not None
            assert remark.startswith(REFUSED)
    return senders


def try_to_send(cluster: ServerCluster, body: bytes) -> Command:
    with Control(cluster.broker, timeout_s=60) as broker:
        properties = f"KEYS\x01{key_of(body)}"
        return broker.call(RequestCode.SEND_MESSAGE_V2, send_header(TOPIC, 0, properties), body)


def wait_until_it_takes_messages(cluster: ServerCluster, name: str) -> tuple[set[bytes], list[Acked]]:
    """Without help, by itself."""
    sent: set[bytes] = set()
    acked: list[Acked] = []

    def taken() -> bool:
        body = f"{name}-{len(sent)} ".encode()
        sent.add(body)
        reply = try_to_send(cluster, body)
        if reply.code == ResponseCode.SUCCESS:
            acked.append(Acked(body, 0, int(reply.ext["queueOffset"]), reply.ext["msgId"]))
        return bool(acked)

    wait_for(taken, what="a send that is accepted")
    return sent, acked


def assert_all_is_there(cluster: ServerCluster, sent: set[bytes], acked: list[Acked]) -> None:
    queues = read_topic(cluster.broker, TOPIC, QUEUES)
    assert_ledger_holds(queues, sent=sent, acked=acked)
    with Control(cluster.broker, timeout_s=60) as broker:
        for ack in acked[:: max(1, len(acked) // 20)]:
            assert [found.body for found in query_by_key(broker, TOPIC, key_of(ack.body))] == [ack.body]


@pytest.mark.timeout(240)
def test_a_full_disk_refuses_sends_and_recovers_by_itself(cluster: ServerCluster) -> None:
    pid = cluster.broker_process.pid
    sent: set[bytes] = set()
    acked: list[Acked] = []
    for number in range(2):
        ballast = fill(cluster.store, leave_bytes=4 << 20)
        for sender in load_until_refused(cluster, f"round-{number}"):
            sent.update(sender.sent)
            acked += sender.acked
        fill(cluster.store)  # down to the last block
        assert_all_is_there(cluster, sent, acked)
        with Control(cluster.broker, timeout_s=60) as broker:
            where = {"consumerGroup": "CG", "topic": TOPIC, "queueId": "0"}
            broker.ask(RequestCode.UPDATE_CONSUMER_OFFSET, where | {"commitOffset": str(number + 1)})
        ballast.unlink()
        more_sent, more_acked = wait_until_it_takes_messages(cluster, f"after-{number}")
        sent |= more_sent
        acked += more_acked
        assert_all_is_there(cluster, sent, acked)
    assert cluster.broker_process.pid == pid
    offsets = cluster.store / "config" / "consumerOffset.json"
    wait_for(
        lambda: offsets.exists() and "{0:2}" in offsets.read_text(),
        what="the offset that could not be saved is saved",
    )

    restart_broker(cluster)
    assert_all_is_there(cluster, sent, acked)
    restart_broker(cluster, kill=True)
    assert_all_is_there(cluster, sent, acked)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("kill", [False, True], ids=["stop", "kill -9"])
def test_a_broker_starts_on_a_full_disk_and_serves_reads(cluster: ServerCluster, kill: bool) -> None:
    fill(cluster.store, leave_bytes=3 << 20)
    sent: set[bytes] = set()
    acked: list[Acked] = []
    for sender in load_until_refused(cluster, "before"):
        sent.update(sender.sent)
        acked += sender.acked
    ballast = fill(cluster.store)
    restart_broker(cluster, kill=kill)
    assert_all_is_there(cluster, sent, acked)
    assert try_to_send(cluster, b"x " + b"x" * 2_000_000).code in (
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.MESSAGE_ILLEGAL,
    )
    ballast.unlink()
    more_sent, more_acked = wait_until_it_takes_messages(cluster, "after")
    assert_all_is_there(cluster, sent | more_sent, acked + more_acked)


def test_over_the_warning_ratio_sends_are_refused_with_the_ratios(cluster: ServerCluster) -> None:
    with Control(cluster.broker, timeout_s=60) as broker:
        broker.ask(RequestCode.SEND_MESSAGE_V2, send_header(TOPIC, 0, ""), b"first ")
    ballast = fill(cluster.store, leave_bytes=2 << 20)
    wait_for(lambda: try_to_send(cluster, b"x ").code != ResponseCode.SUCCESS, what="a refusal")
    reply = try_to_send(cluster, b"x ")
    assert reply.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert reply.remark is not None
    assert reply.remark.startswith(f"{REFUSED}CL:  0.9")
    assert read_topic(cluster.broker, TOPIC, QUEUES)[0][0].body == b"first "
    ballast.unlink()
    wait_until_it_takes_messages(cluster, "after")


test_over_the_warning_ratio_sends_are_refused_with_the_ratios.conf = {  # type: ignore[attr-defined]
    "diskSpaceWarningLevelRatio": 90
}
