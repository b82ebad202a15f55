"""A fair queue of connections that want more of the event loop than one turn of it gives.

A peer that sends more than can be served in one turn waits here for its next one. However many such peers there are,
all of them together keep the loop for TURN_S at a time; in between it serves sockets, timers and those who ask for
little. Peers that are new, that bring much or whose reads took long before are queued as soon as all sockets together
have taken READS_S of a turn, and while others wait (`ReadCost`, `LoopReads`; compiled transports have the same rule
in `_stream.pyx`).
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol
from weakref import WeakKeyDictionary

TURN_S = 0.002
"""How long the loop is kept at a time."""
READS_S = 0.002
"""For so long all sockets together are served in a turn; then those that may be expensive are queued."""
CHEAP_S = 0.001
"""A peer whose reads take no longer than this is never queued behind others."""
KNOWN_READS = 8
"""After so many reads the cost of a peer is known."""
MUCH_BYTES = 32 << 10


class QueuedPeer(Protocol):
    """A peer that waits for a turn."""

    def take_turn(self, ends_s: float) -> None:
        """Go on until `ends_s` (`time.monotonic`); whoever has more to do then asks for another turn."""
        ...


class ReadCost:
    """What the reads of one peer take to serve, about."""

    __slots__ = ("_brought_much", "_cost_s", "reads")

    def __init__(self) -> None:
        self.reads = 0
        self._cost_s = 0.0
        self._brought_much = False

    def may_be_expensive(self, read_bytes: int) -> bool:
        """Whether serving this read may take long: true for all but small reads of peers known to be cheap."""
        much = self._brought_much or read_bytes >= MUCH_BYTES
        return much or self.reads < KNOWN_READS or self._cost_s > CHEAP_S

    def note(self, read_bytes: int, took_s: float) -> None:
        """Note what a read took; one that took long is no sign: the machine may have had something else to do."""
        self.reads += 1
        self._brought_much = read_bytes >= MUCH_BYTES
        if took_s < self._cost_s:
            self._cost_s = took_s
        else:
            self._cost_s += (min(took_s, 2 * CHEAP_S) - self._cost_s) / 8


class LoopReads:
    """How long the reads of all sockets have kept the loop in this turn of it."""

    def __init__(self) -> None:
        self._began_s = 0.0

    def is_over(self) -> bool:
        """Whether they have taken READS_S; the first of a turn begins to count."""
        now_s = time.monotonic()
        if not self._began_s:
            self._began_s = now_s
            asyncio.get_running_loop().call_soon(self._next_turn)
        return now_s - self._began_s > READS_S

    def _next_turn(self) -> None:
        self._began_s = 0.0


class FairQueue:
    """Connections of one event loop that wait for a turn, first come, first served."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[QueuedPeer, None] = OrderedDict()
        self._is_due = False

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, waiting: QueuedPeer, *, first: bool = False) -> None:
        """Queue it for a turn, behind those that wait already.

        `first`: it is in the middle of a request. What is half done takes memory, so it is ended before others begin.
        """
        self._waiting[waiting] = None
        if first:
            self._waiting.move_to_end(waiting, last=False)
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._go_on)

    def remove(self, waiting: QueuedPeer) -> None:
        """Take it out of the queue."""
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


class _Step:
    """A short call that waits for its turn."""

    def __init__(self, step: Callable[[], None]) -> None:
        self._step = step
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def take_turn(self, ends_s: float) -> None:
        if self.done.done():  # nobody waits for it any more
            return
        try:
            self._step()
        except Exception as error:
            self.done.set_exception(error)
        else:
            self.done.set_result(None)


async def in_turn(step: Callable[[], None]) -> None:
    """Run a step for a server we know nothing of, in the turn of all such."""
    waiting = _Step(step)
    fair_queue(PEERS).add(waiting)
    try:
        await waiting.done
    finally:
        del waiting  # a future holds its error, whose trace holds this frame


_fair_queues: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, FairQueue]] = WeakKeyDictionary()

REQUESTS = "requests"
PEERS = "peers"
"""Slaves and members wait for each other, not behind clients: sends wait for them."""


def fair_queue(of: str = REQUESTS) -> FairQueue:
    """The queue of the running loop."""
    loop = asyncio.get_running_loop()
    known = _fair_queues.get(loop)
    if known is None:
        known = _fair_queues[loop] = {REQUESTS: FairQueue(), PEERS: FairQueue()}
    return known[of]
