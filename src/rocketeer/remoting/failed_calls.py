"""Calls whose peer has gone, or did not answer in time, are told so a few at a time.

Everybody who waits goes on in the same turn of the loop: with thousands of questions to one silent peer, whoever
else asks something would wait for all of them when that peer leaves, or when their time is over at once.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakKeyDictionary

CALLS_A_TURN = 16

_Failed = tuple[asyncio.Future[Any], Callable[[], Exception]]

_failed_of: WeakKeyDictionary[asyncio.AbstractEventLoop, deque[_Failed]] = WeakKeyDictionary()
"""One queue of failed calls for all connections of a loop: many may be lost together."""


def fail_calls(waiters: Iterable[asyncio.Future[Any]], error: Callable[[], Exception]) -> None:
    """Fail the calls that wait, each with an error of its own, in the next turns of the loop."""
    loop = asyncio.get_running_loop()
    failed = _failed_of.setdefault(loop, deque())
    was_empty = not failed
    failed.extend((waiter, error) for waiter in waiters)
    if was_empty:
        # Not now: more may fail in this turn, as calls that began together and whose time is over together.
        loop.call_soon(_tell_some, loop, failed)


def _tell_some(loop: asyncio.AbstractEventLoop, failed: deque[_Failed]) -> None:
    for _ in range(min(CALLS_A_TURN, len(failed))):
        waiter, error = failed.popleft()
        if not waiter.done():
            waiter.set_exception(error())
    if failed:
        loop.call_soon(_tell_some, loop, failed)
