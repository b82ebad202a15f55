"""The sending half of a broker over a store of its own, requests of every kind for it, and how to compare two."""

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from hypothesis import strategies as st

from rocketeer.broker.feature import Durability
from rocketeer.broker.features.idempotence.resends import Idempotence, IdempotenceLimits
from rocketeer.broker.handlers.pull import PullHandler
from rocketeer.broker.handlers.send import SendHandler
from rocketeer.broker.plain_properties import PlainParser
from rocketeer.broker.plain_sends import PlainSends
from rocketeer.broker.request_processor import RequestProcessor
from rocketeer.broker.send import SendRules, SendService
from rocketeer.broker.topics import TopicTable
from rocketeer.broker.writer import Writer
from rocketeer.compiled import COMPILED
from rocketeer.config import BrokerConfig
from rocketeer.model.property_names import PRODUCER_ID
from rocketeer.model.topic import TopicConfig
from rocketeer.observe.counters import Counters
from rocketeer.protocol.command import Command, decode_frame, encode
from rocketeer.protocol.frame import JSON, FrameSplitter, pack_frame
from rocketeer.record.batch import BatchItem, encode_batch
from rocketeer.record.hosts import encode_host
from rocketeer.remoting.router import Connection, Router
from rocketeer.security.access import AccessControl
from rocketeer.store.dispatch import Dispatcher, followed_by
from support.clock import ManualClock
from support.resends import saved_ids, saved_sequences
from support.stores import STORE_HOST, make_store

CLAIMED = "DELAY"
NAMED_BATCH_MAX = 2048


class Peer:
    """The sender's end: what it was told."""

    def __init__(self, port: int = 40000) -> None:
        self.remote_host = encode_host("127.0.0.1", port)
        self.turn_ends_s = float("inf")
        self.under_way = 0
        self.request_steps: Any = None
        self.remote = f"127.0.0.1:{port}"
        self.told = b""
        self.is_shut = False

    def close_quietly(self, *, abort: bool) -> None:
        self.is_shut = abort

    def write(self, data: bytes) -> None:
        self.told += data

    answer = write

    def send(self, command: Command) -> None:
        self.write(encode(command))

    def commands(self) -> list[Command]:
        return [decode_frame(*frame) for frame in FrameSplitter().feed(self.told)]


class Sending:
    """The sending half of a broker over a store of its own."""

    def __init__(
        self,
        folder: Path,
        durability: list[Durability],
        dispatchers: Sequence[Dispatcher] = (),
        access: AccessControl | None = None,
        message_bytes_max: int = 4096,
        known: IdempotenceLimits | None = None,
        **store: Any,
    ) -> None:
        clock = ManualClock()
        config = BrokerConfig()
        self.store = make_store(folder, clock, message_bytes_max=message_bytes_max, **store)
        self.store.open()
        self.waiting: list[Any] = []
        self.soon: list[Callable[[], None]] = []
        self.topics = topics = TopicTable(config, clock)
        for name, queues in (("Known", 4), ("Other", 1)):
            topics.put(TopicConfig(name, read_queues=queues, write_queues=queues))
        self.counters = counters = Counters()
        self.store.dispatchers.extend(dispatchers)
        followed = followed_by(dispatchers)
        claims = [CLAIMED, *followed.properties]
        self.resends = None
        if known is not None:
            self.resends = Idempotence(known, self.store, salt=b"the same for all")
            claims.append(PRODUCER_ID)
        plain = PlainParser(config.cluster_name, claims)
        writer = Writer(
            self.store,
            message_bytes_max=message_bytes_max,
            counters=counters,
            resends=[] if self.resends is None else [self.resends.examining],
            durability=durability,
        )
        rules = SendRules("127.0.0.1", 6, message_bytes_max, 16_384, NAMED_BATCH_MAX, 65_536)
        sends = SendHandler(
            SendService(
                rules,
                topics=topics,
                writer=writer,
                plain=plain,
                redirects=(),
            ),
            store_host=STORE_HOST,
            region="R",
            trace_on=True,
            counters=counters,
        )
        guards = []
        if access is not None:
            guards.append(lambda command, connection: access.checking(command, connection.remote))
        self.router = Router(sends.handlers(), guards)
        self.plain_sends = None
        if COMPILED and not followed.each_queue:
            self.plain_sends = PlainSends(
                self.router,
                topics=topics,
                followed_topics=followed.topics,
                store=self.store,
                store_host=STORE_HOST,
                writer=writer,
                plain=plain,
                reply_ext=sends.ext,
                clock=clock,
                limits=rules,
                after_reads=self.soon.append,
                counters=counters,
                access=access,
                stored_ids=self.resends,
            )
        self.processor = RequestProcessor(self.router, self.plain_sends, cast(PullHandler, None))
        self.peer = Peer()

    def serve_fast(self, data: bytes) -> int:
        random.seed(7)  # a message for any queue goes to a random one
        taken = self.read(data, self.peer)
        self.end_turn()
        return taken

    def read(self, data: bytes, peer: Peer) -> int:
        """One socket brought this, in a turn that goes on."""
        connection = cast(Connection, peer)
        taken = 0 if self.plain_sends is None else self.plain_sends.serve_front(data, connection)
        if frames := FrameSplitter().feed(data[taken:]):
            self.processor.process(frames, connection)
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
            (queue.topic, queue.queue_id): queue.read(queue.min_offset, 10_000)
            for queue in store.queue_table
            if queue.max_offset
        }
        records = store.log.read(0, store.max_log_offset) if store.max_log_offset else b""
        assert records is not None
        index = store.index
        assert index is not None
        if index._loose:
            index._gather()
        keys = [b"".join(part) for part in zip(*[run.columns for run in index._pending], strict=True)]
        found = {"log": bytes(records), "queues": queues, "keys": keys or [b"", b"", b""]}
        if self.resends is not None:
            found |= {
                "ids": saved_ids(self.resends.ids),
                "sequences": [(each.producer, each.next) for each in saved_sequences(self.resends.sequences)],
                "changed": self.resends.changed,
            }
        return found


def header(code: int, ext: dict[str, Any], /, *, escaped: bool = False, **outer: Any) -> bytes:
    """As clients write it; `escaped`: characters beyond ASCII in the other way that JSON has for them."""
    command = {
        "code": code,
        "extFields": ext,
        "flag": 0,
        "language": "JAVA",
        "opaque": 7,
        "version": 409,
    } | outer
    return json.dumps(command, ensure_ascii=escaped, separators=(",", ":")).encode()


names = st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "WAIT", CLAIMED, "CLUSTER", "u", "", "größe", "DELAX"])
values = st.sampled_from(
    [
        "",
        "true",
        "false",
        "TRUE",
        "k1 k2",
        " a  b ",
        "v",
        "ü",
        "订单 42",
        "a🚀",
        "7F0000010000000000000000000001",
    ]
)
properties = st.lists(st.builds("{}\x01{}".format, names, values), max_size=5).map("\x02".join)
tails = st.sampled_from(["", "\x02", "\x02\x02"])
no_utf8 = st.sampled_from(
    [b"\xff", b"a\xc3", b"\xc0\xaf", b"\xed\xa0\x80", b"\xe4\xb8", b"\xf4\x90\x80\x80", b"\x80 k"]
)
items = st.builds(
    BatchItem,
    st.integers(-(2**31), 2**31 - 1),
    st.binary(max_size=40),
    st.one_of(
        st.builds(lambda text, tail: (text + tail).encode(), properties, tails),
        st.builds(lambda name, value: name.encode() + b"\x01" + value, names, no_utf8),
    ),
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
    head = header(code, ext, opaque=draw(st.integers(-5, 1 << 30)), flag=flag, escaped=draw(st.booleans()))
    return pack_frame(JSON, head, body)


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
        table = left.store.queue_table
        assert table.offsets_sum() == sum(queue.max_offset for queue in table)
    finally:
        left.store.close()
        right.store.close()
