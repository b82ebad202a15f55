"""Sends, pulls and retries recorded from RocketMQ 4.9.8, sent again to our broker over TCP.

Codes, remarks, fields, message ids, offsets and stored records must come out as recorded; only times and addresses may
differ. What differs on purpose is written down where it is checked:

- a topic without write permission refuses sends (RocketMQ leaves that to the clients);
- a header that lacks a field is told which one (RocketMQ looks at the empty topic name instead);
- a queue id below zero means any queue, chosen at random on both sides;
- a pull with an expression that cannot be parsed is refused (RocketMQ delivers every message);
- a held pull is answered in the serialisation of its request (RocketMQ: in the broker's).

With ROCKETEER_PEER=apache the same requests go to Apache's own broker.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rocketeer.protocol.codes import ResponseCode
from rocketeer.protocol.command import Command
from rocketeer.protocol.frame import JSON, ROCKETMQ
from rocketeer.record.ids import parse_offset_msg_id
from support.cluster import ServerCluster, chosen_make, running_cluster
from support.recordings import (
    SEGMENT_BYTES,
    Conversation,
    Frame,
    comparable,
    nameless,
    place_log,
    recorded_log,
    records_of,
)
from support.records import split_records
from support.senders import wait_for

OURS = chosen_make() == "ours"
PULL = 11


@contextmanager
def broker_on_log(folder: Path, log_end: int = 0, level_2: str = "2s") -> Iterator[ServerCluster]:
    """The recorded broker's settings, and its log up to `log_end`."""
    if log_end:
        place_log(folder / "store", log_end)
    conf = {
        "mappedFileSizeCommitLog": SEGMENT_BYTES,
        "maxMessageSize": 65536,
        "messageDelayLevel": f"1s {level_2} 3s 4s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
        "traceTopicEnable": "true",
        "enablePropertyFilter": "true",
        "transactionCheckInterval": 600_000,  # the log holds open transactions; nobody asks after them here
    }
    with running_cluster(folder, peer=chosen_make(), conf=conf) as cluster:
        yield cluster


def same_reply(asked: Frame, ours: Command, recorded: Frame, shift: int) -> None:
    """Code, remark, fields and messages; ids and records as in a log longer by `shift`."""
    header, what = recorded["header"], f"{asked['header']}: {ours}"
    assert ours.code == header["code"], what
    if OURS or asked["header"]["code"] != PULL:
        assert ours.serialize == (ROCKETMQ if asked["ser"] == "ROCKETMQ" else JSON), what
    assert nameless(ours.remark) == nameless(header.get("remark")), what
    assert offsets_of_ids(ours.ext, shift) == offsets_of_ids(header.get("extFields") or {}), what
    body = bytes.fromhex(recorded["body_hex"] or "") if "body_hex" in recorded else b""
    if asked["header"]["code"] == PULL:
        records = [comparable(record, shift) for record in split_records(ours.body)]
        assert records == [comparable(record) for record in split_records(body)], what
    else:
        assert ours.body == body, what


def offsets_of_ids(ext: dict[str, str], shift: int = 0) -> dict[str, object]:
    """The fields of a reply with the log offsets in place of message ids."""
    if "msgId" not in ext:
        return dict(ext)
    return {**ext, "msgId": [parse_offset_msg_id(text)[1] + shift for text in ext["msgId"].split(",")]}


def assert_same_log(
    conversation: Conversation, start: int, end: int, *, without: tuple[str, ...] = ()
) -> None:
    """Every record of the recorded log between two offsets is in ours, in its place."""
    ours = {record.log_offset: record for record in records_of(conversation.log())}
    shift = 0
    for record in records_of(recorded_log()[:end], start):
        if OURS and record.topic in without:
            shift += record.size
            continue
        assert comparable(ours[record.log_offset - shift], shift) == comparable(record)


@pytest.mark.timeout(180)
def test_sends_of_every_kind(tmp_path: Path) -> None:
    """10, 310 and 320: answers and stored records, from an empty store on."""
    read_only, no_fields, any_queue = 45, 61, 89  # opaques

    def check(asked: Frame, ours: Command, recorded: Frame, shift: int) -> None:
        opaque = asked["header"]["opaque"]
        if OURS and opaque == read_only:
            assert ours.code == ResponseCode.NO_PERMISSION
            assert ours.remark == "the topic[ReadOnlyTopic] sending message is forbidden"
        elif OURS and opaque == no_fields:
            assert (ours.code, ours.remark) == (ResponseCode.SYSTEM_ERROR, "the custom field <b> is null")
        else:
            same_reply(asked, ours, recorded, shift)

    with broker_on_log(tmp_path, level_2="6s") as cluster:
        producer = Conversation(
            cluster,
            "producer",
            check,
            effects={36: 10400},
            refused={read_only: 186} if OURS else {},
            as_filler=frozenset({any_queue}),
        )
        assert producer.play() >= 35
        old_producer = Conversation(cluster, "producer_v1", check, effects={10: 12692}, shift=producer.shift)
        assert old_producer.play() >= 4
        end = 12692 + 191
        wait_for(lambda: old_producer.log_end() == end, what="the last send, which was one-way")
        assert_same_log(old_producer, 0, end, without=("ReadOnlyTopic",))


def test_a_queue_id_below_zero_means_any_queue(tmp_path: Path) -> None:
    def check(asked: Frame, ours: Command, recorded: Frame, shift: int) -> None:
        assert ours.code == ResponseCode.SUCCESS
        assert 0 <= int(ours.ext["queueId"]) < 4

    with broker_on_log(tmp_path, 11685) as cluster:
        only_it = Conversation(cluster, "producer", check, with_fillers=False)
        only_it._frames = lambda: [  # type: ignore[method-assign]
            frame for frame in Conversation._frames(only_it) if frame["header"]["opaque"] == 89
        ]
        assert only_it.play() == 1


@pytest.mark.timeout(120)
def test_pulls_of_every_outcome(tmp_path: Path) -> None:
    """11, on the very log that was pulled: bodies are the recorded bytes."""
    sql = 62  # also the one body that was too large to be recorded whole

    def check(asked: Frame, ours: Command, recorded: Frame, shift: int) -> None:
        if asked["header"]["code"] != PULL:
            return
        if asked["header"]["opaque"] == sql:
            if OURS:
                assert ours.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
                assert ours.remark is not None
                assert "position 4" in ours.remark
            return
        same_reply(asked, ours, recorded, shift)
        assert ours.body == bytes.fromhex(recorded["body_hex"] or "")

    with broker_on_log(tmp_path, 12883) as cluster:
        conversation = Conversation(cluster, "pull_raw", check, with_fillers=False)
        assert conversation.play() >= 30
        # Three of them asked for an offset that does not exist: an event of each is stored.
        events = list(records_of(recorded_log(), 12883))[:3]
        assert {event.topic for event in events} == {"OFFSET_MOVED_EVENT"}
        ours = list(records_of(conversation.log(), 12883))
        assert [comparable(event)["properties"] for event in ours] == [
            comparable(event)["properties"] for event in events
        ]
        assert [(event.log_offset, event.size, event.body) for event in ours] == [
            (event.log_offset, event.size, event.body) for event in events
        ]


@pytest.mark.timeout(120)
def test_retries_and_dead_letters(tmp_path: Path) -> None:
    """36: back to the retry topic after 3 s, then to the dead letters; every hop stored as recorded."""
    retried = 58

    def check(asked: Frame, ours: Command, recorded: Frame, shift: int) -> None:
        if asked["header"]["opaque"] == retried:
            # Both come due in the same moment, or the second one after the held pull was answered.
            wanted = [comparable(record) for record in split_records(bytes.fromhex(recorded["body_hex"]))]
            came = [comparable(record) for record in split_records(ours.body)]
            assert came
            assert came == wanted[: len(came)]
        else:
            same_reply(asked, ours, recorded, shift)

    with broker_on_log(tmp_path, 21511) as cluster:
        effects = {53: 21908, 54: 22244, 70: 23254, 119: 23584, 123: 23918}
        conversation = Conversation(cluster, "retry_dlq", check, effects=effects)
        assert conversation.play() >= 18
        assert_same_log(conversation, 21511, 23918 + 290)


@pytest.mark.skipif(
    chosen_make() == "apache",
    reason="Apache's serves a pull and the heartbeat before it in two threads: which is first is chance",
)
@pytest.mark.timeout(120)
def test_a_client_with_binary_headers(tmp_path: Path) -> None:
    with broker_on_log(tmp_path, 35252) as cluster:
        conversation = Conversation(
            cluster,
            "serialize_rocketmq_client",
            same_reply,
            effects={14: 36054, 77: 36241},
            skip=frozenset({28}),
        )
        assert conversation.play() >= 20
        assert_same_log(conversation, 35252, 36752 + 319)


@pytest.mark.timeout(120)
def test_everybody_with_binary_headers(tmp_path: Path) -> None:
    with broker_on_log(tmp_path) as cluster:
        conversation = Conversation(
            cluster, "serialize_rocketmq_all", same_reply, skip=frozenset({28}), with_fillers=False
        )
        assert conversation.play() >= 18


def test_a_client_of_another_language_and_version(tmp_path: Path) -> None:
    with broker_on_log(tmp_path) as cluster:
        skip = frozenset({30, 34, 41, 200, 203, 204, 222, 307})
        conversation = Conversation(
            cluster, "old_and_other_language_client", same_reply, skip=skip, with_fillers=False
        )
        assert conversation.play() == 2
