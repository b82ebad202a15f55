"""Random lives of a store (appends, pulls, clean stops, deaths, torn tails) against a plain list of messages."""

import shutil
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from rocketeer.record.flags import TX_PREPARED
from rocketeer.record.java_hash import tag_hash
from rocketeer.record.layout import PendingMessage, encode_pending
from rocketeer.store.message_store import GetStatus, MessageStore
from support.clock import ManualClock
from support.records import split_records
from support.stores import append_batch, checkpoint_now, kill, make_store, memory_folder, message, query

TOPICS = st.sampled_from(["A", "B", "%RETRY%group"])
QUEUE_IDS = st.integers(0, 1)
TAGS = st.sampled_from([None, "x", "y"])
SIZES = st.sampled_from([0, 1, 50, 500, 1500])


class StoreLife(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.home = memory_folder()
        self.root = Path(self.home.name)
        self.lives = 0
        self.queues: dict[tuple[str, int], list[tuple[bytes, str | None, int]]] = {}
        self.count = 0
        self.clock = ManualClock()
        self.store: MessageStore

    @initialize()
    def begin(self) -> None:
        self.folder = self.root / "0"
        self.start()

    def start(self) -> None:
        self.store = make_store(self.folder, self.clock, segment_bytes=6000, message_bytes_max=4000)
        self.report = self.store.open()

    # --- what happens to it ------------------------------------------------------------------

    def pending(self, topic: str, queue_id: int, tag: str | None, size: int) -> PendingMessage:
        self.count += 1
        body = b"%06d" % self.count + b"." * size
        return message(body, topic, queue_id, tags=tag, keys=f"k{self.count}")

    def remember(self, pending: PendingMessage, tag: str | None, log_offset: int) -> None:
        self.queues.setdefault((pending.topic, pending.queue_id), []).append((pending.body, tag, log_offset))

    @rule(topic=TOPICS, queue_id=QUEUE_IDS, tag=TAGS, size=SIZES, times=st.integers(1, 6))
    def append(self, topic: str, queue_id: int, tag: str | None, size: int, times: int) -> None:
        for _ in range(times):
            self.clock.advance(ms=7)
            pending = self.pending(topic, queue_id, tag, size)
            where = self.store.append(pending)
            assert where.queue_offset == len(self.queues.get((topic, queue_id), []))
            self.remember(pending, tag, where.log_offset)

    @rule(batch=st.lists(st.tuples(TOPICS, QUEUE_IDS, TAGS, st.sampled_from([0, 100, 700])), max_size=5))
    def append_batch(self, batch: list[tuple[str, int, str | None, int]]) -> None:
        messages = [self.pending(*each) for each in batch]
        for pending, (_, _, tag, _), where in zip(
            messages, batch, append_batch(self.store, messages), strict=True
        ):
            self.remember(pending, tag, where.log_offset)

    @rule()
    def append_unseen(self) -> None:
        self.store.append(message(b"half", "A", 0, sys_flag=TX_PREPARED))

    @rule(ms=st.sampled_from([1, 1000, 61_000]))
    def time_passes(self, ms: int) -> None:
        self.clock.advance(ms=ms)
        self.store.tick()

    @rule()
    def note(self) -> None:
        if self.store.log.max_offset:
            self.append("A", 0, None, 0, 1)
            checkpoint_now(self.store, self.clock)

    @rule()
    def stop_and_start(self) -> None:
        self.store.close()
        self.start()
        assert self.report.clean
        assert self.report.actions == ()

    @rule(torn=st.sampled_from([0, 1, 4, 30, 90, 200]))
    def die_and_start(self, torn: int) -> None:
        """The process dies, perhaps in the middle of writing one more record."""
        self.lives += 1
        end, base = self.store.log.max_offset, self.store.log.base
        copy = kill(self.store, self.root / str(self.lives))
        self.store.close()
        shutil.rmtree(self.folder)
        self.folder = copy
        path = copy / "commitlog" / f"{base:020d}"
        record = self.next_record()[:torn]
        if torn and path.exists() and end - base + len(record) < 6000 - 8:
            with path.open("r+b") as file:
                file.seek(end - base)
                file.write(record)
        self.start()
        assert not self.report.clean
        assert self.report.quarantined == ()

    def next_record(self) -> bytes:
        return encode_pending(
            message(b"never" * 50, "A", 0),
            queue_offset=0,
            log_offset=self.store.log.max_offset,
            store_ms=self.clock.now_ms(),
            store_host=b"\0" * 8,
        )

    # --- what must hold ----------------------------------------------------------------------

    @rule(topic=TOPICS, queue_id=QUEUE_IDS, start=st.integers(0, 40), count=st.integers(1, 40), tag=TAGS)
    def pull(self, topic: str, queue_id: int, start: int, count: int, tag: str | None) -> None:
        expected = self.queues.get((topic, queue_id), [])
        accepts = None if tag is None else (lambda code: code == tag_hash(tag))
        fetched = self.store.get(topic, queue_id, start, count, accepts=accepts)
        assert fetched.max_offset == len(expected)
        if start > len(expected):
            wanted = GetStatus.OFFSET_OVERFLOW_BADLY if expected else GetStatus.NO_MESSAGE_IN_QUEUE
            assert (fetched.status, fetched.next_offset) == (wanted, len(expected))
        elif start == len(expected):
            wanted = GetStatus.OFFSET_OVERFLOW_ONE if expected else GetStatus.NO_MESSAGE_IN_QUEUE
            assert (fetched.status, fetched.next_offset) == (wanted, start if expected else 0)
        else:
            passed = expected[start : fetched.next_offset]
            assert passed
            given = [body for body, its_tag, _ in passed if tag is None or its_tag == tag]
            assert [each.body for each in split_records(b"".join(fetched.parts))] == given
            assert (fetched.status is GetStatus.FOUND) is bool(given)
            assert fetched.count == len(given) <= min(count, 32)

    @rule(number=st.integers(1, 300))
    def query(self, number: int) -> None:
        every = [(key, entry) for key, entries in self.queues.items() for entry in entries]
        hits = [(key, entry) for key, entry in every if entry[0][:6] == b"%06d" % number]
        for (topic, queue_id), (body, _, log_offset) in hits:
            (found,) = query(self.store, topic, f"k{number}", 0, 1 << 62, 10).messages
            assert (found.queue_id, found.body, found.log_offset) == (queue_id, body, log_offset)

    @invariant()
    def offsets_are_dense(self) -> None:
        if not hasattr(self, "store"):
            return
        for key, entries in self.queues.items():
            assert self.store.max_queue_offset(*key) == len(entries)
            assert [entry[0] for entry in self.store.entries(*key, 0, 10_000)] == [
                entry[2] for entry in entries
            ]

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
        self.home.cleanup()


TestStoreLife = StoreLife.TestCase
TestStoreLife.settings = settings(
    max_examples=25,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
