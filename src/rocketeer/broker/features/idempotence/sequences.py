"""Who has sent what, in order: the table behind producers' sequence numbers.

A sequence is what one producer sends to one queue, numbered from 0 without a gap. Of each the next number is
known, and where its last messages lie in the log.
"""

from array import array
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, TypeVar

import msgspec

from rocketeer.model.offsets import LogOffset

SequenceKey = tuple[str, str, int]
"""(producer id, topic, queue id)"""

T = TypeVar("T")

PLACES_KEPT: Final = 32
"""The last ones of each sequence, however many others there are."""
PLACES_MAX: Final = 16 << 20


def batched(items: Sequence[T], count: int) -> Iterator[Sequence[T]]:
    return (items[start : start + count] for start in range(0, len(items), count))


class ProducerSequence(msgspec.Struct):
    """Numbers up to `next` are stored; `places` has the log offsets of the last of them."""

    next: int
    last_ms: int
    places: array  # type: ignore[type-arg]


class SavedSequence(msgspec.Struct, array_like=True):
    """A sequence as snapshots hold it."""

    producer: str
    topic: str
    queue_id: int
    next: int
    last_ms: int
    places: bytes


class Sequences:
    """All sequences, the one used longest ago first.

    With more than `places_max` places in all, those used longest ago lose all but their last `PLACES_KEPT`.
    """

    def __init__(
        self, *, window: int, sequences_max: int, idle_ms: int, places_max: int = PLACES_MAX
    ) -> None:
        assert window > 0
        assert sequences_max > 0
        self.window = window
        self.places_count = 0
        self._sequences_max = sequences_max
        self._idle_ms = idle_ms
        self._places_max = places_max
        self._trimmed_at = window + window // 4 + 1
        self._sequences: dict[SequenceKey, ProducerSequence] = {}
        self._long: OrderedDict[SequenceKey, ProducerSequence] = OrderedDict()
        """Sequences with more places than are kept in any case, the one used longest ago first."""

    def __len__(self) -> int:
        return len(self._sequences)

    def expected(self, key: SequenceKey) -> int:
        """The number the sequence's next message must have."""
        known = self._sequences.get(key)
        return 0 if known is None else known.next

    def oldest_known(self, key: SequenceKey) -> int:
        """From this number on a resend can be answered."""
        known = self._sequences.get(key)
        return 0 if known is None else known.next - min(len(known.places), self.window)

    def place(self, key: SequenceKey, sequence: int) -> LogOffset | None:
        """The log offset of a message; None if it is not stored, or too long ago to know."""
        known = self._sequences.get(key)
        if known is None or not self.oldest_known(key) <= sequence < known.next:
            return None
        return LogOffset(known.places[sequence - known.next])

    def add(self, key: SequenceKey, sequence: int, log_offset: LogOffset, now_ms: int) -> None:
        """Note a stored message. A number below the expected one is a resend put back by the broker and is ignored.

        A number beyond the next is only met when the log is replayed and its older part is gone.
        """
        if sequence < self.expected(key):
            return
        known = self._sequences.pop(key, None)
        if known is None:
            known = ProducerSequence(sequence, now_ms, array("q"))
            if len(self._sequences) >= self._sequences_max:
                self._forget_oldest()
        self._sequences[key] = known
        if sequence > known.next:
            self._keep_last(known, 0)
        known.next = sequence + 1
        known.last_ms = now_ms
        known.places.append(log_offset)
        self.places_count += 1
        if len(known.places) >= self._trimmed_at:
            self._keep_last(known, self.window)
        self._bound_places(key, known)

    def _bound_places(self, key: SequenceKey, known: ProducerSequence) -> None:
        """Bound the log offsets kept: drop the oldest of the longest unused sequences when all together have too
        many."""
        if len(known.places) > PLACES_KEPT:
            self._long[key] = known
            self._long.move_to_end(key)
        while self.places_count > self._places_max and self._long:
            _, oldest = self._long.popitem(last=False)
            self._keep_last(oldest, PLACES_KEPT)

    def _keep_last(self, known: ProducerSequence, count: int) -> None:
        gone = len(known.places) - count
        if gone > 0:
            known.places = known.places[gone:]  # copied, or what stays would split the memory that is free
            self.places_count -= gone

    def _forget(self, key: SequenceKey) -> None:
        self.places_count -= len(self._sequences.pop(key).places)
        self._long.pop(key, None)

    def _forget_oldest(self) -> None:
        """Forget the oldest, some together: a dict looks for its first entry behind all that were deleted before."""
        for key in list(islice(self._sequences, max(1, self._sequences_max // 1_000))):
            self._forget(key)

    def expire(self, now_ms: int, count_max: int) -> int:
        """Forget some of the sequences that were not used for long; returns how many."""
        idle: list[SequenceKey] = []
        for key, known in self._sequences.items():
            if now_ms - known.last_ms <= self._idle_ms or len(idle) == count_max:
                break
            idle.append(key)
        for key in idle:
            self._forget(key)
        return len(idle)

    def newest_first(self) -> Iterator[tuple[SequenceKey, int, int]]:
        """The last message of each sequence, number and log offset; the one used last first."""
        for key, known in reversed(self._sequences.items()):
            if known.places:
                yield key, known.next - 1, known.places[-1]

    def dump_slices(self, sequences_max: int = 500) -> Iterator[list[SavedSequence]]:
        """All sequences; those that go on meanwhile as they are now or as they were."""
        for some in batched(list(self._sequences), sequences_max):
            yield [
                SavedSequence(*key, known.next, known.last_ms, known.places[-self.window :].tobytes())
                for key in some
                if (known := self._sequences.get(key)) is not None  # forgotten meanwhile
            ]

    def load(self, saved: Iterable[SavedSequence]) -> None:
        for told in saved:
            places = array("q")
            places.frombytes(told.places)
            key = (told.producer, told.topic, told.queue_id)
            if key in self._sequences:
                self._forget(key)
            known = self._sequences[key] = ProducerSequence(told.next, told.last_ms, places)
            self.places_count += len(places)
            self._bound_places(key, known)
        while len(self._sequences) > self._sequences_max:
            self._forget_oldest()
