"""Questions of tools recorded from RocketMQ 4.9.8, asked again of our broker on the same log: the answers are the same.

The broker starts on the recorded log as it was when `admin_raw` was recorded, and on the consumers' offsets that
recording tells (43). With ROCKETEER_PEER=apache the same questions go to Apache's own broker.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import Command
from rocketeer.protocol.fastjson import loads
from support.cluster import ServerCluster, chosen_make, running_cluster
from support.raw_connection import RawConnection
from support.recorded import recorded_commands
from support.recordings import DATA, SEGMENT_BYTES, place_log

LOG_END = 40_505
"""What 28 told of the log's end in that recording."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerCluster]:
    folder = tmp_path_factory.mktemp("admin")
    place_log(folder / "store", LOG_END)
    (offsets,) = recorded_commands("admin_raw", 43, reply=True)
    (folder / "store" / "config" / "consumerOffset.json").write_bytes(offsets.body)
    settings = {
        "mappedFileSizeCommitLog": SEGMENT_BYTES,
        "traceTopicEnable": "true",
        "transactionCheckInterval": 600_000,
        "autoCreateTopicEnable": "true",
    }
    with running_cluster(folder, peer=chosen_make(), conf=settings) as cluster:
        yield cluster


def asked(code: int, scenario: str = "admin_raw") -> Iterator[tuple[Command, Command]]:
    """The recorded requests with a code, and their answers."""
    replies = {reply.opaque: reply for reply in recorded_commands(scenario, code, reply=True)}
    for command in recorded_commands(scenario, code):
        if command.opaque in replies:
            yield command, replies[command.opaque]


def ask(broker: ServerCluster, command: Command) -> Command:
    with RawConnection(broker.broker) as line:
        return line.ask(command)


def sorted_lists(value: object) -> object:
    """Java's sets come in any order."""
    if isinstance(value, dict):
        return {key: sorted_lists(item) for key, item in value.items()}
    if isinstance(value, list):
        return sorted(
            (sorted_lists(item) for item in value), key=lambda item: json.dumps(item, sort_keys=True)
        )
    return value


def body_of(command: Command) -> Any:
    return sorted_lists(loads(command.body)) if command.body else None


@pytest.mark.parametrize(
    "code",
    [
        RequestCode.GET_ALL_CONSUMER_OFFSET,
        RequestCode.GET_TOPIC_STATS_INFO,
        RequestCode.GET_CONSUME_STATS,
        RequestCode.QUERY_TOPIC_CONSUME_BY_WHO,
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
        RequestCode.QUERY_CORRECTION_OFFSET,
    ],
)
def test_the_answer_is_the_recorded_one(broker: ServerCluster, code: int) -> None:
    compared = 0
    for command, expected in asked(code):
        ours = ask(broker, command)
        # What slaves of ours are told beside the recorded answer has names of its own.
        ext = {name: value for name, value in ours.ext.items() if not name.startswith("rocketeer")}
        assert (ours.code, ours.remark, ext) == (expected.code, expected.remark, expected.ext)
        assert body_of(ours) == body_of(expected), command.ext
        compared += 1
    assert compared


def test_how_far_the_delay_levels_are(broker: ServerCluster) -> None:
    ((command, expected),) = asked(RequestCode.GET_ALL_DELAY_OFFSET)
    told = body_of(ask(broker, command))["offsetTable"]
    assert told.pop("18") == 1, (
        "the message of the longest level, which waited then, counts as delivered here"
    )
    assert told == body_of(expected)["offsetTable"]


def test_the_times_of_what_a_group_has_to_consume(broker: ServerCluster) -> None:
    ((command, expected),) = asked(RequestCode.QUERY_CONSUME_TIME_SPAN)

    def lasting(spans: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Without what depends on when and where one asks: how long the group is behind, and local times."""
        stamps = [{key: each for key, each in span.items() if not key.endswith("Str")} for span in spans]
        return [{**span, "delayTime": span["delayTime"] > 0} for span in stamps]

    ours = body_of(ask(broker, command))["consumeTimeSpanSet"]
    recorded = body_of(expected)["consumeTimeSpanSet"]
    assert sorted_lists(lasting(ours)) == sorted_lists(lasting(recorded))
    assert [len(span["maxTimeStampStr"]) for span in ours] == [len("2026-11-15#07:57:49:926")] * 4


def test_the_progress_of_all_groups(broker: ServerCluster) -> None:
    """The recording has the first 4 KB of the answer: every group that is whole in it is compared."""
    lines = (DATA / "wire" / "admin_raw.jsonl").read_text().splitlines()
    frame = next(f for f in map(json.loads, lines) if f.get("request_code") == 317 and f["dir"] == "response")
    text = bytes.fromhex(frame["body_truncated_hex"]).decode()
    recorded = loads((text[: text.rindex("]},{") + 2] + "]}").encode())
    (command,) = recorded_commands("admin_raw", RequestCode.GET_BROKER_CONSUME_STATS)
    ours = loads(ask(broker, command).body)
    assert ours["brokerAddr"] == broker.broker
    groups = {name: stats for entry in ours["consumeStatsList"] for name, stats in entry.items()}
    compared = 0
    for entry in recorded["consumeStatsList"]:
        for name, stats in entry.items():
            assert sorted_lists(groups[name]) == sorted_lists(stats), name
            compared += len(stats)
    assert compared > 5
    lags = [
        queue["brokerOffset"] - queue["consumerOffset"]
        for stats in groups.values()
        for topic in stats
        for queue in topic["offsetTable"].values()
    ]
    assert ours["totalDiff"] == sum(lags) > 0
