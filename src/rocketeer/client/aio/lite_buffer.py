"""The messages a lite pull consumer has ready for `poll` and for loops, and which of them count as consumed."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from rocketeer.client.aio.offset_keeper import OffsetKeeper
from rocketeer.client.aio.puller import Puller
from rocketeer.client.core.iteration import Delivery, IterationBuffer, hand_out
from rocketeer.client.core.process_queue import ProcessQueue
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue

FOREVER_S: Final = float("inf")


class LiteBuffer:
    """Implements `consuming.ConsumeService`: there are no listeners and no locks here."""

    def __init__(self, offsets: OffsetKeeper, puller: Puller, *, auto_commit: bool) -> None:
        self._offsets = offsets
        self._puller = puller
        self._auto_commit = auto_commit
        self.iteration = IterationBuffer()
        self._polled: dict[MessageQueue, QueueOffset] = {}
        """Offsets behind what the last poll gave: consumed when the next one comes."""
        self._ready: deque[ProcessQueue] = deque()
        self._arrived = asyncio.Event()
        self._closed = False

    def close(self) -> None:
        """Close: a waiting `poll` returns an empty list."""
        self._closed = True
        self._arrived.set()

    # --- messages ----------------------------------------------------------------------------

    async def poll(self, timeout_s: float, most: int) -> list[ReceivedMessage]:
        self._settle_polled()
        deliveries = await self.take_next(timeout_s, most)
        for _, message, after in deliveries:
            self._polled[message.queue] = after
        return [each.message for each in deliveries]

    async def take_next(self, timeout_s: float, most: int) -> list[Delivery]:
        """Up to `most` messages, waiting for the first."""
        deliveries = self._take(most)
        if not deliveries and timeout_s > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    while not deliveries and not self._closed:
                        self._arrived.clear()
                        await self._arrived.wait()
                        deliveries = self._take(most)
        return deliveries

    def _take(self, most: int) -> list[Delivery]:
        """From the queues in turn, so that a full one does not starve the others."""
        deliveries: list[Delivery] = []
        for _ in range(len(self._ready)):
            held = self._ready.popleft()
            if held.dropped or self._puller.is_paused(held.queue) or not held.waiting:
                continue
            deliveries += hand_out(held, most - len(deliveries))
            if held.waiting:
                self._ready.append(held)
            self._puller.wake(held)
            if len(deliveries) >= most:
                break
        return deliveries

    def found(self, held: ProcessQueue, messages: Sequence[ReceivedMessage]) -> None:
        if held.waiting and held not in self._ready:
            self._ready.append(held)
        self._arrived.set()

    def nothing_found(self, held: ProcessQueue) -> None:
        """Nothing that matches up to here; what was given before must be consumed first."""
        queue = held.queue
        if not held.count and queue not in self._polled and queue not in self.iteration.done:
            self._offsets.table.update(queue, held.next_offset)

    # --- offsets -----------------------------------------------------------------------------

    def settle(self) -> None:
        """Count everything given so far as consumed."""
        self.iteration.settle()
        self._settle_polled()

    async def store(self) -> None:
        """Store the offsets of what was consumed."""
        for queue in list(self.iteration.done):
            self._consumed(queue, self.iteration.done.pop(queue, None))
        await self._offsets.store()

    def forget(self, queue: MessageQueue) -> None:
        """Do not count messages already given of this queue as consumed: its offset was changed."""
        self._polled.pop(queue, None)
        self.iteration.done.pop(queue, None)

    def _settle_polled(self) -> None:
        polled, self._polled = self._polled, {}
        for queue, offset in polled.items():
            self._consumed(queue, offset)

    def _consumed(self, queue: MessageQueue, offset: QueueOffset | None) -> None:
        if offset is not None:
            self._offsets.table.update(queue, offset)

    # --- the rest of a service ---------------------------------------------------------------

    async def wait_idle(self, held: ProcessQueue) -> None:
        return

    async def lock(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, float]:
        return dict.fromkeys(queues, FOREVER_S)

    async def unlock(self, queues: Collection[MessageQueue]) -> None:
        return

    async def revoke(self, held: ProcessQueue) -> None:
        """Store what was consumed for sure; messages given last come again, to the next owner."""
        self._polled.pop(held.queue, None)
        self._consumed(held.queue, self.iteration.done.pop(held.queue, None))
        if self._auto_commit:
            await self._offsets.store({held.queue})
