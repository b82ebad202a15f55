"""Limits what is in flight: where async and one-way sends wait when too many are under way: first come, first in."""

import asyncio
from collections import deque

from rocketeer.client.core.in_flight import InFlight
from rocketeer.errors import TooManyInFlight


class AsyncSendLimit:
    """`await enter(size, timeout_s)`, then `leave(size)` when the answer is there, or the message has left."""

    def __init__(self, in_flight: InFlight) -> None:
        self._in_flight = in_flight
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()
        self._empty: asyncio.Future[None] | None = None

    def try_enter(self, size: int) -> bool:
        """Take a place if there is one and nobody waits for it."""
        return not self._waiting and self._in_flight.try_enter(size)

    async def enter(self, size: int, timeout_s: float) -> None:
        if self.try_enter(size):
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (place, size)
        self._waiting.append(entry)
        try:
            async with asyncio.timeout(timeout_s):
                await place
        except BaseException as error:
            if place.done() and not place.cancelled():
                self.leave(size)  # the place came at the same moment as the end of the wait
            elif entry in self._waiting:
                self._waiting.remove(entry)
            if isinstance(error, TimeoutError):
                raise TooManyInFlight(f"{self._in_flight} and none ended within {timeout_s:g} s") from None
            raise

    def leave(self, size: int) -> None:
        self._in_flight.leave(size)
        while self._waiting:
            place, wanted = self._waiting[0]
            if place.done():  # given up
                self._waiting.popleft()
                continue
            if not self._in_flight.try_enter(wanted):
                break
            self._waiting.popleft()
            place.set_result(None)
        if self._empty is not None and not self._in_flight.count:
            self._empty.set_result(None)
            self._empty = None

    async def wait_empty(self, timeout_s: float) -> bool:
        """Wait until nothing is in flight; False when it takes longer."""
        if not self._in_flight.count:
            return True
        if self._empty is None:
            self._empty = asyncio.get_running_loop().create_future()
        done, _ = await asyncio.wait((self._empty,), timeout=timeout_s)
        return bool(done)
