"""Connections whose requests wait for their next turn share the turns of the loop.

A peer that sends more than can be served in one turn has to wait for its next one. However many such peers there
are, all of them together keep the loop for no longer than one turn at a time; between two turns it serves sockets,
timers and those who ask for little.
"""

import asyncio
import time
from typing import Protocol
from weakref import WeakKeyDictionary

TURN_S = 0.002
"""How long the loop is kept at a time."""


class Waiting(Protocol):
    """Who waits for a turn."""

    def take_turn(self, ends_s: float) -> None:
        """Go on until `ends_s` (`time.monotonic`); whoever has more to do then asks for another turn."""
        ...


class Turns:
    """Those of one loop, in the order in which they came."""

    def __init__(self) -> None:
        self._waiting: dict[Waiting, None] = {}
        self._is_due = False

    def __len__(self) -> int:
        return len(self._waiting)

    def ask(self, waiting: Waiting) -> None:
        """Have it take a turn when those before it had theirs."""
        self._waiting[waiting] = None
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._go_on)

    def forget(self, waiting: Waiting) -> None:
        """It needs no turn any more."""
        self._waiting.pop(waiting, None)

    def _go_on(self) -> None:
        ends_s = time.monotonic() + TURN_S
        try:
            for waiting in list(self._waiting):  # each once: they may ask again
                if waiting in self._waiting:
                    del self._waiting[waiting]
                    waiting.take_turn(ends_s)
                    if time.monotonic() >= ends_s:
                        break
        finally:
            self._is_due = bool(self._waiting)
            if self._is_due:
                asyncio.get_running_loop().call_soon(self._go_on)


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Turns]] = WeakKeyDictionary()

REQUESTS = "requests"
PEERS = "peers"
"""Slaves and members wait for each other, not behind clients: sends wait for them."""


def turns(of: str = REQUESTS) -> Turns:
    """Those of the running loop."""
    loop = asyncio.get_running_loop()
    known = _turns.get(loop)
    if known is None:
        known = _turns[loop] = {REQUESTS: Turns(), PEERS: Turns()}
    return known[of]
