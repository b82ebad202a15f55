"""What leaves for the broker, compared with what the Java client was seen to send."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketeer.client.core.config import ProducerConfig
from rocketeer.client.core.encoding import Encoder, properties_text, split_batch
from rocketeer.client.core.nameservers import NameServers
from rocketeer.client.core.routes import RouteCache
from rocketeer.client.plans.send import Sender
from rocketeer.errors import InvalidTopic, MessageTooLarge
from rocketeer.model.message import InvalidMessage, Message
from rocketeer.model.queue import MessageQueue
from rocketeer.record.batch import iter_batch
from rocketeer.record.compression import decompress
from rocketeer.record.ids import UniqKeys
from rocketeer.record.properties import decode_properties
from support.clock import ManualClock

WIRE = Path(__file__).parents[2] / "golden" / "data" / "wire" / "producer.jsonl"


def encoder(**options: Any) -> Encoder:
    return Encoder(ProducerConfig("g", **options), UniqKeys("127.0.0.1", 1, ManualClock()))


def recorded(code: int) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in WIRE.read_text().splitlines()]
    return [
        line
        for line in lines
        if line["dir"] != "response"
        and line["header"]["code"] == code
        # `bname` (n) tells real clients from requests composed by hand
        and "n" in line["header"]["extFields"]
        and "body_hex" in line
        and "BUYER_ID" not in line["header"]["extFields"]["i"]  # our messages have no such argument
    ]


def as_message(fields: dict[str, str], body: bytes) -> Message:
    properties = decode_properties(fields["i"].encode())
    known = {name: properties.pop(name, None) for name in ("KEYS", "TAGS", "WAIT", "UNIQ_KEY", "DELAY")}
    return Message(
        fields["b"],
        decompress(body, int(fields["f"])),
        tags=known["TAGS"],
        keys=known["KEYS"],
        properties=properties,
        flag=int(fields["h"]),
        wait_stored=known["WAIT"] == "true",
        delay_level=int(known["DELAY"] or 0),
    )


@pytest.mark.parametrize("line", recorded(310), ids=lambda line: str(line["header"]["opaque"]))
def test_a_send_is_the_same_request_as_the_java_clients(line: dict[str, Any]) -> None:
    fields = dict(line["header"]["extFields"])
    body = bytes.fromhex(line["body_hex"])
    clock = ManualClock(start_ms=int(fields["g"]))
    config = ProducerConfig(fields["a"], create_topic_key=fields["c"], default_topic_queues=int(fields["d"]))
    sender = Sender(config, RouteCache(), NameServers(["ns:1"]), clock)
    outgoing = Encoder(config, UniqKeys("127.0.0.1", 1, clock)).encode(as_message(fields, body))
    outgoing.properties["UNIQ_KEY"] = decode_properties(fields["i"].encode())["UNIQ_KEY"]

    command = sender.request(outgoing, MessageQueue(fields["b"], fields["n"], int(fields["e"])))

    assert command.code == 310
    assert decode_properties(command.ext.pop("i").encode()) == decode_properties(fields.pop("i").encode())
    assert command.ext == fields
    assert command.body == body, "compressed alike too"


@pytest.mark.parametrize("line", recorded(320), ids=lambda line: str(line["header"]["opaque"]))
def test_a_batch_is_the_same_request_as_the_java_clients(line: dict[str, Any]) -> None:
    fields = line["header"]["extFields"]
    theirs = list(iter_batch(bytes.fromhex(line["body_hex"])))
    messages = []
    for item in theirs:
        parts = {**fields, "i": item.properties.decode(), "f": "0", "h": str(item.flag)}
        messages.append(as_message(parts, item.body))
    outgoing = encoder().encode(messages)
    ours = list(iter_batch(outgoing.body))
    assert [(item.flag, item.body) for item in ours] == [(item.flag, item.body) for item in theirs]
    for mine, other in zip(ours, theirs, strict=True):
        a, b = decode_properties(mine.properties), decode_properties(other.properties)
        assert (a.pop("UNIQ_KEY") in outgoing.message_ids, b.pop("UNIQ_KEY") != "") == (True, True)
        assert a == b
    assert properties_text(outgoing.properties) == fields["i"]
    assert outgoing.batch


def test_every_message_gets_its_own_id() -> None:
    both = encoder()
    first, second = both.encode(Message("T", b"x")), both.encode(Message("T", b"x"))
    assert first.message_ids != second.message_ids
    assert first.properties["UNIQ_KEY"] == first.message_ids


def test_bodies_from_4_kb_are_compressed_and_come_back_whole() -> None:
    body = b"rocket" * 1000
    outgoing = encoder().encode(Message("T", body))
    assert outgoing.sys_flag == 0x301
    assert len(outgoing.body) < 100
    assert decompress(outgoing.body, outgoing.sys_flag) == body
    small = encoder().encode(Message("T", b"x" * 4095))
    assert (small.sys_flag, len(small.body)) == (0, 4095)


def test_namespaces_travel_in_the_topic_and_a_property() -> None:
    outgoing = encoder(namespace="shop").encode(Message("T", b"x"))
    assert outgoing.topic == "shop%T"
    assert outgoing.properties["INSTANCE_ID"] == "shop"


def test_messages_on_their_way_to_a_retry_topic_carry_their_counts_in_the_header() -> None:
    parts = {"RECONSUME_TIME": "3", "MAX_RECONSUME_TIMES": "16", "UNIQ_KEY": "K"}
    outgoing = encoder().raw("%RETRY%g", b"x", parts)
    assert (outgoing.reconsume_times, outgoing.max_reconsume_times) == (3, 16)
    assert outgoing.properties == {"UNIQ_KEY": "K"}


def test_what_no_broker_would_take_is_refused_before_it_leaves() -> None:
    with pytest.raises(InvalidMessage, match="empty body"):
        encoder().encode(Message("T", b""))
    with pytest.raises(MessageTooLarge, match="limit of 4194304"):
        encoder().encode(Message("T", b"x" * (4 * 1024 * 1024 + 1)))
    with pytest.raises(InvalidTopic, match="forbidden"):
        encoder().encode(Message("SCHEDULE_TOPIC_XXXX", b"x"))
    with pytest.raises(MessageTooLarge, match="properties"):
        properties_text({"big": "é" * 20_000})
    with pytest.raises(InvalidMessage, match="not int"):
        encoder().encode(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([], "empty list"),
        ([Message("T", b"x"), Message("U", b"x")], "one topic"),
        ([Message("T", b"x"), Message("T", b"x", wait_stored=False)], "wait_stored"),
        ([Message("T", b"x", delay_level=3)], "delay_level"),
        ([Message("%RETRY%g", b"x")], "retry topic"),
        ([Message("T", b"x"), "y"], "not str"),
    ],
)
def test_what_cannot_be_one_batch_is_refused(messages: list[Any], why: str) -> None:
    with pytest.raises(InvalidMessage, match=why):
        encoder().encode(messages)


def test_a_batch_over_the_limit_points_to_the_splitter() -> None:
    with pytest.raises(MessageTooLarge, match="split_batch"):
        encoder().encode([Message("T", b"x" * 1_000_000) for _ in range(5)])


@given(
    st.lists(st.integers(1, 3000), max_size=40),
    st.integers(4000, 9000),
    st.text("abc", min_size=1, max_size=200),
)
def test_split_batches_fit_and_keep_every_message_in_order(sizes: list[int], limit: int, tags: str) -> None:
    messages = [Message("T", bytes([65 + n % 26]) * size, tags=tags) for n, size in enumerate(sizes)]
    parts = list(split_batch(messages, bytes_max=limit))
    assert [message for part in parts for message in part] == messages
    limited = encoder(message_bytes_max=limit)
    for part in parts:
        assert part
        assert limited.encode(part).size <= limit


def test_a_message_too_large_for_any_batch_is_named() -> None:
    with pytest.raises(MessageTooLarge, match="'T'"):
        list(split_batch([Message("T", b"x" * 2000)], bytes_max=1000))
