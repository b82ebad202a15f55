"""Pulled messages: decoded only when asked, the same values the full decoder gives."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketeer.client.core.iteration import IterationBuffer, hand_out
from rocketeer.client.core.process_queue import ProcessQueue
from rocketeer.client.core.received import ReceivedMessage, split_messages
from rocketeer.errors import BadRecord
from rocketeer.model.queue import MessageQueue
from rocketeer.record.compression import compress
from rocketeer.record.flags import Compression
from rocketeer.record.hosts import encode_host, host_text
from rocketeer.record.layout import PendingMessage, encode_pending
from rocketeer.record.properties import encode_properties
from support.records import sent_body, split_records

WIRE = Path(__file__).parents[2] / "golden" / "data" / "wire"
QUEUE = MessageQueue("T", "broker-a", 0)


def pulled_bodies() -> list[bytes]:
    found = []
    for name in ("push_consume", "pull_consumer", "lite_pull", "retry_dlq", "broadcast", "order_consume"):
        for line in (WIRE / f"{name}.jsonl").read_text().splitlines():
            frame = json.loads(line)
            if frame.get("request_code") == 11 and frame["header"]["code"] == 0 and frame.get("body_hex"):
                found.append(bytes.fromhex(frame["body_hex"]))
    return found


def record(
    offset: int, body: bytes = b"x", topic: str = "T", properties: dict[str, str] | None = None, **fields: int
) -> bytes:
    v6 = fields.pop("v6", 0)
    message = PendingMessage(
        topic=topic, queue_id=3, flag=7, sys_flag=0, born_ms=1000,
        born_host=encode_host("2001:db8::1" if v6 else "10.0.0.1", 4000), body=body,
        properties=encode_properties(properties or {}),
    )  # fmt: skip
    for name, value in fields.items():
        setattr(message, name, value)
    store_host = encode_host("10.0.0.2", 10911)
    return encode_pending(
        message, queue_offset=offset, log_offset=offset * 100, store_ms=2000, store_host=store_host
    )


def test_recorded_pulls_give_what_the_full_decoder_gives() -> None:
    bodies = pulled_bodies()
    assert len(bodies) > 10
    for body in bodies:
        for lazy, full in zip(split_messages(body, QUEUE), split_records(body), strict=True):
            assert lazy.queue_offset == full.queue_offset
            assert lazy.body == sent_body(full)
            assert lazy.stored_topic == full.topic
            assert lazy.properties == full.properties_dict()
            assert lazy.offset_message_id == full.offset_msg_id
            assert (lazy.born_ms, lazy.store_ms, lazy.flag) == (full.born_ms, full.store_ms, full.flag)
            assert (lazy.born_host, lazy.store_host) == (
                host_text(full.born_host),
                host_text(full.store_host),
            )
            assert lazy.reconsume_times == full.reconsume_times
            assert lazy.stored_queue_id == full.queue_id
            assert (lazy.log_offset, lazy.size) == (full.log_offset, full.size)


def test_a_retry_shows_the_topic_it_was_sent_to() -> None:
    raw = record(1, topic="%RETRY%G", properties={"RETRY_TOPIC": "Orders"}, reconsume_times=2)
    (message,) = split_messages(raw, MessageQueue("%RETRY%G", "b", 0))
    assert (message.topic, message.stored_topic, message.reconsume_times) == ("Orders", "%RETRY%G", 2)
    message.retried += 1
    assert message.reconsume_times == 3


def test_a_namespace_is_not_shown() -> None:
    raw = record(1, topic="shop%Orders")
    (message,) = split_messages(raw, MessageQueue("shop%Orders", "b", 0), namespace="shop")
    assert (message.topic, message.origin_topic) == ("Orders", "shop%Orders")


def test_packed_bodies_are_opened_and_ipv6_hosts_read() -> None:
    raw = record(1, compress(b"a" * 9000), sys_flag=Compression.ZLIB.sys_flag, v6=1)
    (message,) = split_messages(raw, QUEUE)
    assert message.body == b"a" * 9000
    assert message.body is message.body, "opened once"
    assert message.born_host == "[2001:db8::1]:4000"


def test_only_the_tags_asked_for_are_kept() -> None:
    raw = b"".join(
        record(n, properties={"TAGS": tag} if tag else {}) for n, tag in enumerate(["a", "b", "", "a"])
    )
    assert [message.queue_offset for message in split_messages(raw, QUEUE, tags=frozenset({"a"}))] == [0, 3]


@given(cut=st.integers(1, 92))
def test_a_body_that_is_cut_short_is_refused(cut: int) -> None:
    raw = record(1) + record(2)
    with pytest.raises(BadRecord):
        split_messages(raw[:-cut], QUEUE)


def test_the_text_of_a_message_names_it() -> None:
    (message,) = split_messages(record(5, properties={"TAGS": "new", "KEYS": "a b", "UNIQ_KEY": "ID"}), QUEUE)
    assert repr(message) == (
        "ReceivedMessage(topic='T', tags='new', keys=['a', 'b'], queue=broker-a:0, offset=5, id=ID)"
    )


# --- lent to a loop --------------------------------------------------------------------------


def held_with(*offsets: int, next_offset: int) -> ProcessQueue:
    held = ProcessQueue(QUEUE, offsets[0])
    held.put([ReceivedMessage(bytes(100), QUEUE, offset, 100) for offset in offsets], next_offset)
    return held


def test_a_message_counts_when_the_next_one_is_asked_for() -> None:
    held = held_with(3, 5, 6, next_offset=10)
    iteration = IterationBuffer()
    iteration.add(hand_out(held, 2))
    iteration.add(hand_out(held, 2))
    seen = []
    marks = []
    while (message := iteration.next()) is not None:
        seen.append(message.queue_offset)
        marks.append(iteration.done.get(QUEUE))
    assert seen == [3, 5, 6]
    assert marks == [None, 5, 6], "offsets in between held nothing for us"
    assert iteration.done == {QUEUE: 10}


def test_what_the_loop_did_not_take_is_not_consumed() -> None:
    iteration = IterationBuffer()
    iteration.add(hand_out(held_with(0, 1, 2, next_offset=3), 3))
    iteration.next()
    iteration.next()
    assert iteration.done == {QUEUE: 1}, "the last one counts when the next is asked for"


def test_messages_of_a_queue_that_was_let_go_are_not_given() -> None:
    held = held_with(0, 1, next_offset=2)
    iteration = IterationBuffer()
    iteration.add(hand_out(held, 2))
    assert iteration.next() is not None
    held.dropped = True
    assert iteration.next() is None
    assert iteration.done == {}
