"""Batches whose messages have ids: new ones take the compiled way, and either way gives the same answers and tables."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rocketeer.broker.features.idempotence.resends import IdempotenceLimits
from rocketeer.compiled import COMPILED
from rocketeer.model.topic import TopicConfig
from rocketeer.protocol.frame import JSON, pack_frame
from rocketeer.record.batch import BatchItem, encode_batch
from support.sending import CLAIMED, NAMED_BATCH_MAX, Sending, header, same
from support.stores import memory_folder

pytestmark = pytest.mark.skipif(not COMPILED, reason="the compiled modules are not in use")

SMALL = IdempotenceLimits(ids=12, numbers=3)
"""So that most ids fall out of it."""


def batch(items: list[bytes], properties: str = "", opaque: int = 7, **ext: Any) -> bytes:
    fields = {
        "a": "group", "b": "Known", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1700000000000", "h": "0",
        "i": properties, "j": "0", "k": "false", "m": "true",
    } | ext  # fmt: skip
    body = encode_batch([BatchItem(0, b"%d" % at, text) for at, text in enumerate(items)])
    return pack_frame(JSON, header(320, fields, opaque=opaque), body)


def named(dedup_id: str, producer: str = "p") -> bytes:
    return f"TAGS\x01t\x02PRODUCER_ID\x01{producer}\x02DEDUP_ID\x01{dedup_id}".encode()


pieces = st.one_of(
    st.builds("PRODUCER_ID\x01{}".format, st.sampled_from(["p", "q", "", "ü", "r" * 128, "r" * 129])),
    st.builds("DEDUP_ID\x01{}".format, st.sampled_from(["", "ä", "i" * 256, "i" * 257, "1", "2"])),
    st.builds("PRODUCER_SEQ\x01{}".format, st.integers(0, 3)),
    st.sampled_from(
        ["TAGS\x01t", "KEYS\x01k", "own\x01v", f"{CLAIMED}\x011", "PRODUCER_ID", "DEDUP_ID\x01a\x01b"]
    ),
)
odd_items = st.lists(pieces, max_size=5).map(lambda found: "\x02".join(found).encode())
new_items = st.builds(named, st.integers(0, 25).map(str), st.sampled_from(["p", "q"]))
items = st.one_of(new_items, new_items, new_items, new_items, odd_items)
batches = st.builds(
    batch,
    st.lists(items, min_size=1, max_size=5),
    st.sampled_from(["", "", "", "WAIT\x01false", "DEDUP_ID\x01x", "PRODUCER_ID\x01p", "PRODUCER_SEQ\x010"]),
    e=st.sampled_from(["0", "1"]),
    b=st.sampled_from(["Known", "Known", "Known", "%DLQ%g"]),
)


NOT_TAKEN = batch([named("0"), b"PRODUCER_ID\x01p\x02PRODUCER_SEQ\x011"])
"""Its first id is held already when its second message makes it one for the general way."""


@settings(deadline=None, max_examples=150)
@example(turns=[batch([b""]) + NOT_TAKEN])
@given(turns=st.lists(st.lists(batches, min_size=1, max_size=4).map(b"".join), max_size=6))
def test_either_way_finds_the_same_resends(turns: list[bytes]) -> None:
    with memory_folder() as folder:
        fast, general = (Sending(Path(folder) / name, [], known=SMALL) for name in "ab")
        for sending in (fast, general):
            sending.topics.put(TopicConfig("%DLQ%g", read_queues=4, write_queues=4))
        for data in turns:
            fast.serve_fast(data)
            general.serve_general(data)
        same(fast, general)


def test_new_ids_are_taken_in_bulk_and_known_ones_are_not(tmp_path: Path) -> None:
    sending = Sending(tmp_path, [], known=IdempotenceLimits())
    new = batch([named(str(at)) for at in range(5)]) + batch([named(str(at)) for at in range(5, 9)])
    assert sending.serve_fast(new) == len(new)
    assert sending.store.max_queue_offset("Known", 1) == 9
    assert sending.serve_fast(new) == 0, "left to the general way, which answers with the first places"
    partly = batch([named("8"), named("9")])
    assert sending.serve_fast(partly) == 0
    assert sending.store.max_queue_offset("Known", 1) == 10
    first, second, first_again, second_again, both = [each.ext["msgId"] for each in sending.peer.commands()]
    assert (first, second) == (first_again, second_again)
    assert both.split(",")[0] == second.split(",")[-1]
    sending.store.close()


@pytest.mark.parametrize(
    "data",
    [
        batch([named("1"), named("1")]),
        batch([named("1")]) + batch([named("2"), named("1")]),
        batch([named("1")], e="0") + batch([named("1")], e="2"),
    ],
)
def test_an_id_that_comes_twice_in_one_turn_is_stored_once(data: bytes) -> None:
    with memory_folder() as folder:
        fast, general = (Sending(Path(folder) / name, [], known=IdempotenceLimits()) for name in "ab")
        fast.serve_fast(data)
        general.serve_general(data)
        assert fast.resends is not None
        assert fast.stored()["log"].count(b"DEDUP_ID\x011\x02") == 1
        same(fast, general)


def test_a_batch_that_was_not_taken_leaves_its_ids_free(tmp_path: Path) -> None:
    """The last message makes the batch other than plain, and the general way refuses all of it."""
    sending = Sending(tmp_path, [], known=IdempotenceLimits())
    refused = batch([named("1"), b"PRODUCER_ID\x01p\x02PRODUCER_SEQ\x017"])
    assert sending.serve_fast(refused) == 0
    assert sending.peer.commands()[0].code != 0
    again = batch([named("1")])
    assert sending.serve_fast(again) == len(again)
    sending.store.close()


@pytest.mark.parametrize("more", [0, 1])
def test_a_batch_with_ids_is_as_large_as_the_general_way_allows(more: int, tmp_path: Path) -> None:
    sending = Sending(
        tmp_path, [], known=IdempotenceLimits(), message_bytes_max=4 << 20, segment_bytes=16 << 20
    )
    data = batch([named(str(at)) for at in range(NAMED_BATCH_MAX + more)])
    assert sending.serve_fast(data) == (0 if more else len(data))
    assert sending.store.max_queue_offset("Known", 1) == (0 if more else NAMED_BATCH_MAX)
    sending.store.close()


def test_ids_wait_for_no_more_than_their_records(tmp_path: Path) -> None:
    """Replies that wait for the disk: the ids are known at once, a resend waits as the first did."""
    held: list[Any] = []
    sending = Sending(tmp_path, [lambda end, answer: held.append((end, answer))], known=IdempotenceLimits())
    data = batch([named("1"), named("2")])
    assert sending.serve_fast(data) == len(data)
    assert sending.serve_fast(data) == 0
    assert not sending.peer.told
    assert held[0][0] == held[1][0]
    for _, answer in held:
        answer(0)
    first, again = sending.peer.commands()
    assert first.ext == again.ext
    sending.store.close()
