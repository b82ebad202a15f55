"""The queues assigned to a consumer: taken up, let go, and begun anew at another offset."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from rocketeer.client.aio.consuming import ConsumeService
from rocketeer.client.aio.offset_keeper import OffsetKeeper
from rocketeer.client.aio.puller import Puller
from rocketeer.client.core.process_queue import ProcessQueue
from rocketeer.client.core.rebalance import Change
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.errors import RocketeerError
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue

log = logging.getLogger(__name__)

LEAVE_S: Final = 2.0


class AssignedQueues:
    """The queues assigned to one consumer. Invariant: each is in `table`, or being released, or not assigned."""

    def __init__(
        self,
        group: str,
        offsets: OffsetKeeper,
        puller: Puller,
        service: ConsumeService,
        changed: Callable[[], None],
    ) -> None:
        self.table: dict[MessageQueue, ProcessQueue] = {}
        self._group = group
        self._offsets = offsets
        self._puller = puller
        self._service = service
        self._changed = changed
        """Told when a queue that was being let go can be had again."""
        self._leaving: dict[MessageQueue, asyncio.Task[None]] = {}
        self._closing = False

    def queues(self) -> tuple[MessageQueue, ...]:
        return tuple(self.table)

    def held(self) -> list[ProcessQueue]:
        return list(self.table.values())

    async def apply(self, change: Change) -> bool:
        """Apply a rebalance's result; False when a queue could not be taken up yet."""
        for queue in change.revoked:
            held = self.table.pop(queue, None)
            if held is not None:
                log.info("queue let go group=%s queue=%s", self._group, queue)
                self._drop(held)
                task = asyncio.create_task(self._revoke(held), name=f"let go {queue}")
                self._leaving[queue] = task
        return await self._take(change.assigned)

    async def _take(self, wanted: tuple[MessageQueue, ...]) -> bool:
        queues = [queue for queue in wanted if queue not in self._leaving and queue not in self.table]
        complete = len(queues) == len(wanted)
        if not queues:
            return complete
        locked = await self._service.lock(queues)
        await asyncio.gather(*(self._begin(queue, until_s) for queue, until_s in locked.items()))
        await self._service.unlock([queue for queue in locked if queue not in self.table])
        return complete and all(queue in self.table for queue in queues)

    async def _begin(self, queue: MessageQueue, lock_until_s: float) -> None:
        try:
            offset = await self._offsets.start_of(queue)
        except RocketeerError as error:
            log.warning("queue not taken up group=%s queue=%s reason=%s", self._group, queue, error)
            return
        if self._closing:
            return
        log.info("queue taken up group=%s queue=%s offset=%d", self._group, queue, offset)
        self._hold(ProcessQueue(queue, offset, lock_until_s=lock_until_s))

    def _hold(self, held: ProcessQueue) -> None:
        self.table[held.queue] = held
        self._puller.start(held, self)

    def _drop(self, held: ProcessQueue) -> None:
        held.dropped = True
        self._puller.stop(held)

    async def _revoke(self, held: ProcessQueue) -> None:
        try:
            await self._service.revoke(held)
        finally:
            self._offsets.table.forget(held.queue)
            self._leaving.pop(held.queue, None)
            self._changed()

    # --- what pulling brings (puller.PullTarget) ---------------------------------------------

    def found(self, held: ProcessQueue, messages: Sequence[ReceivedMessage]) -> None:
        self._service.found(held, messages)

    def nothing_found(self, held: ProcessQueue) -> None:
        self._service.nothing_found(held)

    async def offset_moved(self, held: ProcessQueue, offset: QueueOffset) -> None:
        """Go on pulling where the broker says; unfinished messages in hand are not passed over."""
        if offset >= held.next_offset:
            held.put((), offset)
            self.nothing_found(held)
        else:  # it has lost its end
            await self._restart(held, lambda: min(offset, held.commit_offset), store=True)

    # --- other offsets, other owners ---------------------------------------------------------

    async def restart_at(self, held: ProcessQueue, offset: QueueOffset, *, store: bool = True) -> None:
        """Go on at the offset an operator set, and store it; messages in hand are dropped."""
        await self._restart(held, lambda: offset, store=store)

    async def _restart(self, held: ProcessQueue, place: Callable[[], QueueOffset], *, store: bool) -> None:
        """`place` is asked when no listener changes the queue any more."""
        if held.dropped or self.table.get(held.queue) is not held:
            return
        self._drop(held)
        await self._service.wait_idle(held)
        offset = place()
        if store:
            await self._offsets.reset(held.queue, offset)
        if self.table.get(held.queue) is held and not self._closing:
            self._hold(ProcessQueue(held.queue, offset, lock_until_s=held.lock_until_s))

    def lose(self, held: ProcessQueue) -> None:
        """Drop queues that another member owns, without storing their offsets."""
        if self.table.get(held.queue) is held:
            del self.table[held.queue]
            self._drop(held)
            self._offsets.table.forget(held.queue)
            self._changed()

    async def close(self) -> None:
        """Stop pulling; queues being released get up to the time limit."""
        self._closing = True
        self._puller.stop_all()
        if self._leaving:
            await asyncio.wait(self._leaving.values(), timeout=LEAVE_S)

    def drop_all(self) -> None:
        for held in self.table.values():
            held.dropped = True
        self.table.clear()
