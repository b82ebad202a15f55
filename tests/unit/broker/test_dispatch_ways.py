"""Whichever way a message comes into the log, the same is derived from it: features see the same entries.

Four ways: sends in bulk by the compiled engine, one by one by the general path, log bytes copied to a replica, and the
replay of what was stored before a start. (Without compiled modules the first is the second.)
"""

import json
from pathlib import Path
from typing import Any

import msgspec

from rocketeer.broker.feature import Replay
from rocketeer.broker.replay import replay_log
from rocketeer.compiled import COMPILED
from rocketeer.config import BrokerRole
from rocketeer.model.offsets import LogOffset
from rocketeer.protocol.frame import JSON, pack_frame
from rocketeer.record.batch import BatchItem, encode_batch
from rocketeer.record.entry import DispatchEntry
from rocketeer.record.layout import encode_pending
from rocketeer.record.skip import SkipFilter
from rocketeer.store.dispatch import Dispatcher
from rocketeer.store.message_store import MessageStore
from support.sending import Sending, header, same
from support.stores import make_store, message

Seen = list[tuple[str, DispatchEntry]]


def dispatchers(seen: Seen) -> list[Dispatcher]:
    def note(who: str) -> Any:
        return lambda entry: seen.append((who, entry))

    return [
        Dispatcher(note("a topic's"), topics=frozenset({"Other"})),
        Dispatcher(note("with a property"), properties=("own", "PID")),
        Dispatcher(note("pointing to another"), pointing=True),
        Dispatcher(note("any of them"), frozenset({"Other"}), ("PID",), pointing=True),
    ]


def replay(store: MessageStore, seen: Seen) -> None:
    """The same selection, of what was stored before the start."""

    def replay_of(each: Dispatcher) -> Replay:
        def on_message(entry: DispatchEntry) -> None:
            if each.wants(entry):
                each.on_message(entry)

        return Replay(
            lambda: LogOffset(0), on_message, wanted=SkipFilter(each.topics, properties=each.properties)
        )

    replay_log(store, [replay_of(each) for each in dispatchers(seen)])


def send(topic: str, queue: int, properties: str, body: bytes, *, batch: bool = False) -> bytes:
    ext = {
        "a": "g", "b": topic, "c": "TBW102", "d": "4", "e": str(queue), "f": "0", "g": "1700000000000", "h": "0",
        "i": properties, "j": "0", "k": "false", "m": json.dumps(batch),
    }  # fmt: skip
    return pack_frame(JSON, header(320 if batch else 310, ext), body)


REQUESTS = b"".join(
    [
        send("Known", 0, "TAGS\x01t\x02KEYS\x01k1 k2\x02UNIQ_KEY\x01u1", b"plain"),
        send("Other", 0, "KEYS\x01k3", b"of a topic that is followed"),
        send("Known", 1, "own\x01x\x02TAGS\x01t", b"with a property that is followed"),
        send("Known", 1, "owner\x01x", b"plain, but for a name that begins alike"),
        send("Known", 2, "own\x01\x02KEYS\x01k", b"plain: an empty property is none"),
        send("Known", 3, "WAIT\x01true", encode_batch([BatchItem(0, b"a", b""), BatchItem(1, b"b", b"KEYS\x01k")]),
             batch=True),
        send("Known", 3, "", encode_batch([BatchItem(0, b"c", b"PID\x017"), BatchItem(1, b"d", b"")]), batch=True),
        send("Other", 0, "", encode_batch([BatchItem(0, b"e", b""), BatchItem(1, b"f", b"")]), batch=True),
    ]
)  # fmt: skip
ENDING = msgspec.structs.replace(message(b"ends another", topic="Known"), prepared_offset=-17)


def test_dispatchers_see_the_same_by_every_way(tmp_path: Path) -> None:
    by_engine: Seen = []
    one_by_one: Seen = []
    copied: Seen = []
    recovered: Seen = []
    fast = Sending(tmp_path / "engine", [], dispatchers(by_engine))
    general = Sending(tmp_path / "general", [], dispatchers(one_by_one))
    fast.serve_fast(REQUESTS)
    general.serve_general(REQUESTS)
    for sending in (fast, general):
        sending.store.append(ENDING)
    log = bytes(fast.store.log.read(0, fast.store.max_log_offset) or b"")
    same(fast, general)

    replica = make_store(tmp_path / "replica", broker_role=BrokerRole.SLAVE)
    replica.open()
    replica.dispatchers.extend(dispatchers(copied))
    for at in range(0, len(log), 97):
        replica.append_raw(at, log[at : at + 97])
    replica.close()

    (tmp_path / "engine" / "checkpoint").unlink()
    again = make_store(tmp_path / "engine")
    for folder in ("consumequeue", "index"):
        for path in sorted((tmp_path / "engine" / folder).rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
    again.open()
    replay(again, recovered)
    again.close()

    # Each sees its messages in the log's order; in which order dispatchers take turns is nobody's business.
    assert {who: len(entries) for who, entries in by_dispatcher(one_by_one).items()} == {
        "a topic's": 3, "with a property": 2, "any of them": 5, "pointing to another": 1,
    }  # fmt: skip
    for seen in (by_engine, copied, recovered):
        assert by_dispatcher(seen) == by_dispatcher(one_by_one)


def by_dispatcher(seen: Seen) -> dict[str, list[DispatchEntry]]:
    found: dict[str, list[DispatchEntry]] = {}
    for who, entry in seen:
        found.setdefault(who, []).append(entry)
    return found


def test_who_follows_each_queue_sees_all_sends_and_of_copies_one_of_each_queue_at_least(
    tmp_path: Path,
) -> None:
    by_engine: list[DispatchEntry] = []
    one_by_one: list[DispatchEntry] = []
    copied: list[DispatchEntry] = []
    fast = Sending(tmp_path / "engine", [], [Dispatcher(by_engine.append, each_queue=True)])
    general = Sending(tmp_path / "general", [], [Dispatcher(one_by_one.append, each_queue=True)])
    fast.serve_fast(REQUESTS + REQUESTS)
    general.serve_general(REQUESTS + REQUESTS)
    log = bytes(fast.store.log.read(0, fast.store.max_log_offset) or b"")
    same(fast, general)
    assert by_engine == one_by_one
    assert len(by_engine) == 22, "each message"

    replica = make_store(tmp_path / "replica", broker_role=BrokerRole.SLAVE)
    replica.open()
    replica.dispatchers.append(Dispatcher(copied.append, each_queue=True))
    for at in range(0, len(log), 97):
        replica.append_raw(LogOffset(at), log[at : at + 97])
    assert [each for each in one_by_one if each in copied] == copied, "in the log's order, each once"
    firsts = {(each.topic, each.queue_id): each for each in reversed(one_by_one)}
    assert set(firsts.values()) <= set(copied)
    if COMPILED:
        assert len(copied) == len(firsts), "all others came in runs"
    replica.close()


def test_what_a_dispatcher_names_is_kept_off_the_engine(tmp_path: Path) -> None:
    seen: Seen = []
    sending = Sending(tmp_path, [], dispatchers(seen))
    if sending.plain_sends is None:
        return
    peer: Any = sending.peer
    plain = send("Known", 0, "TAGS\x01t", b"x")
    assert sending.plain_sends.serve_front(plain, peer) == len(plain)
    for request in (send("Other", 0, "", b"x"), send("Known", 0, "own\x01x", b"x")):
        assert sending.plain_sends.serve_front(request, peer) == 0
    sending.end_turn()
    assert seen == []
    sending.store.close()


def test_a_message_that_no_queue_can_have_is_shown_to_features_by_copying_and_by_a_replay(
    tmp_path: Path,
) -> None:
    record = encode_pending(
        message(b"x", topic="..", properties={"own": "x"}),
        queue_offset=0, log_offset=0, store_ms=1_700_000_000_000, store_host=bytes(8),
    )  # fmt: skip
    copied: Seen = []
    recovered: Seen = []
    for seen in (copied, recovered):
        store = make_store(tmp_path, broker_role=BrokerRole.SLAVE)
        store.open()
        if seen is copied:
            store.dispatchers.extend(dispatchers(seen))
            store.append_raw(0, record)
        else:
            replay(store, seen)
        store.close()
        (tmp_path / "checkpoint").unlink()
    assert [who for who, _ in copied] == ["with a property"]
    assert recovered == copied
