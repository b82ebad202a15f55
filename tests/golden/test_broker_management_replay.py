"""Management requests recorded from RocketMQ 4.9.8, sent again to our broker: the replies say the same.

The broker runs on the recorded log as it was when the queues were asked about, so that offsets and times must
come out as recorded too. What differs on purpose stands in `OUR_OWN_WORDS`. With ROCKETEER_PEER=apache the
same requests go to Apache's own broker.
"""

import json
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketeer.protocol.command import Command, decode_frame
from rocketeer.protocol.fastjson import loads
from rocketeer.protocol.frame import JSON, ROCKETMQ, FrameSplitter
from support.cluster import ServerCluster, chosen_make, running_cluster

DATA = Path(__file__).parent / "data"
SEGMENT_BYTES = 1 << 20
# The fifteenth message of queue 0 of TopicTest ends here; it was the last one when `pull_raw` was recorded.
LOG_END = 12_483 + 209

# Where RocketMQ's remark is a Java exception's text, ours is its own; the code is the same.
OUR_OWN_WORDS = ("java.", "com.alibaba.", "Cannot invoke")
NOTICE = 40


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerCluster]:
    folder = tmp_path_factory.mktemp("replay")
    log = folder / "store" / "commitlog" / f"{0:020}"
    log.parent.mkdir(parents=True)
    recorded = (DATA / "store_full" / "commitlog" / log.name).read_bytes()
    log.write_bytes(recorded[:LOG_END].ljust(SEGMENT_BYTES, b"\0"))
    config = folder / "store" / "config"
    config.mkdir()
    for name in ("topics.json", "subscriptionGroup.json"):
        shutil.copy(DATA / "store_full" / "config" / name, config)
    # Its delayed messages (of levels 2 and 18) count as delivered: nothing may arrive while we ask.
    (config / "delayOffset.json").write_text(json.dumps({"offsetTable": {2: 1, 18: 1}}))
    settings = {"mappedFileSizeCommitLog": SEGMENT_BYTES, "traceTopicEnable": "true"}
    with running_cluster(folder, peer=chosen_make(), conf=settings) as cluster:
        yield cluster


class Stream:
    """One recorded TCP connection, made again."""

    def __init__(self, address: str) -> None:
        host, port = address.split(":")
        self._socket = socket.create_connection((host, int(port)), timeout=10)
        self._splitter = FrameSplitter()
        self._arrived: list[Command] = []
        self.notices: list[Command] = []

    def send(self, frame: dict[str, Any]) -> None:
        self._socket.sendall(bytes.fromhex(frame["frame_hex"]))

    def reply_to(self, frame: dict[str, Any]) -> Command:
        while True:
            while self._arrived:
                came = self._arrived.pop(0)
                if came.is_response and came.opaque == frame["header"]["opaque"]:
                    return came
                if not came.is_response:
                    self.notices.append(came)
            data = self._socket.recv(1 << 20)
            assert data, "the broker closed the connection"
            self._arrived += [decode_frame(*whole) for whole in self._splitter.feed(data)]

    def close(self) -> None:
        self._socket.close()


Check = Callable[[dict[str, Any], Command, dict[str, Any]], None]


def exchanges(scenario: str, codes: set[int]) -> Iterator[tuple[dict[str, Any], dict[str, Any] | None]]:
    """Requests to the broker with these codes, each with its recorded answer (None: it was oneway)."""
    frames = [json.loads(line) for line in (DATA / "wire" / f"{scenario}.jsonl").open()]
    frames = [frame for frame in frames if frame["conn"] == "client->broker"]
    answers = {
        (frame["stream"], frame["header"]["opaque"]): frame for frame in frames if frame["dir"] == "response"
    }
    for frame in frames:
        if frame["dir"] != "response" and frame["header"]["code"] in codes and "frame_hex" in frame:
            yield frame, answers.get((frame["stream"], frame["header"]["opaque"]))


def replay(
    broker: ServerCluster, scenario: str, codes: set[int], check: Check | None = None
) -> dict[int, Stream]:
    """Send everything again, each on its own connection, and compare the answers."""
    check = check or same_reply
    streams: dict[int, Stream] = {}
    asked = 0
    try:
        for request, expected in exchanges(scenario, codes):
            stream = streams.setdefault(request["stream"], Stream(broker.broker))
            stream.send(request)
            if expected is not None:
                check(request, stream.reply_to(request), expected)
                asked += 1
    finally:
        for stream in streams.values():
            stream.close()
    assert asked, f"nothing was compared in {scenario}"
    return streams


def same_reply(request: dict[str, Any], ours: Command, expected: dict[str, Any]) -> None:
    header, what = expected["header"], f"{request['header']} {bytes.fromhex(request['body_hex'])[:300]!r}"
    assert ours.code == header["code"], f"{what}: {ours}"
    assert ours.serialize == (ROCKETMQ if expected["ser"] == "ROCKETMQ" else JSON), what
    remark = header.get("remark")
    if remark is not None and remark.startswith(OUR_OWN_WORDS):
        assert ours.remark, what
    else:
        assert ours.remark == remark, what
    assert ours.ext == (header.get("extFields") or {}), what
    assert unordered(ours.body) == unordered(bytes.fromhex(expected["body_hex"])), what


def unordered(body: bytes) -> object:
    """The value of a body; Java's sets come in any order."""

    def plain(value: object) -> object:
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        if isinstance(value, list):
            return sorted((plain(item) for item in value), key=json.dumps)
        return value

    return plain(loads(body)) if body else b""


def same_entries(part: str) -> Check:
    """Tables that have changed since: what both have is the same, in the same form."""

    def check(request: dict[str, Any], ours: Command, expected: dict[str, Any]) -> None:
        assert (ours.code, ours.remark, ours.ext) == (0, None, {})
        table, recorded = loads(ours.body), loads(bytes.fromhex(expected["body_hex"]))
        assert set(table) == set(recorded)
        assert set(table["dataVersion"]) == set(recorded["dataVersion"])
        common = set(table[part]) & set(recorded[part])
        assert len(common) > 10
        assert {name: table[part][name] for name in common} == {name: recorded[part][name] for name in common}

    return check


def test_the_tables_of_topics_and_groups(broker: ServerCluster) -> None:
    for scenario in ("admin_raw", "admin_exportMetadata"):
        replay(broker, scenario, {21}, same_entries("topicConfigTable"))
        replay(broker, scenario, {201}, same_entries("subscriptionGroupTable"))


def test_offsets_times_and_members_of_a_raw_consumer(broker: ServerCluster) -> None:
    streams = replay(broker, "pull_raw", {14, 15, 29, 30, 31, 32, 34, 35, 38})
    notices = [notice for stream in streams.values() for notice in stream.notices]
    assert [(notice.code, notice.flag, notice.ext) for notice in notices] == [
        (NOTICE, 2, {"consumerGroup": "CG_raw"})
    ]


@pytest.mark.parametrize("scenario", ["push_consume", "broadcast", "filter_sql"])
def test_heartbeats_and_goodbyes_of_push_consumers(broker: ServerCluster, scenario: str) -> None:
    streams = replay(broker, scenario, {14, 15, 34, 35, 38})
    assert any(stream.notices for stream in streams.values())


def test_a_binary_header_is_answered_with_one(broker: ServerCluster) -> None:
    replay(broker, "serialize_rocketmq_all", {14, 34})


def test_topics_are_updated_and_queues_locked(broker: ServerCluster) -> None:
    replay(broker, "order_consume", {17, 41, 42})


@pytest.mark.parametrize(
    "scenario",
    [
        "admin_raw",
        "admin_updateTopic",
        "admin_updateTopic_order",
        "admin_updateTopicPerm",
        "admin_updateTopicPerm_broker",
        "admin_updateSubGroup",
        "admin_deleteSubGroup",
        "admin_deleteTopic",
    ],
)
def test_administration_of_topics_and_groups(broker: ServerCluster, scenario: str) -> None:
    replay(broker, scenario, {17, 200, 207, 215})


def test_malformed_requests_are_refused_with_the_same_code(broker: ServerCluster) -> None:
    replay(broker, "old_and_other_language_client", {30, 34, 41, 200})


def test_a_tag_filter_is_accepted(broker: ServerCluster) -> None:
    def tags_only(request: dict[str, Any], ours: Command, expected: dict[str, Any]) -> None:
        if b'"TAG"' in bytes.fromhex(request["body_hex"]) or not request["body_hex"]:
            same_reply(request, ours, expected)

    replay(broker, "filter_sql", {46}, tags_only)
