"""Who has sent what, in order: the table behind producers' sequence numbers.

A lane is what one producer sends to one queue, numbered from 0 without a gap. Of each lane the next number is
known, and where its last messages lie in the log.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec

Key = tuple[str, str, int]
"""(producer id, topic, queue id)"""

T = TypeVar("T")


def batched(items: Sequence[T], count: int) -> Iterator[Sequence[T]]:
    return (items[start : start + count] for start in range(0, len(items), count))


class Lane(msgspec.Struct):
    """Numbers up to `next` are stored; `places` has the log offsets of the last of them."""

    next: int
    last_ms: int
    places: array  # type: ignore[type-arg]


class SavedLane(msgspec.Struct, array_like=True):
    """A lane as snapshots hold it."""

    producer: str
    topic: str
    queue_id: int
    next: int
    last_ms: int
    places: bytes


class Sequences:
    """All lanes, the one used longest ago first."""

    def __init__(self, *, window: int, lanes_max: int, idle_ms: int) -> None:
        assert window > 0
        assert lanes_max > 0
        self.window = window
        self._lanes_max = lanes_max
        self._idle_ms = idle_ms
        self._lanes: dict[Key, Lane] = {}

    def __len__(self) -> int:
        return len(self._lanes)

    def expected(self, key: Key) -> int:
        """The number the lane's next message must have."""
        lane = self._lanes.get(key)
        return 0 if lane is None else lane.next

    def oldest_known(self, key: Key) -> int:
        """From this number on a resend can be answered."""
        lane = self._lanes.get(key)
        return 0 if lane is None else lane.next - min(len(lane.places), self.window)

    def place(self, key: Key, sequence: int) -> int | None:
        """The log offset of a message; None if it is not stored, or too long ago to know."""
        lane = self._lanes.get(key)
        if lane is None or not self.oldest_known(key) <= sequence < lane.next:
            return None
        place: int = lane.places[sequence - lane.next]
        return place

    def add(self, key: Key, sequence: int, log_offset: int, now_ms: int) -> None:
        """The message is stored. Numbers below the next are resends put back by the broker: nothing new.

        A number beyond the next is only met when the log is replayed and its older part is gone.
        """
        if sequence < self.expected(key):
            return
        lane = self._lanes.pop(key, None)
        if lane is None:
            lane = Lane(sequence, now_ms, array("q"))
            if len(self._lanes) >= self._lanes_max:
                del self._lanes[next(iter(self._lanes))]
        self._lanes[key] = lane
        if sequence > lane.next:
            lane.places = array("q")
        lane.next = sequence + 1
        lane.last_ms = now_ms
        lane.places.append(log_offset)
        if len(lane.places) >= 2 * self.window:
            del lane.places[: -self.window]

    def expire(self, now_ms: int) -> int:
        """Forget lanes that were not used for long; returns how many."""
        idle = []
        for key, lane in self._lanes.items():
            if now_ms - lane.last_ms <= self._idle_ms:
                break
            idle.append(key)
        for key in idle:
            del self._lanes[key]
        return len(idle)

    def newest_first(self) -> Iterator[tuple[Key, int, int]]:
        """Of each lane its last message, number and log offset; the lane used last first."""
        for key, lane in reversed(self._lanes.items()):
            if lane.places:
                yield key, lane.next - 1, lane.places[-1]

    def dump_slices(self, lanes_max: int = 500) -> Iterator[list[SavedLane]]:
        """All lanes; those that go on meanwhile as they are now or as they were."""
        for some in batched(list(self._lanes.items()), lanes_max):
            yield [
                SavedLane(*key, lane.next, lane.last_ms, lane.places[-self.window :].tobytes())
                for key, lane in some
            ]

    def dump(self) -> list[SavedLane]:
        """All at once."""
        return [lane for some in self.dump_slices() for lane in some]

    def load(self, saved: Iterable[SavedLane]) -> None:
        for lane in saved:
            places = array("q")
            places.frombytes(lane.places)
            self._lanes[lane.producer, lane.topic, lane.queue_id] = Lane(lane.next, lane.last_ms, places)
        while len(self._lanes) > self._lanes_max:
            del self._lanes[next(iter(self._lanes))]
