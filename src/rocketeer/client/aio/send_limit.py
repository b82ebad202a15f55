"""Limits what is in flight: where async and one-way sends wait when too many are under way. First come, first in."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Final

import msgspec

from rocketeer.client.core.in_flight import InFlight, SlotWaiter
from rocketeer.errors import ClientClosed, SendFailed, TooManyInFlight

SECOND_LOOK_S: Final = 0.5
"""A loop that was busy with other things has answers yet to read: it gets this long before waiters are sent away."""


class _Waiter(msgspec.Struct, gc=False, eq=False):
    """A coroutine that waits for a free slot."""

    free: asyncio.Future[None]
    size: int
    then: Callable[[], None] | None = None

    def done(self) -> bool:
        return self.free.done()

    def enter(self) -> None:
        if self.then is not None:
            self.then()
        self.free.set_result(None)

    def set_exception(self, error: Exception, /) -> None:
        self.free.set_exception(error)


class AsyncSendLimit:
    """`await enter(size)`, then `leave(size)` when the answer is there, or the message has left.

    Waiting costs nothing but its future. Whoever waits does so as long as others are answered; when none was for
    `stalled_s`, all who wait get TooManyInFlight.
    """

    def __init__(self, in_flight: InFlight, stalled_s: float) -> None:
        self.in_flight = in_flight
        self._stalled_s = stalled_s
        self._empty: asyncio.Future[None] | None = None
        self._answered = 0
        self._watch: asyncio.TimerHandle | None = None

    def try_enter(self, size: int) -> bool:
        """Take a place if there is one and nobody waits for it."""
        return not self.in_flight.waiting and self.in_flight.try_enter(size)

    async def enter(self, size: int, then: Callable[[], None] | None = None) -> None:
        """`then` is called in the moment there is a place, before anybody behind has one."""
        if self.try_enter(size):
            if then is not None:
                then()
            return
        place = _Waiter(asyncio.get_running_loop().create_future(), size, then)
        self.seek(place)
        try:
            await place.free
        except asyncio.CancelledError:
            if place.done() and not place.free.cancelled():
                self.leave(size)  # the place came at the same moment
            raise

    def seek(self, seeker: SlotWaiter) -> None:
        """Give it a place, now or when its turn comes."""
        if not self.in_flight.seek(seeker) and self._watch is None:
            self._look_later(self._stalled_s, again=False)

    def leave(self, size: int, *, answered: bool = True, count: int = 1) -> None:
        """Give `count` places back, of `size` bytes together.

        `answered` False: the sends ended without an answer, which gives those who wait no hope.
        """
        if answered:
            self._answered += count
        self.in_flight.leave(size, count)
        if self.in_flight.waiting:
            self.in_flight.admit()
        if self._empty is not None and not self.in_flight.count:
            self._empty.set_result(None)
            self._empty = None

    @contextlib.asynccontextmanager
    async def place(self, size: int, then: Callable[[], None] | None = None) -> AsyncIterator[None]:
        """Enter, and leave at the block's end."""
        await self.enter(size, then)
        answered = True
        try:
            yield
        except (SendFailed, asyncio.CancelledError):
            answered = False
            raise
        finally:
            self.leave(size, answered=answered)

    def close(self) -> None:
        """Fail all waiters with ClientClosed."""
        self._fail_waiting(
            lambda: ClientClosed("the producer was closed before there was a place for this send")
        )

    async def wait_empty(self, timeout_s: float) -> bool:
        """Wait until nothing is in flight; False when it takes longer."""
        if not self.in_flight.count:
            return True
        if self._empty is None:
            self._empty = asyncio.get_running_loop().create_future()
        done, _ = await asyncio.wait((self._empty,), timeout=timeout_s)
        return bool(done)

    def _look_later(self, wait_s: float, *, again: bool) -> None:
        loop = asyncio.get_running_loop()
        self._watch = loop.call_later(wait_s, self._look, self._answered, again)

    def _look(self, answered_then: int, again: bool) -> None:
        self._watch = None
        while self.in_flight.waiting and self.in_flight.waiting[0].done():
            self.in_flight.waiting.popleft()
        if not self.in_flight.waiting:
            return
        if self._answered != answered_then:
            self._look_later(self._stalled_s, again=False)
        elif not again:
            self._look_later(min(self._stalled_s, SECOND_LOOK_S), again=True)
        else:
            text = f"{self.in_flight}, and no place got free within {self._stalled_s:g} s (place_timeout_s)"
            self._fail_waiting(lambda: TooManyInFlight(text))

    def _fail_waiting(self, error: Callable[[], Exception]) -> None:
        waiting = list(self.in_flight.waiting)
        self.in_flight.waiting.clear()
        for seeker in waiting:
            if not seeker.done():
                seeker.set_exception(error())
