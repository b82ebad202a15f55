"""Sends taken in compiled runs are stored and answered as the general path does it, whatever comes in whatever order."""

from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketeer.compiled import COMPILED
from rocketeer.config import ServerLimits
from rocketeer.protocol.frame import JSON, pack_frame
from rocketeer.record.batch import BatchItem, encode_batch
from rocketeer.remoting.connection import Connection
from support.sending import CLAIMED, Sending, header, no_utf8, requests, same
from support.stores import bodies, memory_folder

SEND = {
    "a": "group", "b": "Known", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1700000000000", "h": "0", "i": "",
    "j": "0", "k": "false", "m": "false",
}  # fmt: skip

pytestmark = pytest.mark.skipif(not COMPILED, reason="the compiled modules are not in use")


@settings(deadline=None, max_examples=150)
@given(data=st.lists(requests(), max_size=12).map(b"".join))
def test_a_run_is_what_one_by_one_would_have_been(data: bytes) -> None:
    with memory_folder() as folder:
        fast, general = Sending(Path(folder) / "a", []), Sending(Path(folder) / "b", [])
        fast.serve_fast(data)
        general.serve_general(data)
        same(fast, general)


@pytest.mark.parametrize("code", [0, 10])
@settings(deadline=None, max_examples=40)
@given(data=st.lists(requests(), max_size=8).map(b"".join))
def test_replies_that_wait_for_the_disk_say_the_same_later(code: int, data: bytes) -> None:
    held: list[Any] = []

    def durable(end: int, answer: Any) -> None:
        held.append(answer)

    with memory_folder() as folder:
        fast, general = Sending(Path(folder) / "a", [durable]), Sending(Path(folder) / "b", [durable])
        for sending, serve in ((fast, fast.serve_fast), (general, general.serve_general)):
            serve(data)
            for answer in held:
                answer(code)
            held.clear()
            told = sorted((each.opaque, each.code, str(each.ext)) for each in sending.peer.commands())
            sending.peer.told = b""
            sending.waiting = told
        assert fast.waiting == general.waiting
        same(fast, general)


def test_what_java_sends_is_taken_whole(tmp_path: Path) -> None:
    ext = {
        "a": "group", "b": "Known", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1700000000000", "h": "0",
        "i": "KEYS\x01k1 k2\x02UNIQ_KEY\x017F01\x02WAIT\x01true\x02TAGS\x01t\x02own\x01value", "j": "0", "k": "false",
        "m": "false",
    }  # fmt: skip
    one = pack_frame(JSON, header(310, ext), b"body")
    many = pack_frame(
        JSON,
        header(320, ext | {"m": "true", "i": "WAIT\x01true\x02UNIQ_KEY\x017F02"}),
        encode_batch([BatchItem(0, b"a", b"KEYS\x01k\x02TAGS\x01t"), BatchItem(1, b"b", b"")]),
    )
    sending = Sending(tmp_path, [])
    assert sending.serve_fast(one + many + one) == len(one + many + one)
    assert sending.store.max_queue_offset("Known", 1) == 4
    assert [len(command.ext["msgId"].split(",")) for command in sending.peer.commands()] == [1, 2, 1]
    sending.store.close()


ANY_LANGUAGE = "KEYS\x01订单 größe🚀\x02TAGS\x01ü\x02所有者\x01王"


def test_keys_tags_and_properties_of_any_language_are_taken_whole(tmp_path: Path) -> None:
    one = pack_frame(JSON, header(310, SEND | {"i": ANY_LANGUAGE}), b"body")
    data = one + batch_of([BatchItem(0, b"x", ANY_LANGUAGE.encode())] * 100, ANY_LANGUAGE)
    sizes = {"message_bytes_max": 4 << 20, "segment_bytes": 16 << 20}
    fast, general = Sending(tmp_path / "a", [], **sizes), Sending(tmp_path / "b", [], **sizes)
    assert fast.serve_fast(data) == len(data)
    general.serve_general(data)
    assert fast.store.max_queue_offset("Known", 1) == 101
    same(fast, general)


@settings(max_examples=40)
@given(broken=no_utf8)
def test_a_header_that_is_no_utf_8_is_left_to_the_decoder_that_refuses_it(broken: bytes) -> None:
    data = pack_frame(JSON, header(310, SEND | {"i": "KEYS\x01?"}).replace(b"?", broken), b"body")
    with memory_folder() as folder:
        sending = Sending(Path(folder), [])
        assert sending.plain_sends is not None
        assert sending.plain_sends.serve_front(data, cast(Connection, sending.peer)) == 0
        sending.store.close()


@pytest.mark.parametrize("odd", range(3))
@pytest.mark.parametrize("text", ["WAIT\x01TRUE", f"{CLAIMED}\x013", "KEYS\x01größe", "TAGS\x01ü"])
def test_no_message_of_a_batch_is_left_out_because_it_is_not_plain(text: str, odd: int) -> None:
    ext = {
        "a": "group", "b": "Known", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1700000000000", "h": "0",
        "i": "", "j": "0", "k": "false", "m": "true",
    }  # fmt: skip
    items = [BatchItem(0, b"%d" % at, text.encode() if at == odd else b"TAGS\x01t") for at in range(3)]
    data = pack_frame(JSON, header(320, ext), encode_batch(items))
    with memory_folder() as folder:
        fast, general = Sending(Path(folder) / "a", []), Sending(Path(folder) / "b", [])
        fast.serve_fast(data)
        general.serve_general(data)
        if CLAIMED not in text:
            assert fast.store.max_queue_offset("Known", 1) == 3
        same(fast, general)


@pytest.mark.parametrize("sys_flag", ["4", "8", "12"])
def test_a_batch_in_a_transaction_is_refused_by_either_way(tmp_path: Path, sys_flag: str) -> None:
    ext = {
        "a": "group", "b": "Known", "c": "TBW102", "d": "4", "e": "1", "f": sys_flag, "g": "1700000000000", "h": "0",
        "i": "", "j": "0", "k": "false", "m": "true",
    }  # fmt: skip
    data = pack_frame(JSON, header(320, ext), encode_batch([BatchItem(0, b"x", b"")]))
    fast, general = Sending(tmp_path / "a", []), Sending(tmp_path / "b", [])
    fast.serve_fast(data)
    general.serve_general(data)
    assert fast.store.max_queue_offset("Known", 1) == 0
    same(fast, general)


def batch_of(items: list[BatchItem], properties: str = "") -> bytes:
    ext = {
        "a": "group", "b": "Known", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1700000000000", "h": "0",
        "i": properties, "j": "0", "k": "false", "m": "true",
    }  # fmt: skip
    return pack_frame(JSON, header(320, ext), encode_batch(items))


@pytest.mark.parametrize("before", [0, 1, 3000])
def test_a_batch_larger_than_the_buffer_is_taken_whole(before: int, tmp_path: Path) -> None:
    sending = Sending(tmp_path, [], message_bytes_max=4 << 20, segment_bytes=16 << 20)
    small = batch_of([BatchItem(0, b"x", b"")] * before) if before else b""
    large = batch_of([BatchItem(0, b"%d" % at, b"KEYS\x01k%d" % at) for at in range(16_384)])
    data = small + large + batch_of([BatchItem(0, b"last", b"TAGS\x01t")])
    sending.serve_fast(data)
    assert [len(command.ext["msgId"].split(",")) for command in sending.peer.commands()] == [
        *([before] if before else []), 16_384, 1,
    ]  # fmt: skip
    found = sending.store.get("Known", 1, before, 32)
    assert b"KEYS\x01k0\x02" in bytes(found.parts[0])
    assert sending.store.max_queue_offset("Known", 1) == before + 16_385
    at = before + 16_383
    assert b"16383" in b"".join(map(bytes, sending.store.get("Known", 1, at, 1).parts))
    sending.store.close()


@pytest.mark.parametrize(("keys", "stored"), [(3_200, 20), (3_300, 0)])
def test_a_batch_has_no_more_keys_than_the_index_takes_in_one_go(
    tmp_path: Path, keys: int, stored: int
) -> None:
    data = batch_of([BatchItem(0, b"x", b"KEYS\x01" + b"k " * keys)] * 20)
    sizes = {"message_bytes_max": 4 << 20, "segment_bytes": 16 << 20}
    fast, general = Sending(tmp_path / "a", [], **sizes), Sending(tmp_path / "b", [], **sizes)
    fast.serve_fast(data)
    general.serve_general(data)
    assert fast.store.max_queue_offset("Known", 1) == stored
    same(fast, general)


def test_messages_with_very_many_keys_are_taken_in_runs_of_a_few(tmp_path: Path) -> None:
    one = batch_of([BatchItem(0, b"x", b"KEYS\x01" + b"k " * 16_000)])
    # One file of the index for all of them: 800,000 keys are the point, not thousands of small files.
    index = {"index_slots": 10_000, "index_entries": 1_000_000}
    sending = Sending(tmp_path, [], message_bytes_max=4 << 20, segment_bytes=16 << 20, **index)
    assert sending.serve_fast(one * 50) == len(one) * 50
    assert sending.store.max_queue_offset("Known", 1) == 50
    assert [command.code for command in sending.peer.commands()] == [0] * 50
    sending.store.close()


def test_long_properties_in_common_leave_no_room_and_lose_nothing(tmp_path: Path) -> None:
    sending = Sending(tmp_path, [], message_bytes_max=4 << 20, segment_bytes=64 << 20)
    wide = batch_of([BatchItem(0, b"", b"")] * 100, "p\x01" + "v" * 30_000)
    narrow = batch_of([BatchItem(0, b"end", b"")])
    sending.serve_fast(wide + wide + narrow)
    assert [command.code for command in sending.peer.commands()] == [0, 0, 0]
    assert sending.store.max_queue_offset("Known", 1) == 201
    sending.store.close()


@pytest.mark.parametrize("over", [0, 1])
def test_a_send_whose_header_is_above_the_limit_is_refused_by_either_way(tmp_path: Path, over: int) -> None:
    limit = ServerLimits().header_bytes
    head = header(310, SEND)
    data = pack_frame(JSON, head[:-1] + b" " * (limit + over - len(head)) + b"}", b"body")
    fast, general = Sending(tmp_path / "a", []), Sending(tmp_path / "b", [])
    assert fast.serve_fast(data) == (0 if over else len(data))
    general.serve_general(data)
    assert fast.store.max_queue_offset("Known", 1) == 1 - over
    same(fast, general)


def test_an_incomplete_frame_is_left(tmp_path: Path) -> None:
    ext = {
        "a": "g", "b": "Known", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1", "h": "0", "i": "", "j": "0",
        "k": "false", "m": "false",
    }  # fmt: skip
    one = pack_frame(JSON, header(310, ext), b"body")
    sending = Sending(tmp_path, [])
    connection = cast(Connection, sending.peer)
    assert sending.plain_sends is not None
    for cut in range(len(one)):
        assert sending.plain_sends.serve_front(one[:cut], connection) == 0
    assert sending.plain_sends.serve_front(one + one[:-1], connection) == len(one)
    sending.end_turn()
    assert sending.store.max_queue_offset("Known", 1) == 1
    sending.store.close()


def test_when_memory_runs_out_nothing_is_stored_and_no_offset_is_given_twice(tmp_path: Path) -> None:
    sending = Sending(tmp_path, [])
    to_both = b"".join(pack_frame(JSON, header(310, SEND | {"e": queue_id}), b"x") for queue_id in ("0", "1"))
    sending.serve_fast(to_both)
    queues = sending.store.queue_table
    with memoryview(queues.get("Known", 1)._tail):  # it cannot grow, as where there is no memory for it
        before = [(queue.max_offset, queue.max_log_offset) for queue in queues], sending.store.max_log_offset
        with pytest.raises(BufferError):
            sending.serve_fast(to_both)
        assert (
            [(each.max_offset, each.max_log_offset) for each in queues],
            sending.store.max_log_offset,
        ) == before
        assert queues.offsets_sum() == sum(queue.max_offset for queue in queues)
    sending.serve_fast(to_both)
    assert [len(bodies(sending.store, "Known", queue_id)) for queue_id in (0, 1)] == [2, 2]
    sending.store.close()
