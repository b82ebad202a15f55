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


class Guest(Protocol):
    """A connection."""

    @property
    def taken_bytes(self) -> int: ...
    @property
    def unread_bytes(self) -> int: ...
    @property
    def last_read_s(self) -> float: ...
    @property
    def closed(self) -> bool: ...

    def shut(self, *, abort: bool = False) -> None: ...


class Newcomers(Protocol):
    """Those who have no connection yet: they have not said anything, or are shaking hands."""

    def oldest_s(self) -> float | None:
        """Since when the first of them is here."""
        ...

    def drop_oldest(self) -> None: ...


class Places:
    """Of one server. Belongs to the loop thread."""

    def __init__(self, *newcomers: Newcomers) -> None:
        self._newcomers = newcomers
        self._strangers: dict[Guest, tuple[float, int]] = {}
        """Who was not answered yet, as far as we looked: with when it came, the oldest first, and what was written to
        it by then, which were words of TLS."""
        self._silent: list[tuple[float, int, Guest]] = []
        """A heap of those who were silent when the server looked last."""
        self._given = 0

    def opened(self, guest: Guest, since_s: float) -> None:
        self._strangers[guest] = since_s, guest.taken_bytes + guest.unread_bytes

    def closed(self, guest: Guest) -> None:
        self._strangers.pop(guest, None)

    def look_again(self) -> None:
        """The server goes through its connections."""
        self._silent.clear()

    def looked_at(self, guest: Guest) -> None:
        if guest in self._strangers and self._was_answered(guest):
            del self._strangers[guest]
        last_s = guest.last_read_s
        if time.monotonic() - last_s > SILENT_S:
            heapq.heappush(self._silent, (last_s, id(guest), guest))

    def make_room(self) -> bool:
        """Send somebody away; False if all have their place for a reason."""
        if not (self._stranger_gone() or self._silent_one_gone()):
            return False
        self._given += 1
        if self._given & (self._given - 1) == 0:  # 1, 2, 4, 8 ...: nobody fills a disk with these
            log.warning("connections ended reason=others want their places count=%d", self._given)
        return True

    def _stranger_gone(self) -> bool:
        coming = [(since_s, each) for each in self._newcomers if (since_s := each.oldest_s()) is not None]
        first_s, first = min(coming, key=lambda found: found[0], default=(float("inf"), None))
        stranger = self._oldest_stranger()
        if stranger is not None and self._strangers[stranger][0] <= first_s:
            del self._strangers[stranger]
            stranger.shut(abort=True)
        elif first is not None:
            first.drop_oldest()
        else:
            return False
        return True

    def _oldest_stranger(self) -> Guest | None:
        """Those before it were answered meanwhile, or are gone, and are looked at no more."""
        for _ in range(min(LOOKED_AT_ONCE, len(self._strangers))):
            guest = next(iter(self._strangers))
            if not (guest.closed or self._was_answered(guest)):
                return guest
            del self._strangers[guest]
        return None

    def _was_answered(self, guest: Guest) -> bool:
        return guest.taken_bytes > self._strangers[guest][1]

    def _silent_one_gone(self) -> bool:
        while self._silent:
            _, _, guest = heapq.heappop(self._silent)
            if not guest.closed and time.monotonic() - guest.last_read_s > SILENT_S:
                guest.shut(abort=True)
                return True
        return False
