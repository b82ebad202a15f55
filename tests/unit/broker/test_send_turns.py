"""What several sockets bring in one turn of the loop is one run, and as good as one by one; also when it fails."""

import random
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketeer.compiled import COMPILED
from rocketeer.errors import StoreRefused
from rocketeer.model.topic import TopicConfig
from rocketeer.protocol.codes import ResponseCode
from rocketeer.protocol.frame import JSON, FrameSplitter, pack_frame
from rocketeer.record.batch import BatchItem, encode_batch
from rocketeer.remoting.connection import Connection
from support.clock import ManualClock
from support.sending import Peer, Sending, header, requests, same
from support.stores import memory_folder

pytestmark = pytest.mark.skipif(not COMPILED, reason="the compiled modules are not in use")

PORTS = (40000, 40001, 40002)
reads = st.tuples(st.integers(0, 2), st.lists(requests(), max_size=3).map(b"".join), st.integers(0, 3))


@settings(deadline=None, max_examples=100)
@given(reads=st.lists(reads, max_size=8))
def test_what_several_sockets_bring_in_one_turn_is_what_one_by_one_would_have_been(
    reads: list[tuple[int, bytes, int]],
) -> None:
    with memory_folder() as folder:
        fast, general = Sending(Path(folder) / "a", []), Sending(Path(folder) / "b", [])
        theirs, ours = [Peer(port) for port in PORTS], [Peer(port) for port in PORTS]
        random.seed(7)
        for who, data, ends in reads:
            fast.read(data, ours[who])
            if not ends:
                fast.end_turn()
        fast.end_turn()
        random.seed(7)
        for who, data, _ in reads:
            general.router.process(FrameSplitter().feed(data), cast(Connection, theirs[who]))
        told = [[(each.opaque, each.code, each.ext) for each in peer.commands()] for peer in (*ours, *theirs)]
        assert told[:3] == told[3:]
        same(fast, general)


def fields(opaque: int, queue: int) -> dict[str, str]:
    return {
        "a": "g", "b": "Known", "c": "TBW102", "d": "4", "e": str(queue), "f": "0", "g": "1", "h": "0",
        "i": f"KEYS\x01k{opaque}", "j": "0", "k": "false", "m": "false",
    }  # fmt: skip


def plain(opaque: int, body: bytes = b"body", queue: int = 1) -> bytes:
    return pack_frame(JSON, header(310, fields(opaque, queue), opaque=opaque), body)


def batch(opaque: int, count: int, body: bytes) -> bytes:
    items = encode_batch([BatchItem(0, body, b"KEYS\x01k%d" % at) for at in range(count)])
    return pack_frame(
        JSON, header(320, fields(opaque, 1) | {"m": "true", "i": "WAIT\x01true"}, opaque=opaque), items
    )


def test_batches_that_many_sockets_bring_in_one_turn_are_one_write(tmp_path: Path) -> None:
    sending = Sending(tmp_path, [], segment_bytes=64 << 20, message_bytes_max=1 << 20)
    peers = [Peer(40000 + at) for at in range(8)]
    data = b"".join(batch(at, 32, bytes(1024)) for at in range(7))
    for peer in peers:
        assert sending.read(data, peer) == len(data)
    assert sending.store.max_log_offset == 0, "written before the turn was over"
    sending.end_turn()
    assert sending.store.max_queue_offset("Known", 1) == 8 * 7 * 32
    assert [len(peer.commands()) for peer in peers] == [7] * 8
    sending.store.close()


def test_a_turn_that_the_store_refuses_is_refused_to_each(tmp_path: Path) -> None:
    sending = Sending(tmp_path, [])
    peers = [Peer(port) for port in PORTS]
    sending.store.log.refuse(StoreRefused(StoreRefused.DISK_FULL, "full"))
    for at, peer in enumerate(peers):
        assert sending.read(plain(at) + plain(10 + at), peer) > 0
    sending.end_turn()
    for at, peer in enumerate(peers):
        answers = peer.commands()
        assert [answer.opaque for answer in answers] == [at, 10 + at]
        assert all(answer.code != ResponseCode.SUCCESS for answer in answers)
    assert sending.store.max_log_offset == 0
    sending.store.log.refuse(None)
    sending.read(plain(20), peers[0])
    sending.end_turn()
    assert peers[0].commands()[-1].code == ResponseCode.SUCCESS
    assert sending.store.max_queue_offset("Known", 1) == 1
    sending.store.close()


@pytest.mark.parametrize(("count", "body_bytes"), [(3000, 4), (1200, 3000)], ids=["many", "large"])
def test_more_than_a_run_holds_is_stored_in_between(tmp_path: Path, count: int, body_bytes: int) -> None:
    sending = Sending(tmp_path, [], segment_bytes=64 << 20)
    peers = [Peer(port) for port in PORTS]
    for peer in peers:
        data = b"".join(plain(at, b"x" * body_bytes, at % 4) for at in range(count))
        assert sending.read(data, peer) == len(data)
    sending.end_turn()
    assert [len(peer.commands()) for peer in peers] == [count] * 3
    ends = [sending.store.max_queue_offset("Known", queue) for queue in range(4)]
    assert ends == [3 * count // 4] * 4
    for peer in peers:
        places = [(each.ext["queueId"], int(each.ext["queueOffset"])) for each in peer.commands()]
        assert len(set(places)) == count
    sending.store.close()


def test_a_request_of_another_kind_finds_the_sends_before_it_stored(tmp_path: Path) -> None:
    sending = Sending(tmp_path, [])
    first, second = Peer(PORTS[0]), Peer(PORTS[1])
    sending.read(plain(1), first)
    assert sending.store.max_queue_offset("Known", 1) == 0, "the turn goes on"
    other = pack_frame(JSON, header(9999, {}, opaque=2), b"")
    sending.read(other, second)
    assert sending.store.max_queue_offset("Known", 1) == 1
    assert [each.opaque for each in first.commands()] == [1]
    sending.read(plain(3), first)
    sending.end_turn()
    sending.end_turn()
    assert [each.opaque for each in first.commands()] == [1, 3]
    assert sending.store.max_queue_offset("Known", 1) == 2
    sending.store.close()


def test_a_bug_costs_the_turn_and_its_connections_and_nothing_else(tmp_path: Path) -> None:
    class Stopped(ManualClock):
        def now_ms(self) -> int:
            raise RuntimeError("no time")

    sending = Sending(tmp_path, [])
    first, second = Peer(PORTS[0]), Peer(PORTS[1])
    assert sending.plain_sends is not None
    good, sending.plain_sends._clock = sending.plain_sends._clock, Stopped()
    sending.read(plain(1), first)
    with pytest.raises(RuntimeError):
        sending.end_turn()
    assert first.is_shut
    sending.plain_sends._clock = good
    sending.read(plain(2), second)
    sending.end_turn()
    assert [each.opaque for each in second.commands()] == [2]
    assert (second.is_shut, first.told) == (False, b"")
    assert sending.store.max_queue_offset("Known", 1) == 1, "nothing of the broken turn comes later"
    sending.store.close()


def test_a_bug_while_reading_leaves_nothing_of_that_read_to_be_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sending = Sending(tmp_path, [])
    assert sending.plain_sends is not None
    before, broken = Peer(40000), Peer(40001)
    assert sending.read(plain(1), before)
    ask = sending.topics.get

    def get(topic: str) -> TopicConfig | None:
        if topic == "Other":
            raise RuntimeError("a bug")
        return ask(topic)

    monkeypatch.setattr(sending.topics, "get", get)
    other = pack_frame(JSON, header(310, fields(3, 0) | {"b": "Other"}, opaque=3), b"body")
    with pytest.raises(RuntimeError, match="a bug"):
        sending.plain_sends.serve_front(plain(2) + other, cast(Connection, broken))
    sending.end_turn()
    assert sending.store.max_queue_offset("Known", 1) == 1
    assert [each.opaque for each in before.commands()] == [1]
    assert not broken.told
    sending.store.close()


def test_a_topic_that_changes_in_the_middle_of_a_turn(tmp_path: Path) -> None:
    """What came before the change is stored with what was known then; no offset is given twice."""
    sending = Sending(tmp_path, [])
    peers = [Peer(port) for port in PORTS]
    for at, peer in enumerate(peers):
        sending.read(plain(at), peer)
        sending.topics.put(TopicConfig(f"New{at}", read_queues=1, write_queues=1))
    sending.read(plain(7), peers[0])
    sending.end_turn()
    offsets = [command.ext["queueOffset"] for peer in peers for command in peer.commands()]
    assert offsets == ["0", "3", "1", "2"]
    assert sending.store.queue_table.get("Known", 1).max_offset == 4
