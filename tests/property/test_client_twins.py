"""The client's compiled steps and their plain twins give the same bytes, or the same errors."""

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketeer.client.core import batch_items_plain, in_flight_plain, received_split_plain
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.compiled import COMPILED
from rocketeer.model.message import InvalidMessage, Message
from rocketeer.model.queue import MessageQueue
from rocketeer.record.layout import MAGIC

if COMPILED or TYPE_CHECKING:
    from rocketeer.client.core import _batch_items, _in_flight, _received_split

pytestmark = pytest.mark.skipif(not COMPILED, reason="without compiled modules there is nothing to compare")
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
    for given_identities in (identities, [*identities, "one too many"]):
        assert outcome(_batch_items.pack_items, sent, given_identities, instance, whole) == outcome(
            batch_items_plain.pack_items, sent, given_identities, instance, whole
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
    expected = received_split_plain.split(body, as_tuple, QUEUE, "shop", 3, 99)
    assert _received_split.split(body, as_tuple, QUEUE, "shop", 3, 99) == expected


def test_both_make_the_same_messages() -> None:
    body = (
        (91).to_bytes(4, "big")
        + MAGIC.to_bytes(4, "big", signed=True)
        + bytes(12)
        + (5).to_bytes(8, "big")
        + bytes(63)
    ) * 2
    for split in (received_split_plain.split, _received_split.split):
        found, end = split(body, ReceivedMessage, QUEUE, None, 3, 99)
        assert (end, [(each.queue_offset, each.size) for each in found]) == (182, [(5, 91), (5, 91)])


class Seeker:
    def __init__(self, size: int) -> None:
        self.size, self.entered, self.given_up = size, False, False

    def done(self) -> bool:
        return self.given_up

    def enter(self) -> None:
        self.entered = True

    def set_exception(self, error: Exception, /) -> None: ...


sizes = st.integers(0, 9)
steps = st.lists(
    st.tuples(st.sampled_from(["try_enter", "seek", "seek", "leave", "give up", "admit"]), sizes), max_size=30
)


@given(steps=steps, count_max=st.integers(1, 4), bytes_max=st.integers(0, 20))
def test_places_in_flight(steps: list[tuple[str, int]], count_max: int, bytes_max: int) -> None:
    seen = []
    for twin in (_in_flight, in_flight_plain):
        places: Any = twin.InFlight(count_max, bytes_max, "unread")
        seekers: list[Seeker] = []
        answers: list[Any] = []
        for step, size in steps:
            if step == "seek":
                seekers.append(Seeker(size))
                answers.append(places.seek(seekers[-1]))
            elif step == "give up":
                for seeker in seekers[size : size + 1]:
                    seeker.given_up = True
            elif step == "leave":
                answers.append(outcome(places.leave, size, 1 + size % 2) if places.count > size % 2 else None)
            else:
                answers.append(getattr(places, step)(*[size][: step == "try_enter"]))
            answers.append(
                (places.count, str(places), len(places.waiting), [each.entered for each in seekers])
            )
        seen.append(answers)
    assert seen[0] == seen[1]


def test_nobody_leaves_who_did_not_enter() -> None:
    for twin in (_in_flight, in_flight_plain):
        with pytest.raises(AssertionError, match="left more often"):
            twin.InFlight(1, 1).leave(0)
