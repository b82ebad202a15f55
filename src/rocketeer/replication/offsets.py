"""How a slave's consumer offsets follow its master's: forwards always, backwards only when somebody meant it. Pure.

A master that died has lost the commits of its last seconds; a slave that copied its table blindly would lose them
too (RocketMQ issue 1094). So what a master says right after its start counts only where it is ahead of what the slave
knows. What changes there afterwards was committed or reset by somebody, and is followed wherever it leads.
"""

from collections.abc import Mapping

Table = Mapping[str, Mapping[int, int]]
"""`topic@group` -> queue id -> offset."""


class OffsetMerge:
    """Remembers what the master said when it, or this slave, had just started."""

    def __init__(self) -> None:
        self._started: str | None = None
        self._at_start: dict[str, dict[int, int]] = {}
        self._last: Table = {}

    def merged(self, ours: Table, theirs: Table, started: str) -> Table:
        """What the slave knows from now on. `started` differs for every start of the master."""
        if started != self._started:
            self._started = started
            self._at_start = {key: dict(queues) for key, queues in theirs.items()}
            self._last = {}
        result: dict[str, Mapping[int, int]] = {
            key: queues for key, queues in ours.items() if key in theirs or key not in self._last
        }
        for key, queues in theirs.items():
            if (
                self._last.get(key) != queues or key not in result
            ):  # of many groups few move between two looks
                result[key] = self._followed(key, result.get(key, {}), queues)
        self._last = theirs
        return result

    def _followed(self, key: str, ours: Mapping[int, int], theirs: Mapping[int, int]) -> dict[int, int]:
        known = dict(ours)
        at_start = self._at_start.get(key, {})
        for queue_id, offset in theirs.items():
            if at_start.get(queue_id) == offset:
                known[queue_id] = max(offset, known.get(queue_id, offset))
            else:
                at_start.pop(queue_id, None)  # somebody has moved it: from now on it is followed
                known[queue_id] = offset
        return known
