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
        """Close the connection: too many peers are here that have not signed in."""
        ...


class RequestQueue:
    """The peers of one event loop that wait for a turn: users and strangers, each first come, first served."""

    def __init__(self) -> None:
        self._strangers: dict[Peer, None] = {}
        """All peers that have not signed in, the oldest first."""
        self._waiting_users: dict[Peer, None] = {}
        self._waiting_strangers: dict[Peer, None] = {}
        self._is_due = False

    def admit(self, peer: Peer, strangers_max: int) -> None:
        """A new connection, a stranger's until it signs in; beyond `strangers_max` the oldest is closed."""
        self._strangers[peer] = None
        if len(self._strangers) > strangers_max:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            oldest.give_way()

    def note_user(self, peer: Peer, *, is_user: bool) -> None:
        """Its last request was one of somebody who has signed in, or was not."""
        if is_user:
            self._strangers.pop(peer, None)
        else:
            self._strangers.setdefault(peer)

    def add(self, peer: Peer) -> None:
        """Queue a peer for its turn, behind those of its kind who came before."""
        (self._waiting_strangers if peer in self._strangers else self._waiting_users)[peer] = None
        self._schedule()

    def remove(self, peer: Peer) -> None:
        """Remove a peer whose connection is gone."""
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


_request_queues: WeakKeyDictionary[asyncio.AbstractEventLoop, RequestQueue] = WeakKeyDictionary()


def request_queue() -> RequestQueue:
    """The one of the running loop."""
    loop = asyncio.get_running_loop()
    known = _request_queues.get(loop)
    if known is None:
        known = _request_queues[loop] = RequestQueue()
    return known
