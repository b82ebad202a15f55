"""Bytes inside a message's body are no message, however much they look like one at the place where they lie."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from rocketeer.broker.features.transaction.feature import NOT_FOUND
from rocketeer.model.topic import SCHEDULE_TOPIC, TRANS_HALF_TOPIC
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.record.entry import DispatchEntry
from rocketeer.record.ids import offset_msg_id
from rocketeer.record.layout import HEAD, StoredMessage, body_crc, encode_record
from rocketeer.record.properties import encode_properties
from rocketeer.store.message_store import MessageStore
from support.broker import BrokerUnderTest, broker_at
from support.pairs import SEGMENT_BYTES
from support.stores import BORN_HOST, STORE_HOST, make_store, message
from support.transactions import Rig, ok

SECRET = b"of another topic"


def forged(log_offset: int, topic: str = "Mine", body: bytes = b"", **properties: str) -> StoredMessage:
    return StoredMessage(
        topic, 0, 0, log_offset, 0, 0, 0, 1, BORN_HOST, 1, STORE_HOST, 0, 0, body_crc(body), body,
        encode_properties(properties),
    )  # fmt: skip


async def send_forged(broker: BrokerUnderTest, record: bytes = b"", **properties: str) -> int:
    """Where a record lies that stands in the body of a message."""
    probe = await broker.send("T", b"")
    size = HEAD.size + 1 + len("T") + 2 + len("TAGS\x01TagA\x02CLUSTER\x01DefaultCluster")
    at = int(probe.ext["msgId"][-16:], 16) + size + HEAD.size
    sent = await broker.send("T", record or encode_record(forged(at, **properties)))
    assert int(sent.ext["msgId"][-16:], 16) + HEAD.size == at, "the place was guessed well"
    return at


async def asked(broker: BrokerUnderTest, code: int, at: int) -> tuple[int, str]:
    message_id = offset_msg_id(STORE_HOST, at)  # type: ignore[arg-type]
    fields: dict[str, Any] = {
        "offset": at, "group": "g", "delayLevel": 0, "msgId": message_id, "consumerGroup": "g", "clientId": "c",
    }  # fmt: skip
    answer = await broker.ask(code, fields)
    return answer.code, answer.remark or ""


async def test_a_record_in_a_body_is_neither_shown_nor_sent_back_nor_consumed_nor_resumed(
    tmp_path: Path,
) -> None:
    async with broker_at(tmp_path) as broker:
        at = await send_forged(broker)
        for code, text in (
            (RequestCode.VIEW_MESSAGE_BY_ID, "can not find message by the offset"),
            (RequestCode.CONSUMER_SEND_MSG_BACK, "look message by offset failed"),
            (RequestCode.CONSUME_MESSAGE_DIRECTLY, "can not find message by the offset"),
        ):
            refused, remark = await asked(broker, code, at)
            assert (refused, text in remark) == (ResponseCode.SYSTEM_ERROR, True), (code, remark)
        at = await send_forged(broker, topic=TRANS_HALF_TOPIC)
        refused, remark = await asked(broker, RequestCode.RESUME_CHECK_HALF_MESSAGE, at)
        assert "is no half message of this broker" in remark
        # What is a message is found as ever.
        sent = await broker.send("T", b"real")
        found, _ = await asked(broker, RequestCode.VIEW_MESSAGE_BY_ID, int(sent.ext["msgId"][-16:], 16))
        assert found == ResponseCode.SUCCESS


def put_forged(rig: Rig, like: StoredMessage, **properties: str) -> StoredMessage:
    at = rig.store.max_log_offset + HEAD.size
    record = msgspec.structs.replace(
        like, log_offset=at, properties=encode_properties({**like.properties_dict(), **properties})
    )
    assert rig.put(message(encode_record(record))).stored
    found = rig.store.message_at(at)  # type: ignore[arg-type]
    assert found is not None, "it looks like one"
    return found


@pytest.mark.parametrize(
    "target", [{"REAL_TOPIC": SCHEDULE_TOPIC, "REAL_QID": "²"}, {"REAL_TOPIC": "Others"}]
)
def test_a_half_message_in_a_body_ends_no_transaction(rig: Rig, target: dict[str, str]) -> None:
    """Asked after once it is known by what it says of itself; a copy that says the same was committed as it stood."""
    peer = rig.join()
    rig.prepare()
    rig.round()
    (question,) = peer.questions()
    copy = rig.halves()[-1]
    found = put_forged(rig, copy, **target)
    stored = DispatchEntry(found.log_offset, 0, "", 0, found.queue_offset, 0, 0, "", None, 0, 0)
    assert NOT_FOUND in str(rig.end(stored))
    assert rig.store.queues().count((SCHEDULE_TOPIC, 0)) == 0
    assert ok(rig.answer(question, 8)), "the real one is pending"
    assert rig.delivered() == [b"half"]


def looked_at(store: MessageStore) -> int:
    """How many blocks of 64 KB were brought into memory."""
    return sum(len(segment.seen) - segment.seen.count(0) for segment in store.log.segments)


@pytest.mark.parametrize("place", ["its own", "another"])
def test_a_size_that_only_a_body_tells_brings_no_file_into_memory(tmp_path: Path, place: str) -> None:
    store = make_store(tmp_path, segment_bytes=64 * SEGMENT_BYTES, message_bytes_max=SEGMENT_BYTES)
    store.open()
    at = store.max_log_offset + HEAD.size
    head = bytearray(encode_record(forged(at if place == "its own" else 5)))
    head[:4] = (40 * SEGMENT_BYTES).to_bytes(4, "big")
    store.append(message(bytes(head)))
    for _ in range(44):
        store.append(message(bytes(SEGMENT_BYTES)))
    before = looked_at(store)
    assert store.message_at(at) is None  # type: ignore[arg-type]
    assert looked_at(store) - before < 3
    store.close()


def test_every_legal_record_is_found(tmp_path: Path) -> None:
    largest = (16 << 20) - 200
    store = make_store(tmp_path, segment_bytes=64 * SEGMENT_BYTES, message_bytes_max=largest)
    store.open()
    stored = store.append(message(bytes(largest), properties={"p": "v" * 32_000}))
    found = store.message_at(stored.log_offset)
    assert found is not None
    assert len(found.body) == largest
    store.close()
