"""Who gives its place to the next one who comes, when a server has as many connections as it may have.

First those of whom nothing is known, the oldest first: they were never answered, whatever they have sent. Then
whoever has said nothing for longer than SILENT_S: honest clients say something twice a minute. So strangers who
connect and do no more, or send a byte now and then, do not keep others out.
"""

import heapq
import logging
import time
from typing import Final, Protocol

log = logging.getLogger(__name__)

SILENT_S = 60.0
LOOKED_AT_ONCE: Final = 1_024
"""Connections that are found to be known when somebody wants a place."""


class OpenConnection(Protocol):
    """A connection of the server, as far as slots depend on it."""

    @property
    def taken_bytes(self) -> int: ...
    @property
    def unread_bytes(self) -> int: ...
    @property
    def last_read_s(self) -> float: ...
    @property
    def closed(self) -> bool: ...

    def close_quietly(self, *, abort: bool = False) -> None: ...


class PendingConnections(Protocol):
    """Those who have no connection yet: they have not said anything, or are shaking hands."""

    def oldest_s(self) -> float | None:
        """Since when the first of them is here."""
        ...

    def drop_oldest(self) -> None: ...


class ConnectionSlots:
    """Chooses who is closed when a new connection of a server needs a slot. Belongs to the loop thread."""

    def __init__(self, *pending: PendingConnections) -> None:
        self._pending = pending
        self._unanswered: dict[OpenConnection, tuple[float, int]] = {}
        """Who was not answered yet, as far as we looked: with when it came, the oldest first, and what was written to
        it by then, which were words of TLS."""
        self._silent: list[tuple[float, int, OpenConnection]] = []
        """A heap of those who were silent when the server looked last."""
        self._given = 0

    def opened(self, connection: OpenConnection, since_s: float) -> None:
        self._unanswered[connection] = since_s, connection.taken_bytes + connection.unread_bytes

    def closed(self, connection: OpenConnection) -> None:
        self._unanswered.pop(connection, None)

    def look_again(self) -> None:
        """Forget who was silent: the server goes through its connections, with `looked_at` for each."""
        self._silent.clear()

    def looked_at(self, connection: OpenConnection) -> None:
        if connection in self._unanswered and self._was_answered(connection):
            del self._unanswered[connection]
        last_s = connection.last_read_s
        if time.monotonic() - last_s > SILENT_S:
            heapq.heappush(self._silent, (last_s, id(connection), connection))

    def evict_one(self) -> bool:
        """Close one connection for the next one; False if all were answered and none is silent."""
        if not (self._evict_unanswered() or self._evict_silent()):
            return False
        self._given += 1
        if self._given & (self._given - 1) == 0:  # 1, 2, 4, 8 ...: nobody fills a disk with these
            log.warning("connections ended reason=others want their places count=%d", self._given)
        return True

    def _evict_unanswered(self) -> bool:
        coming = [(since_s, each) for each in self._pending if (since_s := each.oldest_s()) is not None]
        first_s, first = min(coming, key=lambda found: found[0], default=(float("inf"), None))
        oldest = self._oldest_unanswered()
        if oldest is not None and self._unanswered[oldest][0] <= first_s:
            del self._unanswered[oldest]
            oldest.close_quietly(abort=True)
        elif first is not None:
            first.drop_oldest()
        else:
            return False
        return True

    def _oldest_unanswered(self) -> OpenConnection | None:
        """Who has waited longest without an answer; those before it were answered meanwhile, or are gone."""
        for _ in range(min(LOOKED_AT_ONCE, len(self._unanswered))):
            connection = next(iter(self._unanswered))
            if not (connection.closed or self._was_answered(connection)):
                return connection
            del self._unanswered[connection]
        return None

    def _was_answered(self, connection: OpenConnection) -> bool:
        return connection.taken_bytes > self._unanswered[connection][1]

    def _evict_silent(self) -> bool:
        while self._silent:
            _, _, connection = heapq.heappop(self._silent)
            if not connection.closed and time.monotonic() - connection.last_read_s > SILENT_S:
                connection.close_quietly(abort=True)
                return True
        return False
