"""Calls whose peer has gone are told so a few at a time.

Everybody who waits goes on in the same turn of the loop: with thousands of questions to one silent peer, whoever
else asks something would wait for all of them when that peer leaves.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

from rocketeer.errors import ConnectionLost

CALLS_A_TURN = 64

_Lost = tuple[asyncio.Future[Any], str]

_lost_of: WeakKeyDictionary[asyncio.AbstractEventLoop, deque[_Lost]] = WeakKeyDictionary()
"""One line for all connections of a loop: they may go together."""


def tell_lost(waiters: Iterable[asyncio.Future[Any]], remote: str) -> None:
    """Those who wait for an answer of `remote` get ConnectionLost, now or in one of the next turns of the loop."""
    loop = asyncio.get_running_loop()
    lost = _lost_of.setdefault(loop, deque())
    was_empty = not lost
    lost.extend((waiter, remote) for waiter in waiters)
    if was_empty:
        _tell_some(loop, lost)


def _tell_some(loop: asyncio.AbstractEventLoop, lost: deque[_Lost]) -> None:
    for _ in range(min(CALLS_A_TURN, len(lost))):
        waiter, remote = lost.popleft()
        if not waiter.done():
            waiter.set_exception(ConnectionLost(remote))
    if lost:
        loop.call_soon(_tell_some, loop, lost)
