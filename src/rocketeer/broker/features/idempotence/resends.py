"""Producers that may send again: a message with a known mark is answered with its first place, and not stored again.

Two tables say where to look, the log says what is true. They are made from the log: while it is written, and at
start from where the last snapshot stands (see `docs/adr/0005-idempotent-producers.md`).
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rocketeer.broker.features.idempotence.producer_marks import ProducerMark, counts, read_mark, read_sent
from rocketeer.broker.features.idempotence.sequences import PLACES_MAX, SequenceKey, Sequences
from rocketeer.errors import RequestRefused
from rocketeer.model.offsets import LogOffset
from rocketeer.model.property_names import PRODUCER_ID
from rocketeer.model.topic import TIMER_TOPIC
from rocketeer.protocol.codes import ResponseCode
from rocketeer.record.entry import DispatchEntry
from rocketeer.record.layout import StoredMessage
from rocketeer.record.timers import due_ms, ended_by
from rocketeer.steps import Steps
from rocketeer.store.known_ids import KnownIds

log = logging.getLogger(__name__)

EXPIRED_AT_ONCE = 500


_PRODUCER_ID = PRODUCER_ID.encode()


@dataclass(frozen=True)
class IdempotenceLimits:
    """Limits of what is remembered: sequences, ids and their ages."""

    ids: int = 4_000_000
    numbers: int = 1_000
    """Most numbers of each sequence that are remembered, the last ones."""
    sequences: int = 200_000
    places: int = PLACES_MAX
    """Most numbers of all sequences together."""
    idle_ms: int = 72 * 3_600_000


class MarkedLog(Protocol):
    """What looking things up asks of the store."""

    def message_at(self, log_offset: LogOffset) -> StoredMessage | None: ...

    def expiry_ms(self) -> int: ...


class Idempotence:
    """Knows what is stored. Everything runs on the loop, but for the replay at start."""

    def __init__(self, window: IdempotenceLimits, store: MarkedLog, *, salt: bytes) -> None:
        self._window = window
        self._store = store
        self.reset(salt)

    def reset(self, salt: bytes) -> None:
        """Reset to empty."""
        window = self._window
        self.ids = KnownIds(window.ids, salt)
        self.sequences = Sequences(
            window=window.numbers,
            sequences_max=window.sequences,
            idle_ms=window.idle_ms,
            places_max=window.places,
        )
        self.changed = False

    # --- sends -------------------------------------------------------------------------------

    def examining(
        self, topic: str, queue_id: int, messages: Sequence[tuple[bytes, bytes]]
    ) -> "Steps[Resends | None]":
        """Which of the messages of a send are stored already; RequestRefused for a number out of order."""
        if not counts(topic):
            return None
        marks: list[ProducerMark | None] = []
        for properties, _ in messages:
            marks.append(read_mark(properties))
            yield
        if not any(marks):
            return None
        found = Resends(self, topic, queue_id, marks)
        next_of: dict[SequenceKey, int] = {}
        seen: dict[ProducerMark, int] = {}
        for place, mark in enumerate(marks):
            if mark is None:
                found.fresh.append(place)
            elif mark in seen:
                found.twins[place] = seen[mark]
            elif mark.dedup_id is not None:
                hashed = self.hashed(mark)
                at = found.ids[hashed] = self.ids.find(hashed)
                found.note(place, self._stored_at(at, mark))
            else:
                key = (mark.producer, topic, queue_id)
                assert mark.sequence is not None
                if key not in next_of:
                    next_of[key] = found.sequences[key] = self.sequences.expected(key)
                expected = next_of[key]
                if mark.sequence == expected:
                    next_of[key] = expected + 1
                    found.note(place, None)
                else:
                    found.note(place, self._resent(key, mark, expected, messages[place][1]))
            if mark is not None:
                seen.setdefault(mark, place)
            yield
        return found

    def _resent(self, key: SequenceKey, mark: ProducerMark, expected: int, body: bytes) -> StoredMessage:
        """The stored message with this sequence number; RequestRefused for a gap, or a number too old to be known."""
        producer, topic, queue_id = key
        assert mark.sequence is not None
        where = f"producer {producer!r}, topic {topic!r}, queue {queue_id}"
        if mark.sequence > expected:
            raise RequestRefused(
                ResponseCode.SEQUENCE_GAP,
                f"{where}: sequence {expected} expected, got {mark.sequence}: those before it are not stored",
            )
        at = self.sequences.place(key, mark.sequence)
        message = None if at is None else self._store.message_at(at)
        if message is None or not _carries(message, mark):
            raise RequestRefused(
                ResponseCode.SEQUENCE_TOO_OLD,
                f"{where}: sequence {expected} expected, got {mark.sequence}: it was stored, but too long ago to "
                f"say where (known from {self.sequences.oldest_known(key)} on)",
            )
        if message.body != body:
            raise RequestRefused(
                ResponseCode.SEQUENCE_TAKEN,
                f"{where}: sequence {expected} expected, got {mark.sequence}, which another message has: do two "
                "producers use one id?",
            )
        return message

    def find_id(self, mark: ProducerMark) -> StoredMessage | None:
        return self._stored_at(self.ids.find(self.hashed(mark)), mark)

    def _stored_at(self, at: LogOffset | None, mark: ProducerMark) -> StoredMessage | None:
        """The message at this log offset if it carries the mark, else None: different ids may have the same hash."""
        message = None if at is None else self._store.message_at(at)
        return message if message is not None and _carries(message, mark) else None

    def hashed(self, mark: ProducerMark) -> int:
        return self.ids.hash_of(f"{mark.producer}\x01{mark.dedup_id}".encode("utf-8", "replace"))

    def remember(self, mark: ProducerMark, topic: str, queue_id: int, entry: DispatchEntry) -> None:
        self.changed = True
        if mark.sequence is None:
            self.ids.add(self.hashed(mark), entry.log_offset)
        else:
            self.sequences.add(
                (mark.producer, topic, queue_id), mark.sequence, entry.log_offset, entry.store_ms
            )

    def moved(self, entry: DispatchEntry) -> None:
        """A message that waits was stored again, because its file will go: its id leads here now."""
        ended = ended_by(entry.prepared_offset)
        if ended is None or entry.topic != TIMER_TOPIC:
            return
        message = self._store.message_at(entry.log_offset)
        sent = None if message is None else read_sent(message)
        if sent is None or sent.mark.dedup_id is None:
            return
        hashed = self.hashed(sent.mark)
        if self.ids.find(hashed) == ended:
            self.ids.add(hashed, entry.log_offset)
            self.changed = True

    # --- the log at start --------------------------------------------------------------------

    def on_message(self, entry: DispatchEntry) -> None:
        """A message behind the snapshot. The first with a mark is its producer's, others were put back."""
        self.moved(entry)
        if _PRODUCER_ID not in entry.properties:  # of most: at start all that was stored is looked at
            return
        message = self._store.message_at(entry.log_offset)
        sent = None if message is None else read_sent(message)
        if sent is None:
            return
        mark = sent.mark
        if mark.sequence is None:
            known = sent.put_back or self.find_id(mark) is not None
        else:
            expected = self.sequences.expected((mark.producer, sent.topic, sent.queue_id))
            known = mark.sequence < expected or (sent.put_back and not expected)
        if not known:
            self.remember(mark, sent.topic, sent.queue_id, entry)

    def expiring(self) -> Steps[None]:
        """Forget sequences that were not used for long, some a step."""
        now_ms, gone = self._store.expiry_ms(), 0
        while some := self.sequences.expire(now_ms, EXPIRED_AT_ONCE):
            gone += some
            self.changed = True
            yield
        if gone:
            log.info("idle producers forgotten sequences=%d", gone)


class Resends:
    """The outcome of looking up one send's messages: which are stored already, and which (`fresh`) are to be
    stored."""

    def __init__(
        self, table: Idempotence, topic: str, queue_id: int, marks: Sequence[ProducerMark | None]
    ) -> None:
        self._table = table
        self._topic = topic
        self._queue_id = queue_id
        self._marks = marks
        self._asked = table.ids
        self._known: dict[int, DispatchEntry] = {}
        self.fresh: list[int] = []
        self.twins: dict[int, int] = {}
        """Messages that stand twice in one send, and where the first is."""
        self.ids: dict[int, int | None] = {}
        self.sequences: dict[SequenceKey, int] = {}
        """What the tables said, by the hash of an id and by sequence."""

    def holds(self) -> bool:
        ids, expected = self._table.ids, self._table.sequences.expected
        return (
            ids is self._asked  # another one after a reset, with other hashes
            and all(ids.find(hashed) == at for hashed, at in self.ids.items())
            and all(expected(key) == number for key, number in self.sequences.items())
        )

    def note(self, place: int, message: StoredMessage | None) -> None:
        if message is None:
            self.fresh.append(place)
        else:
            self._known[place] = _entry(message)

    def stored(self, entries: Sequence[DispatchEntry]) -> Sequence[DispatchEntry]:
        places = dict(self._known)
        for place, entry in zip(self.fresh, entries, strict=True):
            places[place] = entry
            mark = self._marks[place]
            if mark is not None:
                self._table.remember(mark, self._topic, self._queue_id, entry)
        for place, first in self.twins.items():
            places[place] = places[first]
        return [places[place] for place in range(len(self._marks))]


def _carries(message: StoredMessage, mark: ProducerMark) -> bool:
    sent = read_sent(message)
    return sent is not None and sent.mark == mark


def _entry(message: StoredMessage) -> DispatchEntry:
    """The dispatch entry of a stored message, as the reply to its resend needs it."""
    return DispatchEntry(
        message.log_offset,
        message.size,
        message.topic,
        message.queue_id,
        message.queue_offset,
        due_ms(message.properties) if message.topic == TIMER_TOPIC else 0,
        message.store_ms,
        message.keys or "",
        message.uniq_key,
        message.sys_flag,
        message.prepared_offset,
    )
