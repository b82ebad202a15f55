"""Requests come in one by one: in a turn of the loop one of those who have signed in, and one of strangers.

A request takes about a millisecond of the loop. However many strangers come at the same time, users do not wait
behind them; strangers wait for each other. So many of them may be there; then the oldest gives its place to the next.
"""

import asyncio
from typing import Protocol
from weakref import WeakKeyDictionary


class Peer(Protocol):
    """A connection."""

    def take_turn(self) -> None:
        """Serve one request, or a part of one; whoever has more asks again."""
        ...

    def give_way(self) -> None:
        """Close it."""
        ...


class Turnstile:
    """Of one loop."""

    def __init__(self) -> None:
        self._strangers: dict[Peer, None] = {}
        """All that are there, the oldest first."""
        self._waiting_users: dict[Peer, None] = {}
        self._waiting_strangers: dict[Peer, None] = {}
        self._is_due = False

    def let_in(self, peer: Peer, strangers_max: int) -> None:
        """Somebody new, who is a stranger."""
        self._strangers[peer] = None
        if len(self._strangers) > strangers_max:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            oldest.give_way()

    def know(self, peer: Peer, *, is_user: bool) -> None:
        """Its last request was one of somebody who has signed in, or was not."""
        if is_user:
            self._strangers.pop(peer, None)
        else:
            self._strangers.setdefault(peer)

    def ask(self, peer: Peer) -> None:
        """Have its turn come, behind those of its kind who came before."""
        (self._waiting_strangers if peer in self._strangers else self._waiting_users)[peer] = None
        self._schedule()

    def forget(self, peer: Peer) -> None:
        """It has gone."""
        for peers in (self._strangers, self._waiting_users, self._waiting_strangers):
            peers.pop(peer, None)

    def _schedule(self) -> None:
        if not self._is_due and (self._waiting_users or self._waiting_strangers):
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self._is_due = False
        try:
            for waiting in (self._waiting_users, self._waiting_strangers):
                if waiting:
                    peer = next(iter(waiting))
                    del waiting[peer]
                    peer.take_turn()
        finally:
            self._schedule()


_turnstiles: WeakKeyDictionary[asyncio.AbstractEventLoop, Turnstile] = WeakKeyDictionary()


def turnstile() -> Turnstile:
    """The one of the running loop."""
    loop = asyncio.get_running_loop()
    known = _turnstiles.get(loop)
    if known is None:
        known = _turnstiles[loop] = Turnstile()
    return known
