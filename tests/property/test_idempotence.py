"""Idempotent producers against the obvious: a list of all that was ever stored, on a real log, with real snapshots."""

from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rocketeer.broker.feature import Replay
from rocketeer.broker.features.idempotence.resends import Idempotence, IdempotenceLimits
from rocketeer.broker.features.idempotence.snapshot import FILE_NAME, Snapshots
from rocketeer.broker.replay import replay_log
from rocketeer.broker.writer import Writer, WriteResult
from rocketeer.observe.counters import Counters
from rocketeer.protocol.codes import ResponseCode
from rocketeer.record.layout import PendingMessage
from rocketeer.steps import finish
from support.clock import ManualClock
from support.resends import saved_ids, saved_sequences
from support.stores import BORN_HOST, SEGMENT_BYTES, make_store, memory_folder

IDS, NUMBERS = 5, 3
"""Small windows, so that most things fall out of them."""
PRODUCERS = st.sampled_from(["p", "q"])
QUEUES = st.integers(0, 1)
Mark = tuple[str, int] | tuple[str, str]


def properties_of(mark: Mark, more: str = "") -> bytes:
    name = "PRODUCER_SEQ" if isinstance(mark[1], int) else "DEDUP_ID"
    return f"KEYS\x01k\x02PRODUCER_ID\x01{mark[0]}\x02{more}{name}\x01{mark[1]}".encode()


class Producers(RuleBasedStateMachine):
    """What is stored is what a naive reader of the rules stores; rebuilt tables are those that grew."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = memory_folder()
        self._path = Path(self._folder.name)
        self._clock = ManualClock()
        self._store = make_store(self._path, clock=self._clock)
        self._store.open()
        self._snapshots = self._load()
        self._table = self._snapshots.table
        self._writer = Writer(
            self._store, message_bytes_max=1 << 20, counters=Counters(), resends=[self._table.examining]
        )
        self._sequences: dict[tuple[str, int], list[int]] = {}
        self._ids: list[tuple[tuple[str, str], int]] = []
        self._stored = 0

    def teardown(self) -> None:
        self._store.close()
        self._folder.cleanup()

    def _load(self) -> Snapshots:
        path = self._path / "config" / FILE_NAME
        window = IdempotenceLimits(ids=IDS, numbers=NUMBERS)
        snapshots = Snapshots(window, self._store, self._clock, path=path, segment_bytes=SEGMENT_BYTES)
        replay_log(self._store, [Replay(snapshots.load, snapshots.table.on_message)])
        return snapshots

    # --- what may happen ---------------------------------------------------------------------

    @rule(producer=PRODUCERS, queue_id=QUEUES, back=st.integers(-2, 6))
    def send_a_number(self, producer: str, queue_id: int, back: int) -> None:
        sent = len(self._sequences.get((producer, queue_id), ())) - back
        if sent >= 0:
            self._put(queue_id, [(producer, sent)])

    @rule(producer=PRODUCERS, queue_id=QUEUES, name=st.integers(0, 9))
    def send_an_id(self, producer: str, queue_id: int, name: int) -> None:
        self._put(queue_id, [(producer, f"id{name}")])

    @rule(producer=PRODUCERS, queue_id=QUEUES, back=st.integers(-1, 5), count=st.integers(1, 6))
    def send_a_batch_of_numbers(self, producer: str, queue_id: int, back: int, count: int) -> None:
        first = max(len(self._sequences.get((producer, queue_id), ())) - back, 0)
        self._put(queue_id, [(producer, first + step) for step in range(count)])

    @rule(queue_id=QUEUES, names=st.lists(st.tuples(PRODUCERS, st.integers(0, 9)), min_size=1, max_size=4))
    def send_a_batch_of_ids(self, queue_id: int, names: list[tuple[str, int]]) -> None:
        self._put(queue_id, [(producer, f"id{name}") for producer, name in names])

    @rule()
    def others_send(self) -> None:
        self._append(b"TAGS\x01a")

    @precondition(lambda self: self._ids)
    @rule()
    def the_broker_puts_one_back(self) -> None:
        """A delay that is over: the mark is on it, and it is no resend."""
        mark, _ = self._ids[-1]
        self._append(properties_of(mark, more="REAL_TOPIC\x01T\x02REAL_QID\x010\x02"))

    @rule()
    def a_snapshot_is_taken(self) -> None:
        self._snapshots.save()

    # --- what must hold ----------------------------------------------------------------------

    @invariant()
    def a_start_now_would_know_the_same(self) -> None:
        again = self._load().table
        again_ids, ids = Counted(again), Counted(self._table)
        assert saved_sequences(again.sequences) == saved_sequences(self._table.sequences)
        assert again_ids == ids

    def _put(self, queue_id: int, marks: list[Mark]) -> None:
        expected = self._expected(queue_id, marks)
        outcome: list[WriteResult] = []
        if len(marks) == 1:
            message = PendingMessage("T", queue_id, 0, 0, 1, BORN_HOST, b"x", properties_of(marks[0]))
            self._writer.put(message, outcome.append)
        else:
            messages = [
                PendingMessage("T", queue_id, 0, 0, 1, BORN_HOST, b"x", properties_of(mark)) for mark in marks
            ]
            finish(self._writer.putting_batch(messages, outcome.append))
        (put,) = outcome
        if isinstance(expected, ResponseCode):
            assert put.code == expected, put.remark
            assert not put.stored
            return
        assert put.code == 0, put.remark
        assert len(put.appended) == len(marks)
        for mark, known, entry in zip(marks, expected, put.appended, strict=True):
            if known is not None:
                assert entry.log_offset == known
            elif entry.log_offset not in self._places():
                self._note(mark, queue_id, entry.log_offset)
        self._stored += sum(known is None for known in expected)

    def _expected(self, queue_id: int, marks: list[Mark]) -> list[int | None] | ResponseCode:
        """For each the place it has, None for a new one; or why all are refused."""
        places: list[int | None] = []
        new_numbers: dict[str, int] = {}
        for mark in marks:
            producer, name = mark
            if isinstance(name, str):
                places.append(dict(self._ids[-IDS:]).get((producer, name)))
                continue
            sent_before = self._sequences.get((producer, queue_id), [])
            expected = len(sent_before) + new_numbers.get(producer, 0)
            if name > expected:
                return ResponseCode.SEQUENCE_GAP
            if name == expected:
                new_numbers[producer] = new_numbers.get(producer, 0) + 1
                places.append(None)
            elif name < len(sent_before) - NUMBERS:
                return ResponseCode.SEQUENCE_TOO_OLD
            else:
                places.append(sent_before[name])
        return places

    def _places(self) -> set[int]:
        return {place for sent_before in self._sequences.values() for place in sent_before} | {
            place for _, place in self._ids
        }

    def _note(self, mark: Mark, queue_id: int, log_offset: int) -> None:
        producer, name = mark
        if isinstance(name, int):
            self._sequences.setdefault((producer, queue_id), []).append(log_offset)
        else:
            self._ids.append(((producer, name), log_offset))

    def _append(self, properties: bytes) -> None:
        message = PendingMessage("T", 0, 0, 0, 1, BORN_HOST, b"x", properties)
        self._writer.put(message, lambda put: None, internal=True)


class Counted:
    """The known ids, whatever salt their hashes have."""

    def __init__(self, table: Idempotence) -> None:
        _, offsets = saved_ids(table.ids)
        self._offsets = offsets

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counted) and self._offsets == other._offsets

    __hash__ = None  # type: ignore[assignment]


TestProducers = Producers.TestCase
TestProducers.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
