"""Keeps the queues in hand filled: one long-polling loop per queue, which waits while listeners are behind."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from rocketeer.client.aio.instance import ClientInstance
from rocketeer.client.core.flow import Limits
from rocketeer.client.core.process_queue import ProcessQueue
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.plans.brokers import Cluster
from rocketeer.client.plans.pull import PullResult, PullSettings, PullStatus, pull
from rocketeer.errors import BrokerRefused, RemotingError, RocketeerError
from rocketeer.model.queue import MessageQueue
from rocketeer.model.route import MASTER_ID
from rocketeer.model.subscription import Subscription
from rocketeer.protocol.codes import ResponseCode

log = logging.getLogger(__name__)

AGAIN_S: Final = 0.1
AGAIN_S_MAX: Final = 3.0
FLOW_CONTROL_S: Final = 0.02
_TELL_WHO_WE_ARE: Final = frozenset(
    {
        int(ResponseCode.SUBSCRIPTION_NOT_EXIST),
        int(ResponseCode.SUBSCRIPTION_NOT_LATEST),
        int(ResponseCode.FILTER_DATA_NOT_EXIST),
        int(ResponseCode.FILTER_DATA_NOT_LATEST),
    }
)

Found = Callable[[ProcessQueue, Sequence[ReceivedMessage]], None]
Moved = Callable[[ProcessQueue, int], Awaitable[None]]


class Puller:
    """`found` gets messages that were put into their queue; `moved` an offset the broker led us to."""

    def __init__(
        self,
        instance: ClientInstance,
        cluster: Cluster,
        settings: PullSettings,
        *,
        timeout_s: float,
        interval_s: float,
        subscription: Callable[[str], Subscription | None],
        limits: Callable[[ProcessQueue], Limits],
        offset_to_tell: Callable[[MessageQueue], int | None],
        nothing: Callable[[ProcessQueue], None],
        found: Found,
        moved: Moved,
    ) -> None:
        self._instance = instance
        self._cluster = cluster
        self._settings = settings
        self._timeout_s = timeout_s
        self._interval_s = interval_s
        self._subscription = subscription
        self._limits = limits
        self._offset_to_tell = offset_to_tell
        self._nothing = nothing
        self._found = found
        self._moved = moved
        self._tasks: dict[ProcessQueue, asyncio.Task[None]] = {}
        self._full: dict[ProcessQueue, asyncio.Future[None]] = {}
        self._logged: set[str] = set()
        self._going = asyncio.Event()
        self._going.set()

    # --- which queues ------------------------------------------------------------------------

    def start(self, held: ProcessQueue) -> None:
        task = asyncio.create_task(self._pull_on(held), name=f"pull {held.queue}")
        self._tasks[held] = task
        task.add_done_callback(self._ended)

    def stop(self, held: ProcessQueue) -> None:
        task = self._tasks.pop(held, None)
        if task is not None and task is not asyncio.current_task():
            task.cancel()

    def restart(self, topic: str) -> None:
        """Pull again at once: the subscription changed, and the broker holds a pull with the old one."""
        for held in [held for held in self._tasks if held.queue.topic == topic]:
            self.stop(held)
            self.start(held)

    def stop_all(self) -> None:
        for held in list(self._tasks):
            self.stop(held)

    def pause(self) -> None:
        self._going.clear()

    def resume(self) -> None:
        self._going.set()

    def room(self, held: ProcessQueue) -> None:
        """Messages of the queue were finished: go on if that was what it waited for."""
        waiting = self._full.get(held)
        if waiting is not None and not waiting.done() and self._limits(held).reason_to_wait(held) is None:
            waiting.set_result(None)

    # --- the loop of one queue ---------------------------------------------------------------

    async def _pull_on(self, held: ProcessQueue) -> None:
        again_s = AGAIN_S
        while not held.dropped:
            if not self._going.is_set():
                await self._going.wait()
            if (why := self._limits(held).reason_to_wait(held)) is not None:
                await self._wait_for_room(held, why)
                continue
            subscription = self._subscription(held.queue.topic)
            if subscription is None:
                return  # the rebalance that follows takes the queue away
            try:
                result = await self._pull(held, subscription)
            except RocketeerError as error:
                self._log_once(error)
                await self._after(error, held, again_s)
                again_s = min(again_s * 2, AGAIN_S_MAX)
                continue
            again_s = AGAIN_S
            self._logged.clear()
            if held.dropped:
                return
            held.broker_id = result.broker_id
            held.pulled_ms = self._instance.clock.now_ms()
            await self._take(held, result)

    async def _pull(self, held: ProcessQueue, subscription: Subscription) -> PullResult:
        return await self._instance.driver.run(
            pull(
                self._settings,
                self._cluster,
                held.queue,
                held.next_offset,
                subscription,
                broker_id=held.broker_id,
                commit_offset=self._offset_to_tell(held.queue),
                timeout_s=self._timeout_s,
            )
        )

    async def _take(self, held: ProcessQueue, result: PullResult) -> None:
        if result.status is PullStatus.OFFSET_ILLEGAL:
            log.warning(
                "offset moved group=%s queue=%s from=%d to=%d min=%d max=%d",
                self._settings.group, held.queue, held.next_offset, result.next_offset,
                result.min_offset, result.max_offset,
            )  # fmt: skip
            await self._moved(held, result.next_offset)
            return
        held.put(result.messages, result.next_offset)
        if result.messages:
            self._found(held, result.messages)
            if self._interval_s > 0:
                await asyncio.sleep(self._interval_s)
        else:
            self._nothing(held)

    async def _wait_for_room(self, held: ProcessQueue, why: str) -> None:
        log.debug("pulling waits group=%s queue=%s reason=%s", self._settings.group, held.queue, why)
        self._full[held] = asyncio.get_running_loop().create_future()
        try:
            await self._full[held]
        finally:
            del self._full[held]

    async def _after(self, error: RocketeerError, held: ProcessQueue, again_s: float) -> None:
        """What to do before the next try."""
        if isinstance(error, BrokerRefused):
            if error.code == ResponseCode.FLOW_CONTROL:
                again_s = FLOW_CONTROL_S
            elif error.code in _TELL_WHO_WE_ARE:
                await self._instance.heartbeat_now()
        else:
            held.broker_id = MASTER_ID  # the slave may be gone; the master will suggest it again
            if isinstance(error, RemotingError):
                self._instance.routes.suspect(held.queue.topic)
        await asyncio.sleep(again_s)

    def _log_once(self, error: RocketeerError) -> None:
        """Once, however many queues have the same trouble, until a pull succeeds."""
        text = str(error)
        if text not in self._logged:
            self._logged.add(text)
            log.warning("pull failed group=%s reason=%s", self._settings.group, text)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("pulling ended group=%s task=%s", self._settings.group, task.get_name(), exc_info=error)
