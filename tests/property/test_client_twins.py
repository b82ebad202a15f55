"""The client's compiled steps and their plain twins give the same bytes, or the same errors."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketeer.client.core import batch_items_plain
from rocketeer.client.core.received import ReceivedMessage, split_plain
from rocketeer.model.message import InvalidMessage, Message
from rocketeer.model.queue import MessageQueue
from rocketeer.record.layout import MAGIC

_batch_items: Any = pytest.importorskip(
    "rocketeer.client.core._batch_items", reason="installed without a C compiler"
)


_received_split: Any = pytest.importorskip("rocketeer.client.core._received_split")
QUEUE = MessageQueue("T", "b", 1)


def outcome(function: Any, *arguments: Any) -> object:
    """What it returns, or what it raises."""
    try:
        return function(*arguments)
    except Exception as error:
        return type(error), str(error)


texts = st.one_of(st.sampled_from(["a", "größe", "k1 k2", "\ud800", "x" * 40_000]), st.text(max_size=8))
bodies = st.binary(min_size=0, max_size=40)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    given_texts = {
        name: value
        for name in ("tags", "keys", "sharding_key")
        if (value := draw(st.none() | texts)) is not None
    }
    properties = draw(st.dictionaries(texts, texts, max_size=3))
    timing = draw(st.sampled_from([{}, {}, {}, {"delay_level": 3}, {"delay": 2.5}]))
    flag = draw(st.integers(-(2**31), 2**31 - 1))
    arguments: dict[str, Any] = {**given_texts, **timing, "wait_stored": draw(st.booleans()), "flag": flag}
    try:
        message = Message("T", draw(bodies), properties=properties, **arguments)
    except InvalidMessage:
        message = Message("T", draw(bodies), **timing, flag=flag)
    if draw(st.integers(0, 9)) == 0:  # the dict is the user's to spoil
        message.properties["spoilt"] = "a\x02b"  # type: ignore[index]
    return message


@settings(deadline=None, max_examples=300)
@given(
    sent=st.lists(messages(), max_size=5),
    instance=st.sampled_from([None, "", "shop"]),
    whole=st.booleans(),
)
def test_items_of_a_batch(sent: list[Message], instance: str | None, whole: bool) -> None:
    identities = [f"ID{number:04X}" for number in range(len(sent))]
    assert outcome(_batch_items.pack_items, sent, identities, instance, whole) == outcome(
        batch_items_plain.pack_items, sent, identities, instance, whole
    )


def as_tuple(
    raw: bytes, queue: MessageQueue, offset: int, size: int, namespace: str | None, low: int, high: int
) -> Any:
    return raw, queue, offset, size, namespace, low, high


records = st.builds(
    lambda size, magic, offset, extra: (
        size.to_bytes(4, "big", signed=True) + magic.to_bytes(4, "big", signed=True) + bytes(12)
        + offset.to_bytes(8, "big", signed=True) + bytes(max(0, size - 28 + extra))
    ),
    st.integers(-1, 140) | st.integers(91, 140),
    st.sampled_from([MAGIC, MAGIC, MAGIC, 7]),
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([0, 0, 0, -1, 2]),
)  # fmt: skip


@settings(deadline=None, max_examples=300)
@given(body=st.lists(records, max_size=5).map(b"".join), cut=st.integers(0, 30))
def test_messages_of_a_pull_reply(body: bytes, cut: int) -> None:
    body = body[: max(0, len(body) - cut)]
    expected = split_plain(body, as_tuple, QUEUE, "shop", 3, 99)
    assert _received_split.split(body, as_tuple, QUEUE, "shop", 3, 99) == expected


def test_both_make_the_same_messages() -> None:
    body = (
        (91).to_bytes(4, "big")
        + MAGIC.to_bytes(4, "big", signed=True)
        + bytes(12)
        + (5).to_bytes(8, "big")
        + bytes(63)
    ) * 2
    for split in (split_plain, _received_split.split):
        found, end = split(body, ReceivedMessage, QUEUE, None, 3, 99)
        assert (end, [(each.queue_offset, each.size) for each in found]) == (182, [(5, 91), (5, 91)])
