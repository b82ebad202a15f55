"""Sending and pulling through a whole broker: real TCP, real files."""

import asyncio
import itertools
import time
from pathlib import Path
from typing import Any

import pytest

from rocketeer.config import BrokerRole
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.frame import JSON, ROCKETMQ
from rocketeer.record.batch import BatchItem, encode_batch
from rocketeer.record.ids import parse_offset_msg_id
from support.broker import BrokerUnderTest, broker_at
from support.clock import ManualClock
from support.records import split_records

SUSPEND = 2 | 4


async def test_a_sent_message_is_pulled_with_all_it_had(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as broker:
        sent = await broker.send(
            "T", b"body", queue_id=2, properties="KEYS\x01k1 k2\x02TAGS\x01red\x02WAIT\x01true", h=7
        )
        assert (sent.code, sent.ext["queueId"], sent.ext["queueOffset"]) == (0, "2", "0")
        (message,) = await broker.messages("T", 2)
        assert (message.body, message.flag, message.tags, message.keys) == (b"body", 7, "red", "k1 k2")
        assert message.properties_dict() == {"KEYS": "k1 k2", "TAGS": "red", "CLUSTER": "DefaultCluster"}
        assert message.offset_msg_id == sent.ext["msgId"]


@pytest.mark.parametrize(
    "case", ["plain", "no properties", "odd separators", "repeated name", "compressed", "empty body"]
)
async def test_plain_sends_and_the_general_path_store_the_same_bytes(tmp_path: Path, case: str) -> None:
    """A binary header makes a send take the general path; the two brokers share a clock and nothing else."""
    properties = {
        "no properties": "",
        "odd separators": "\x02\x02A\x011\x02B\x02\x01C\x02TAGS\x01t\x02",
        "repeated name": "TAGS\x01a\x02TAGS\x01b\x02WAIT\x01false",
    }.get(case, "KEYS\x01k\x02UNIQ_KEY\x010A\x02WAIT\x01true\x02TAGS\x01TagA\x02u\x01grün")
    ext = {"f": 0x301} if case == "compressed" else {}
    body = b"" if case == "empty body" else b"payload"
    stored, replies = [], []
    for name, serialize in (("fast", 0), ("general", ROCKETMQ)):
        async with broker_at(tmp_path / name, clock=ManualClock()) as broker:
            header = {
                "a": "PG", "b": "T", "c": "TBW102", "d": 4, "e": 1, "f": 0, "g": 5, "h": 3, "i": properties, "j": 2,
                "k": "false", "m": "false",
            } | ext  # fmt: skip
            await broker.send("T", b"creates the topic")
            answer = await broker.ask(RequestCode.SEND_MESSAGE_V2, header, body, serialize=serialize)
            (message,) = await broker.messages("T", 1)
            same_host = {"born_host": b"", "store_host": b""}
            stored.append({name: getattr(message, name) for name in message.__struct_fields__} | same_host)
            replies.append(
                (
                    answer.code,
                    answer.remark,
                    {**answer.ext, "msgId": parse_offset_msg_id(answer.ext["msgId"])[1]},
                )
            )
            index_key = "T", "k"
            found = await _query(broker, *index_key) if "KEYS" in properties else []
            stored[-1]["found"] = [m.log_offset for m in found]
    assert stored[0] == stored[1]
    assert replies[0] == replies[1]


async def _query(broker: BrokerUnderTest, topic: str, key: str, **ext: Any) -> list[Any]:
    header = {"topic": topic, "key": key, "maxNum": 32, "beginTimestamp": 0, "endTimestamp": 1 << 60} | ext
    for _ in range(4000):  # the index follows within a few ticks
        answer = await broker.ask(RequestCode.QUERY_MESSAGE, header)
        if answer.code == 0:
            return list(split_records(answer.body))
        await asyncio.sleep(0.005)
    raise AssertionError(f"{key} never reached the index")


async def test_messages_are_found_by_key_by_unique_key_and_by_id(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as broker:
        sent = await broker.send("T", b"a", properties="KEYS\x01k1 k2\x02UNIQ_KEY\x01ABC")
        await broker.send("T", b"b", properties="KEYS\x01k2")
        assert [m.body for m in await _query(broker, "T", "k1")] == [b"a"]
        assert sorted(m.body for m in await _query(broker, "T", "k2")) == [b"a", b"b"]
        assert [m.body for m in await _query(broker, "T", "ABC", _UNIQUE_KEY_QUERY="true")] == [b"a"]
        offset = parse_offset_msg_id(sent.ext["msgId"])[1]
        seen = await broker.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": offset})
        assert [m.body for m in split_records(seen.body)] == [b"a"]
        missing = await broker.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": 999_999})
        assert (missing.code, missing.remark) == (1, "can not find message by the offset, 999999")


async def test_a_batch_is_stored_side_by_side_and_answered_with_every_id(tmp_path: Path) -> None:
    items = [BatchItem(n, f"m{n}".encode(), f"KEYS\x01k{n}\x02WAIT\x01true".encode()) for n in range(40)]
    async with broker_at(tmp_path) as broker:
        header = {
            "a": "PG", "b": "T", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 5, "h": 0, "i": "WAIT\x01true", "j": 0,
            "k": "false", "m": "true",
        }  # fmt: skip
        answer = await broker.ask(RequestCode.SEND_BATCH_MESSAGE, header, encode_batch(items))
        assert answer.code == 0
        assert len(answer.ext["msgId"].split(",")) == 40
        messages = await broker.messages("T") + await broker.messages("T", offset=32)
        assert [(m.body, m.flag, m.keys) for m in messages] == [(i.body, i.flag, f"k{i.flag}") for i in items]
        assert all(a.log_offset + a.size == b.log_offset for a, b in itertools.pairwise(messages))
        assert messages[0].properties_dict()["CLUSTER"] == "DefaultCluster"
        bad = await broker.ask(RequestCode.SEND_BATCH_MESSAGE, header, b"\0\0\0\x50garbage")
        assert bad.code == ResponseCode.MESSAGE_ILLEGAL
        assert len(await broker.messages("T", offset=32)) == 8, "a refused batch stores nothing"


@pytest.mark.parametrize(
    ("ext", "body", "code", "remark"),
    [
        ({"b": "bad topic!"}, b"x", 1, "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"),
        ({"b": ""}, b"x", 1, "The specified topic is blank."),
        ({"b": "t" * 128}, b"x", 1, "The specified topic is longer than topic max length."),
        ({"b": "SCHEDULE_TOPIC_XXXX"}, b"x", 16, "Sending message to topic[SCHEDULE_TOPIC_XXXX] is forbidden."),
        ({"b": "New", "c": "NoSuchDefault"}, b"x", 17, "topic[New] not exist, apply first please!"),
        ({"e": 99}, b"x", 1, "request queueId[99] is illegal, TopicConfig [topicName=T, readQueueNums=4, writeQueueNums=4, "
                             "perm=RW-, topicFilterType=SINGLE_TAG, topicSysFlag=0, order=false] Producer: 127.0.0.1:"),
        ({"i": "big\x01" + "p" * 33_000}, b"x", 13, "the message is illegal, maybe msg body or properties length not matched."),
        ({}, b"x" * ((4 << 20) + 1), 13, "the message is illegal, maybe msg body or properties length not matched. msg body "
                                   "length limit 4194304B, msg properties length limit 32KB."),
        ({"i": "TRAN_MSG\x01true"}, b"x", 13, "a transaction message needs its producer group, property PGROUP"),
    ],
    ids=["characters", "blank", "long", "system", "no default", "queue", "properties", "body", "transaction"],
)  # fmt: skip
async def test_what_may_not_be_sent_is_refused_with_rocketmqs_words(
    tmp_path: Path, ext: dict[str, Any], body: bytes, code: int, remark: str
) -> None:
    async with broker_at(tmp_path, store={"segment_bytes": 16 << 20}) as broker:
        await broker.send("T", b"first")
        answer = await broker.send("T", body, **ext)
        assert answer.code == code
        assert (answer.remark or "").startswith(remark)
        assert answer.ext["MSG_REGION"] == "DefaultRegion"
        assert len(await broker.messages("T")) == 1, "nothing of it was stored"


async def test_a_topic_that_may_not_be_written_or_read_says_so(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as broker:
        for topic, perm in (("ReadOnly", 4), ("WriteOnly", 2)):
            topic_ext = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": 1, "writeQueueNums": 1, "perm": perm,
                         "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false"}  # fmt: skip
            assert (await broker.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_ext)).code == 0
        refused = await broker.send("ReadOnly", b"x")
        assert (refused.code, refused.remark) == (16, "the topic[ReadOnly] sending message is forbidden")
        assert (await broker.send("WriteOnly", b"x")).code == 0
        refused = await broker.pull("WriteOnly")
        assert (refused.code, refused.remark) == (16, "the topic[WriteOnly] pulling message is forbidden")


async def test_tags_are_filtered_at_the_broker(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as broker:
        for n in range(12):
            await broker.send("T", str(n).encode(), properties=f"TAGS\x01{'abc'[n % 3]}")
        found = await broker.messages("T", subscription="a || c")
        assert [m.body for m in found] == [b"0", b"2", b"3", b"5", b"6", b"8", b"9", b"11"]
        nothing = await broker.pull("T", subscription="z")
        assert (nothing.code, nothing.remark, nothing.ext["nextBeginOffset"]) == (
            20,
            "NO_MATCHED_MESSAGE",
            "12",
        )


async def test_a_held_pull_is_answered_by_the_message_it_waits_for(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as broker:
        await broker.send("T", b"old")
        held = asyncio.create_task(
            broker.pull("T", 0, 1, sysFlag=SUSPEND, suspendTimeoutMillis=20_000, subscription="b")
        )
        await asyncio.sleep(0)  # it is asked first; the requests of one connection are served in order
        await broker.send("T", b"not matching", properties="TAGS\x01a")
        await asyncio.sleep(0.05)
        assert not held.done(), "a message it does not want must not end the wait"
        await broker.send("T", b"wanted", properties="TAGS\x01b")
        answer = await asyncio.wait_for(held, 10)
        assert [m.body for m in split_records(answer.body)] == [b"wanted"]
        assert answer.ext["nextBeginOffset"] == "3"


async def test_a_held_pull_ends_with_its_time(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as broker:
        await broker.send("T", b"old")
        answer = await asyncio.wait_for(broker.pull("T", 0, 1, sysFlag=SUSPEND, suspendTimeoutMillis=100), 10)
        assert (answer.code, answer.remark) == (ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE")


async def test_stopping_the_broker_answers_held_pulls(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as broker:
        await broker.send("T", b"old")
        held = asyncio.create_task(broker.pull("T", 0, 1, sysFlag=SUSPEND, suspendTimeoutMillis=60_000))
        await asyncio.sleep(0)
        await broker.send(
            "T", b"elsewhere", queue_id=1
        )  # the pull is held by now: requests are served in order
    assert (await asyncio.wait_for(held, 10)).code == ResponseCode.PULL_NOT_FOUND


@pytest.mark.parametrize(
    ("offset", "code", "remark", "next_offset"),
    [
        (99, 21, "OFFSET_OVERFLOW_BADLY", "1"),
        (1, 19, "OFFSET_OVERFLOW_ONE", "1"),
        (-5, 21, "OFFSET_TOO_SMALL", "0"),
    ],
)
async def test_offsets_out_of_range_lead_back(
    tmp_path: Path, offset: int, code: int, remark: str, next_offset: str
) -> None:
    async with broker_at(tmp_path) as broker:
        await broker.send("T", b"one")
        answer = await broker.pull("T", 0, offset)
        assert (answer.code, answer.remark, answer.ext["nextBeginOffset"]) == (code, remark, next_offset)


async def test_a_slave_that_lags_sends_nobody_to_another_offset(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as broker:
        await broker.send("T", b"one")
    async with broker_at(tmp_path, store={"broker_role": BrokerRole.SLAVE}) as broker:
        for topic_queue, remark in ((0, "OFFSET_OVERFLOW_BADLY"), (1, "NO_MESSAGE_IN_QUEUE")):
            answer = await broker.pull("T", topic_queue, 99)
            assert (answer.code, answer.remark) == (ResponseCode.PULL_RETRY_IMMEDIATELY, remark)
            assert (answer.ext["nextBeginOffset"], answer.ext["suggestWhichBrokerId"]) == ("99", "0")
        began_s = time.monotonic()
        answer = await broker.pull("T", 0, 99, sysFlag=SUSPEND, suspendTimeoutMillis=60_000)
        assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
        assert time.monotonic() - began_s > 0.4, "clients that ask again at once are held for a moment"


async def test_a_topic_made_by_a_send_survives_a_crash_right_after_it(tmp_path: Path) -> None:
    """Its messages are in the log; its configuration is made again from them if it did not reach the disk."""
    async with broker_at(tmp_path) as broker:
        await broker.send("T", b"body", queue_id=3)
    (tmp_path / "config" / "topics.json").unlink()
    for left in (tmp_path / "config").glob("topics.json.*"):
        left.unlink()
    (tmp_path / "abort").touch()
    async with broker_at(tmp_path) as broker:
        assert [m.body for m in await broker.messages("T", 3)] == [b"body"]


async def test_sync_flush_answers_when_the_disk_has_it_and_wait_false_does_not_wait(tmp_path: Path) -> None:
    from rocketeer.config import FlushMode

    async with broker_at(tmp_path, store={"flush_mode": FlushMode.SYNC_FLUSH}) as broker:
        answers = await asyncio.gather(*(broker.send("T", str(n).encode()) for n in range(64)))
        assert {a.code for a in answers} == {0}
        assert len({a.ext["queueOffset"] for a in answers}) == 64
        assert (await broker.send("T", b"x", properties="WAIT\x01false")).code == 0


@pytest.mark.parametrize("serialize", [JSON, ROCKETMQ], ids=["fewer steps", "general path"])
async def test_the_offset_that_was_sent_last_is_kept_whichever_request_carried_it(
    tmp_path: Path, serialize: int
) -> None:
    async with broker_at(tmp_path) as broker:
        await broker.send("T", b"creates the topic")
        where = {"consumerGroup": "CG", "topic": "T", "queueId": 0}
        pull = {
            **where, "queueOffset": 1, "maxMsgNums": 32, "sysFlag": 1 | 4, "suspendTimeoutMillis": 15_000,
            "subscription": "*", "subVersion": 0, "expressionType": "TAG",
        }  # fmt: skip
        requests = [
            (RequestCode.PULL_MESSAGE, {**pull, "sysFlag": 1 | SUSPEND}),
            (RequestCode.PULL_MESSAGE, pull),
            (RequestCode.UPDATE_CONSUMER_OFFSET, where),
        ]
        for turn in itertools.permutations(requests):
            asked = [
                asyncio.create_task(broker.ask(code, {**ext, "commitOffset": 10 + at}, serialize=serialize))
                for at, (code, ext) in enumerate(turn)
            ]
            await asyncio.sleep(0)  # all three are sent
            answer = await broker.ask(RequestCode.QUERY_CONSUMER_OFFSET, where)
            assert answer.ext["offset"] == "12", [code for code, _ in turn]
            for each in asked:
                each.cancel()
