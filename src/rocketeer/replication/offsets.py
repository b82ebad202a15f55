"""How a slave's consumer offsets follow its master's: forwards always, backwards only when somebody meant it. Pure.

A master that died has lost the commits of its last seconds; a slave that copied its table blindly would lose them
too (RocketMQ issue 1094). So what a master says right after its start counts only where it is ahead of what the slave
knows. What changes there afterwards was committed or reset by somebody, and is followed wherever it leads.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from rocketeer.model.offsets import QueueOffset

KEYS_AT_ONCE: Final = 128
OffsetsByTopic = Mapping[str, Mapping[int, QueueOffset]]
"""`topic@group` -> queue id -> offset."""


class OffsetMerge:
    """Remembers what the master said when it, or this slave, had just started."""

    def __init__(self) -> None:
        self._started: str | None = None
        self._at_start: dict[str, dict[int, QueueOffset]] = {}
        self._last: dict[str, dict[int, QueueOffset]] = {}

    def merged(
        self, ours: OffsetsByTopic, theirs: dict[str, dict[int, QueueOffset]], started: str
    ) -> OffsetsByTopic:
        """What the slave knows from now on. `started` differs for every start of the master."""
        result = dict(ours)
        for change in self.merging(ours, theirs, started):
            if change is None:
                continue
            key, queues = change
            if queues is None:
                del result[key]
            else:
                result[key] = queues
        return result

    def merging(
        self, ours: OffsetsByTopic, theirs: dict[str, dict[int, QueueOffset]], started: str
    ) -> Iterator[tuple[str, dict[int, QueueOffset] | None] | None]:
        """The same in steps: a key and its offsets from now on, None for one that is gone; None after steps that
        changed nothing. It keeps `theirs`; `ours` may be changed in between, by whoever takes these over and by
        others."""
        if started != self._started:
            self._started = started
            self._at_start = {}
            self._last = {}
            for number, (key, queues) in enumerate(theirs.items(), 1):
                self._at_start[key] = dict(queues)
                if number % KEYS_AT_ONCE == 0:
                    yield None
        for number, key in enumerate(self._last, 1):
            if key not in theirs and key in ours:
                yield key, None
            elif number % KEYS_AT_ONCE == 0:
                yield None
        for number, (key, queues) in enumerate(theirs.items(), 1):
            known = ours.get(key)
            if known is None or self._last.get(key) != queues:  # of many groups few move between two looks
                yield key, self._followed(key, known or {}, queues)
            elif number % KEYS_AT_ONCE == 0:
                yield None
        before, self._last = self._last, theirs
        while before:  # to let go of a million at once takes its time
            for _ in range(min(KEYS_AT_ONCE, len(before))):
                before.popitem()
            yield None

    def _followed(
        self, key: str, ours: Mapping[int, QueueOffset], theirs: Mapping[int, QueueOffset]
    ) -> dict[int, QueueOffset]:
        known = dict(ours)
        at_start = self._at_start.get(key, {})
        for queue_id, offset in theirs.items():
            if at_start.get(queue_id) == offset:
                known[queue_id] = max(offset, known.get(queue_id, offset))
            else:
                at_start.pop(queue_id, None)  # somebody has moved it: from now on it is followed
                known[queue_id] = offset
        return known
