"""Held pulls: waiters on (topic, queue) with a callback, woken by an arriving message or by their deadline.

Nothing here knows of frames: the pull handler's callback makes the answer.
"""

import heapq
import itertools
import logging
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from rocketeer.config import BrokerLimits
from rocketeer.model.offsets import QueueOffset
from rocketeer.remoting.limits import busy_limit
from rocketeer.steps import Steps

log = logging.getLogger(__name__)

H = TypeVar("H", bound=Hashable)
F = TypeVar("F")
QueueKey = tuple[str, int]
RetryPull = Callable[[bool], bool]
MadeOf = tuple[str, ...]
"""What a filter was made of: those of the same texts are the same."""

_DEADLINES_MIN = 1024  # below this, those of waiters that are gone may stay


class PullWaiter:
    """One held pull. `retry(last)` tries again; it returns False when it wants to be held on."""

    __slots__ = ("key", "made_of", "owner", "retry")

    def __init__(self, key: QueueKey, retry: RetryPull, owner: Hashable, made_of: MadeOf) -> None:
        self.key = key
        self.made_of = made_of
        self.owner = owner
        self.retry: RetryPull | None = retry
        """None once the pull was answered: its deadline may be kept a while longer, and must not keep in memory what
        the answer would have been made of."""


class SharedFilter:
    """A filter that `count` waiters have in common."""

    __slots__ = ("count", "filter")

    def __init__(self, made: object) -> None:
        self.filter = made
        self.count = 0


class HeldPulls:
    """All waiters; `schedule` runs a function once, soon, on the loop (arrivals of one run wake together).

    `run` does what waking many takes, a waiter a step: at once, or in slices.
    """

    def __init__(
        self,
        schedule: Callable[[Callable[[], None]], object],
        *,
        run: Callable[[Steps[None]], object],
        limits: BrokerLimits,
    ) -> None:
        self._schedule = schedule
        self._run = run
        self._limits = limits
        self.waiting: dict[QueueKey, set[PullWaiter]] = {}
        """The waiters by the queue they wait for; queues that nobody waits for are not in here."""
        self._owned: dict[Hashable, set[PullWaiter]] = {}
        self._deadlines: list[tuple[float, int, PullWaiter]] = []
        self._count = 0
        self._shared_filters: dict[MadeOf, SharedFilter] = {}
        """The filters by the texts they were made of: a compiled filter may be a hundred times as large."""
        self._chars = 0
        self._order = itertools.count()
        self._arrived: set[QueueKey] = set()

    def __len__(self) -> int:
        return self._count

    def hold(
        self,
        topic: str,
        queue_id: int,
        deadline_s: float,
        retry: RetryPull,
        owner: Hashable = None,
        *,
        made_of: MadeOf = (),
    ) -> PullWaiter:
        """`owner` is whoever waits: when it goes, `forget` lets go of all it waits for. `made_of` is what its
        filter was made of, if it has one; `share` is asked for the filter before.

        RequestRefused when it, or everybody together, waits for too much already.
        """
        limits = self._limits
        if self._count >= limits.held_pulls:
            raise busy_limit("held pulls of all connections", "limitHeldPulls", limits.held_pulls)
        owned = self._owned.get(owner)
        if owned is not None and len(owned) >= limits.connection_held_pulls:
            what = "held pulls of this connection"
            raise busy_limit(what, "limitConnectionHeldPulls", limits.connection_held_pulls)
        key = (topic, queue_id)
        if made_of:
            self._shared_filters[made_of].count += 1
        waiter = PullWaiter(key, retry, owner, made_of)
        self.waiting.setdefault(key, set()).add(waiter)
        if owned is None:
            owned = self._owned[owner] = set()
        owned.add(waiter)
        self._count += 1
        if len(self._deadlines) > max(_DEADLINES_MIN, 4 * self._count):
            deadlines, self._deadlines = self._deadlines, []
            self._run(self._rebuilding_deadlines(deadlines))
        heapq.heappush(self._deadlines, (deadline_s, next(self._order), waiter))
        return waiter

    def share(self, made_of: MadeOf, made: F) -> F:
        """The filter that others wait with already, if it was made of the same; else `made`, for the next ones.

        RequestRefused when there are too many different ones.
        """
        known = self._shared_filters.get(made_of)
        if known is None:
            most = self._limits.held_chars
            chars = sum(map(len, made_of))
            if self._chars + chars > most:
                raise busy_limit("characters of held pulls' different filters", "limitHeldChars", most)
            known = self._shared_filters[made_of] = SharedFilter(made)
            self._chars += chars
        found: F = known.filter  # type: ignore[assignment]
        return found

    def unshare(self, made_of: MadeOf) -> None:
        """Give a shared filter back: the pull that asked for it is not held after all, or no longer."""
        known = self._shared_filters.get(made_of)
        if known is not None and known.count <= 0:
            del self._shared_filters[made_of]
            self._chars -= sum(map(len, made_of))

    def arrived(self, topic: str, queue_id: int, max_offset: QueueOffset) -> None:
        """Messages were stored in a queue of `waiting`; called after every run, so it only takes a note."""
        if not self._arrived:
            self._schedule(self._wake_arrived)
        self._arrived.add((topic, queue_id))

    def expiring(self, now_s: float) -> Steps[None]:
        """Give every waiter whose time is over its last try, a waiter a step."""
        while self._deadlines and self._deadlines[0][0] <= now_s:
            waiter = heapq.heappop(self._deadlines)[2]
            self._try(waiter, last=True)
            yield

    def wake_all(self) -> None:
        """Give every waiter its last try: the broker stops."""
        for waiters in list(self.waiting.values()):
            for waiter in list(waiters):
                self._try(waiter, last=True)

    def _rebuilding_deadlines(self, deadlines: list[tuple[float, int, PullWaiter]]) -> Steps[None]:
        """Rebuild the heap of deadlines without the waiters that were answered; the others may be some ms late."""
        for entry in deadlines:
            if entry[2].retry is not None:
                heapq.heappush(self._deadlines, entry)
            yield

    def forget(self, owner: Hashable) -> None:
        """Drop all pulls of an owner that has gone: there is nobody to answer."""
        self._run(self._forgetting(owner))

    def _forgetting(self, owner: Hashable) -> Steps[None]:
        for waiter in list(self._owned.get(owner, ())):
            self._release(waiter)
            yield

    def _wake_arrived(self) -> None:
        keys, self._arrived = self._arrived, set()
        self._run(self._waking(keys))

    def _waking(self, keys: Iterable[QueueKey]) -> Steps[None]:
        for key in keys:
            for waiter in list(self.waiting.get(key, ())):
                self._try(waiter, last=False)
                yield

    def _try(self, waiter: PullWaiter, *, last: bool) -> None:
        retry = waiter.retry
        if retry is None:
            return
        try:
            answered = retry(last)
        except Exception:
            log.exception("held pull failed topic=%s queue=%d", *waiter.key)
            answered = True  # the others must be woken, and this one not again and again
        if answered or last:
            self._release(waiter)

    def _release(self, waiter: PullWaiter) -> None:
        if waiter.retry is None:
            return
        waiter.retry = None
        self._count -= 1
        if waiter.made_of:
            self._shared_filters[waiter.made_of].count -= 1
            self.unshare(waiter.made_of)
        _discard(self.waiting, waiter.key, waiter)
        _discard(self._owned, waiter.owner, waiter)


def _discard(table: dict[H, set[PullWaiter]], key: H, waiter: PullWaiter) -> None:
    waiters = table[key]
    waiters.remove(waiter)
    if not waiters:
        del table[key]
