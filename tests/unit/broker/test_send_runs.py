"""Sends taken in compiled runs are stored and answered as the general path does it, whatever comes in whatever order."""

import json
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketeer.broker.fast_path import FastPath
from rocketeer.broker.feature import Durability
from rocketeer.broker.groups import GroupTable
from rocketeer.broker.handlers.pull import PullHandler
from rocketeer.broker.handlers.send import SendHandler
from rocketeer.broker.plain_properties import PlainParser
from rocketeer.broker.send import SendRules, SendService
from rocketeer.broker.topics import TopicTable
from rocketeer.broker.writer import Writer
from rocketeer.clock import ManualClock
from rocketeer.config import BrokerConfig
from rocketeer.errors import StoreRefused
from rocketeer.model.topic import TopicConfig
from rocketeer.protocol.codes import ResponseCode
from rocketeer.protocol.command import Command, decode_frame, encode
from rocketeer.protocol.frame import JSON, FrameSplitter, pack_frame
from rocketeer.record import speed
from rocketeer.record.batch import BatchItem, encode_batch
from rocketeer.record.hosts import encode_host
from rocketeer.remoting.server import Connection, Router
from support.stores import STORE_HOST, make_store

pytestmark = pytest.mark.skipif(speed.SendRuns is None, reason="installed without a C compiler")

CLAIMED = "DELAY"


class Peer:
    """The sender's end: what it was told."""

    def __init__(self, port: int = 40000) -> None:
        self.remote_host = encode_host("127.0.0.1", port)
        self.remote = f"127.0.0.1:{port}"
        self.told = b""
        self.is_shut = False

    def shut(self, *, abort: bool) -> None:
        self.is_shut = abort

    def write(self, data: bytes) -> None:
        self.told += data

    def send(self, command: Command) -> None:
        self.write(encode(command))

    def commands(self) -> list[Command]:
        return [decode_frame(*frame) for frame in FrameSplitter().feed(self.told)]


class Sending:
    """The sending half of a broker over a store of its own."""

    def __init__(self, folder: Path, durability: list[Durability], **store: Any) -> None:
        clock = ManualClock()
        config = BrokerConfig()
        self.store = make_store(folder, clock, message_bytes_max=4096, **store)
        self.store.open()
        self.waiting: list[Any] = []
        self.soon: list[Callable[[], None]] = []
        topics = TopicTable(config, clock)
        for name, queues in (("Known", 4), ("Other", 1)):
            topics.put(TopicConfig(name, read_queues=queues, write_queues=queues))
        plain = PlainParser(config.cluster_name, [CLAIMED])
        writer = Writer(self.store, rewrites=[], durability=durability, clock=clock, message_bytes_max=4096)
        sends = SendHandler(
            SendService(
                SendRules(config.cluster_name, "127.0.0.1", 6, 4096),
                topics=topics,
                groups=GroupTable(config, clock),
                writer=writer,
                plain=plain,
            ),
            store_host=STORE_HOST,
            region="R",
            trace_on=True,
        )
        self.router = Router(sends.handlers())
        self.fast = FastPath(
            self.router,
            topics=topics,
            store=self.store,
            store_host=STORE_HOST,
            writer=writer,
            plain=plain,
            pulls=cast(PullHandler, None),
            reply_ext=sends.ext,
            clock=clock,
            broker_writable=True,
            soon=self.soon.append,
        )
        self.peer = Peer()

    def serve_fast(self, data: bytes) -> int:
        random.seed(7)  # a message for any queue goes to a random one
        taken = self.read(data, self.peer)
        self.end_turn()
        return taken

    def read(self, data: bytes, peer: Peer) -> int:
        """One socket brought this, in a turn that goes on."""
        connection = cast(Connection, peer)
        taken = self.fast.take(data, connection)
        if frames := FrameSplitter().feed(data[taken:]):
            self.fast.process(frames, connection)
        return taken

    def end_turn(self) -> None:
        """All sockets that were ready have been read."""
        soon, self.soon[:] = self.soon[:], []
        for run in soon:
            run()

    def serve_general(self, data: bytes) -> None:
        random.seed(7)
        self.router.process(FrameSplitter().feed(data), cast(Connection, self.peer))

    def stored(self) -> dict[str, Any]:
        store = self.store
        queues = {
            key: queue.read(queue.min_offset, 10_000)
            for key, queue in store.queue_table.by_key.items()
            if queue.max_offset
        }
        records = store.log.read(0, store.max_log_offset) if store.max_log_offset else b""
        assert records is not None
        index = store.index
        assert index is not None
        if index._loose:
            index._gather()
        keys = [b"".join(part) for part in zip(*[run.columns for run in index._pending], strict=True)]
        return {"log": bytes(records), "queues": queues, "keys": keys or [b"", b"", b""]}


@pytest.fixture
def folders() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp())
    yield folder
    shutil.rmtree(folder)


def header(code: int, ext: dict[str, Any], **outer: Any) -> bytes:
    command = {
        "code": code,
        "extFields": ext,
        "flag": 0,
        "language": "JAVA",
        "opaque": 7,
        "version": 409,
    } | outer
    return json.dumps(command, separators=(",", ":")).encode()


names = st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "WAIT", CLAIMED, "CLUSTER", "u", "", "größe", "DELAX"])
values = st.sampled_from(
    ["", "true", "false", "TRUE", "k1 k2", " a  b ", "v", "ü", "7F0000010000000000000000000001"]
)
properties = st.lists(st.builds("{}\x01{}".format, names, values), max_size=5).map("\x02".join)
tails = st.sampled_from(["", "\x02", "\x02\x02"])
items = st.builds(
    BatchItem,
    st.integers(-(2**31), 2**31 - 1),
    st.binary(max_size=40),
    st.builds(lambda text, tail: (text + tail).encode(), properties, tails),
)
bodies = st.one_of(
    st.binary(max_size=100),
    st.lists(items, max_size=4).map(encode_batch),
    st.just(b"x" * 5000),
    st.just(b"y" * 3000),
)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    plain = draw(st.booleans())
    batch = draw(st.integers(0, 3)) == 0
    ext: dict[str, Any] = {
        "a": "group", "b": "Known", "c": "TBW102", "d": "4", "e": str(draw(st.integers(0, 3))), "f": "0",
        "g": "1700000000000", "h": "5", "i": draw(properties) + draw(tails), "j": "0", "k": "false",
        "m": "true" if batch else "false",
    }  # fmt: skip
    if not plain:
        ext |= draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "b": st.sampled_from(["Other", "New", "%RETRY%g", "größe", "", "Known"]),
                    "e": st.sampled_from(["-1", "4", "99", "x", "0"]),
                    "f": st.sampled_from(["1", "4", "8", "12", "48"]),
                    "j": st.sampled_from(["3", "-1"]),
                    "l": st.just("16"),
                    "m": st.sampled_from(["true", "false"]),
                },
            )
        )
    body = (
        draw(st.lists(items, min_size=1, max_size=4).map(encode_batch)) if batch and plain else draw(bodies)
    )
    code = 320 if batch else draw(st.sampled_from([310, 310, 310, 310, 10]))
    flag = draw(st.sampled_from([0, 0, 0, 2]))
    return pack_frame(JSON, header(code, ext, opaque=draw(st.integers(-5, 1 << 30)), flag=flag), body)


def same(left: Sending, right: Sending) -> None:
    try:
        a, b = left.peer.commands(), right.peer.commands()
        assert len(a) == len(b)
        for one, other in zip(a, b, strict=True):
            assert (one.code, one.opaque, one.remark, one.ext) == (
                other.code,
                other.opaque,
                other.remark,
                other.ext,
            )
        assert left.stored() == right.stored()
    finally:
        left.store.close()
        right.store.close()


@settings(deadline=None, max_examples=150)
@given(data=st.lists(requests(), max_size=12).map(b"".join))
def test_a_run_is_what_one_by_one_would_have_been(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
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

    with tempfile.TemporaryDirectory() as folder:
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


def test_what_java_sends_is_taken_whole(folders: Path) -> None:
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
    sending = Sending(folders, [])
    assert sending.serve_fast(one + many + one) == len(one + many + one)
    assert sending.store.max_queue_offset("Known", 1) == 4
    assert [len(command.ext["msgId"].split(",")) for command in sending.peer.commands()] == [1, 2, 1]
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
    with tempfile.TemporaryDirectory() as folder:
        fast, general = Sending(Path(folder) / "a", []), Sending(Path(folder) / "b", [])
        fast.serve_fast(data)
        general.serve_general(data)
        if CLAIMED not in text:
            assert fast.store.max_queue_offset("Known", 1) == 3
        same(fast, general)


def test_an_incomplete_frame_is_left(folders: Path) -> None:
    ext = {
        "a": "g", "b": "Known", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1", "h": "0", "i": "", "j": "0",
        "k": "false", "m": "false",
    }  # fmt: skip
    one = pack_frame(JSON, header(310, ext), b"body")
    sending = Sending(folders, [])
    connection = cast(Connection, sending.peer)
    for cut in range(len(one)):
        assert sending.fast.take(one[:cut], connection) == 0
    assert sending.fast.take(one + one[:-1], connection) == len(one)
    sending.end_turn()
    assert sending.store.max_queue_offset("Known", 1) == 1
    sending.store.close()


PORTS = (40000, 40001, 40002)
reads = st.tuples(st.integers(0, 2), st.lists(requests(), max_size=3).map(b"".join), st.integers(0, 3))


@settings(deadline=None, max_examples=100)
@given(reads=st.lists(reads, max_size=8))
def test_what_several_sockets_bring_in_one_turn_is_what_one_by_one_would_have_been(
    reads: list[tuple[int, bytes, int]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
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


def plain(opaque: int, body: bytes = b"body", queue: int = 1) -> bytes:
    ext = {
        "a": "g", "b": "Known", "c": "TBW102", "d": "4", "e": str(queue), "f": "0", "g": "1", "h": "0",
        "i": f"KEYS\x01k{opaque}", "j": "0", "k": "false", "m": "false",
    }  # fmt: skip
    return pack_frame(JSON, header(310, ext, opaque=opaque), body)


def test_a_turn_that_the_store_refuses_is_refused_to_each(folders: Path) -> None:
    sending = Sending(folders, [])
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
def test_more_than_a_run_holds_is_stored_in_between(folders: Path, count: int, body_bytes: int) -> None:
    sending = Sending(folders, [], segment_bytes=64 << 20)
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


def test_a_request_of_another_kind_finds_the_sends_before_it_stored(folders: Path) -> None:
    sending = Sending(folders, [])
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


def test_a_bug_costs_the_turn_and_its_connections_and_nothing_else(folders: Path) -> None:
    class Stopped(ManualClock):
        def now_ms(self) -> int:
            raise RuntimeError("no time")

    sending = Sending(folders, [])
    first, second = Peer(PORTS[0]), Peer(PORTS[1])
    good, sending.fast._clock = sending.fast._clock, Stopped()
    sending.read(plain(1), first)
    with pytest.raises(RuntimeError):
        sending.end_turn()
    assert first.is_shut
    sending.fast._clock = good
    sending.read(plain(2), second)
    sending.end_turn()
    assert [each.opaque for each in second.commands()] == [2]
    assert (second.is_shut, first.told) == (False, b"")
    assert sending.store.max_queue_offset("Known", 1) == 1, "nothing of the broken turn comes later"
    sending.store.close()
