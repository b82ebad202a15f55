"""Keeps the queues in hand filled: one long-polling loop per queue, which waits while listeners are behind.

While many messages wait at a broker that gives more than RocketMQ's caps at a time (ours), several pulls' worth are
asked for at once: most of what a pull costs, it costs however many messages it brings.

Some pulls tell brokers how far the group is (`PullOffsetCommits`). They are not given up when pulling stops: the last
commit waits for their answers.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from rocketeer.client.aio.instance import ClientInstance
from rocketeer.client.aio.pull_offset_commits import PullOffsetCommits
from rocketeer.client.core.config import ConsumerConfig
from rocketeer.client.core.consumer_ports import filtered
from rocketeer.client.core.flow import PullLimits
from rocketeer.client.core.process_queue import ProcessQueue
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.core.transient import backoffs
from rocketeer.client.plans.brokers import ClusterRoutes
from rocketeer.client.plans.pull import PullResult, PullSettings, PullStatus, pull
from rocketeer.errors import BrokerRefused, RocketeerError
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.model.route import MASTER_ID
from rocketeer.model.subscription import SUB_ALL, TAG, Subscription
from rocketeer.protocol.codes import ResponseCode

log = logging.getLogger(__name__)

AGAIN_S: Final = 0.1
AGAIN_S_MAX: Final = 3.0
FLOW_CONTROL_S: Final = 0.02
BULK_BYTES: Final = 256 << 10
"""Most bytes of messages in one answer: what RocketMQ's brokers allow too."""
_TELL_WHO_WE_ARE: Final = frozenset(
    {
        int(ResponseCode.SUBSCRIPTION_NOT_EXIST),
        int(ResponseCode.SUBSCRIPTION_NOT_LATEST),
        int(ResponseCode.FILTER_DATA_NOT_EXIST),
        int(ResponseCode.FILTER_DATA_NOT_LATEST),
    }
)


class PullTarget(Protocol):
    """Receiver of what pulling a queue brings."""

    def found(self, held: ProcessQueue, messages: Sequence[ReceivedMessage]) -> None:
        """Messages were put into the queue."""

    def nothing_found(self, held: ProcessQueue) -> None:
        """The broker looked as far as `held.next_offset`, and nothing matched."""

    async def offset_moved(self, held: ProcessQueue, offset: QueueOffset) -> None:
        """The offset does not exist; the broker says where to go on."""


class _Pulling:
    """The loop of one queue, from `start` to `stop`."""

    def __init__(self, held: ProcessQueue, target: PullTarget) -> None:
        self.held = held
        self.target = target
        self.stopped = False
        self.telling = False
        """A pull that tells an offset is under way."""
        self.task: asyncio.Task[None] | None = None


class Puller:
    """Pulls any number of queues, each for its target. `ordered` queues have no limit of their span.

    Without a `pull_commits` pulls tell no offsets.
    """

    def __init__(
        self,
        instance: ClientInstance,
        cluster: ClusterRoutes,
        config: ConsumerConfig,
        settings: PullSettings,
        *,
        ordered: bool,
        subscription: Callable[[str], Subscription | None],
        pull_commits: PullOffsetCommits | None,
    ) -> None:
        self._instance = instance
        self._cluster = cluster
        self._config = config
        self._settings = settings
        self._ordered = ordered
        self._subscription = subscription
        self._pull_commits = pull_commits
        self._pulling: dict[ProcessQueue, _Pulling] = {}
        self._last_answers: set[asyncio.Task[None]] = set()
        """Loops that were stopped while a pull that tells an offset was under way."""
        self._queues_of_topic: Counter[str] = Counter()
        self._limits: dict[int, PullLimits] = {}
        self._paused: frozenset[MessageQueue] = frozenset()
        self._waiting: dict[ProcessQueue, asyncio.Future[None]] = {}
        self._logged: set[str] = set()
        self._going = asyncio.Event()
        self._going.set()

    # --- which queues ------------------------------------------------------------------------

    def start(self, held: ProcessQueue, target: PullTarget) -> None:
        pulling = self._pulling[held] = _Pulling(held, target)
        pulling.task = asyncio.create_task(self._pull_on(pulling), name=f"pull {held.queue}")
        self._queues_of_topic[held.queue.topic] += 1
        pulling.task.add_done_callback(self._ended)

    def stop(self, held: ProcessQueue) -> PullTarget | None:
        """Stop pulling the queue; return its target, or None when it was not being pulled."""
        pulling = self._pulling.pop(held, None)
        if pulling is None:
            return None
        self._queues_of_topic[held.queue.topic] -= 1
        pulling.stopped = True
        assert pulling.task is not None
        if pulling.telling:
            self._last_answers.add(pulling.task)
        elif pulling.task is not asyncio.current_task():
            pulling.task.cancel()
        return pulling.target

    def restart(self, topic: str) -> None:
        """Pull again at once: the subscription changed, and the broker holds a pull with the old one."""
        for held in [held for held in self._pulling if held.queue.topic == topic]:
            if (target := self.stop(held)) is not None:
                self.start(held, target)

    def stop_all(self) -> None:
        for held in list(self._pulling):
            self.stop(held)

    def close(self) -> None:
        """Wait for no answer any more, after `stop_all`."""
        for task in self._last_answers:
            task.cancel()

    def pause(self) -> None:
        """Begin no more pulls until `resume`."""
        self._going.clear()

    def resume(self) -> None:
        self._going.set()

    def pause_queues(self, queues: Iterable[MessageQueue]) -> None:
        self._paused |= frozenset(queues)

    def resume_queues(self, queues: Iterable[MessageQueue]) -> None:
        self._paused -= frozenset(queues)
        for held in list(self._waiting):
            self.wake(held)

    def is_paused(self, queue: MessageQueue) -> bool:
        return queue in self._paused

    def wake(self, held: ProcessQueue) -> None:
        """Messages of the queue were finished: go on if that was what it waited for."""
        waiting = self._waiting.get(held)
        if waiting is not None and not waiting.done() and self._reason_to_wait(held) is None:
            waiting.set_result(None)

    def _reason_to_wait(self, held: ProcessQueue) -> str | None:
        if held.queue in self._paused:
            return "paused"
        return self._limits_of(held).reason_to_wait(held)

    def _limits_of(self, held: ProcessQueue) -> PullLimits:
        queues = self._queues_of_topic[held.queue.topic]
        limits = self._limits.get(queues)
        if limits is None:
            limits = PullLimits.of(self._config, ordered=self._ordered, queues_of_topic=queues)
            self._limits[queues] = limits
        return limits

    # --- the loop of one queue ---------------------------------------------------------------

    async def _pull_on(self, pulling: _Pulling) -> None:
        held = pulling.held
        pauses_s = backoffs(AGAIN_S, AGAIN_S_MAX)
        while not held.dropped:
            asked = held.next_offset
            if not self._going.is_set():
                await self._going.wait()
            if (why := self._reason_to_wait(held)) is not None:
                await self._wait_for_room(held, why)
                continue
            subscription = self._subscription(held.queue.topic)
            if subscription is None:
                return  # the rebalance that follows takes the queue away
            try:
                result = await self._pull(pulling, subscription)
            except RocketeerError as error:
                if pulling.stopped:
                    return
                self._log_once(error)
                await self._after(error, held, next(pauses_s))
                continue
            if held.dropped or pulling.stopped:
                return
            held.broker_id = result.broker_id
            held.behind = result.max_offset - result.next_offset
            held.pulled_ms = self._instance.clock.now_ms()
            await self._hand_over(held, pulling.target, result)
            if result.status is not PullStatus.NO_NEW and held.next_offset == asked:
                # A member of a group that lags, or leads no longer: it will say so at once as often as it is asked.
                await self._pause(held, next(pauses_s))
                continue
            pauses_s = backoffs(AGAIN_S, AGAIN_S_MAX)
            self._logged.clear()

    async def _pull(self, pulling: _Pulling, subscription: Subscription) -> PullResult:
        held = pulling.held
        count = self._config.pull_batch
        in_bulk = self._is_for_bulk(held, subscription)
        if in_bulk and held.bulk:
            count = self._limits_of(held).to_ask_for(held, count)
        offset = None if self._pull_commits is None else self._pull_commits.begin(held)
        pulling.telling = offset is not None
        told = False
        try:
            result = await self._instance.driver.run(
                pull(
                    self._settings,
                    self._cluster,
                    held.queue,
                    held.next_offset,
                    subscription,
                    broker_id=held.broker_id,
                    commit_offset=offset,
                    max_count=count,
                    bulk_bytes=BULK_BYTES if in_bulk else None,
                    timeout_s=self._config.pull_timeout_s,
                )
            )
            told = result.told
        finally:
            if self._pull_commits is not None and offset is not None:
                pulling.telling = False
                self._pull_commits.end(held, offset, told=told)
        if in_bulk:
            held.bulk = result.bulk
        return result

    def _is_for_bulk(self, held: ProcessQueue, subscription: Subscription) -> bool:
        """Whether a pull may ask for more than `pull_batch`: more waits, unfiltered, and nobody slows pulls down."""
        return (
            held.behind > self._config.pull_batch
            and held.bulk is not False
            and subscription.kind == TAG
            and subscription.expression == SUB_ALL
            and self._config.pull_interval_s <= 0
        )

    async def _hand_over(self, held: ProcessQueue, target: PullTarget, result: PullResult) -> None:
        if result.status is PullStatus.OFFSET_ILLEGAL:
            log.warning(
                "offset moved group=%s queue=%s from=%d to=%d min=%d max=%d",
                self._settings.group, held.queue, held.next_offset, result.next_offset,
                result.min_offset, result.max_offset,
            )  # fmt: skip
            await target.offset_moved(held, result.next_offset)
            return
        messages = result.messages
        if messages and self._config.filter_hooks:
            messages = filtered(self._config.filter_hooks, self._settings.group, held.queue, messages)
        held.put(messages, result.next_offset)
        if messages:
            target.found(held, messages)
            if self._config.pull_interval_s > 0:
                await asyncio.sleep(self._config.pull_interval_s)
        else:
            target.nothing_found(held)

    async def _wait_for_room(self, held: ProcessQueue, why: str) -> None:
        log.debug("pulling waits group=%s queue=%s reason=%s", self._settings.group, held.queue, why)
        self._waiting[held] = asyncio.get_running_loop().create_future()
        try:
            await self._waiting[held]
        finally:
            del self._waiting[held]

    async def _after(self, error: RocketeerError, held: ProcessQueue, again_s: float) -> None:
        """Wait before the next try, as the error asks for."""
        if isinstance(error, BrokerRefused):
            if error.code == ResponseCode.FLOW_CONTROL:
                again_s = FLOW_CONTROL_S
            elif error.code in _TELL_WHO_WE_ARE:
                await self._instance.heartbeat_now()
            await asyncio.sleep(again_s)
        else:
            await self._pause(held, again_s)

    async def _pause(self, held: ProcessQueue, pause_s: float) -> None:
        """Before another broker of that name is tried, if there is one by then."""
        held.broker_id = MASTER_ID  # the slave may be gone; the master will suggest it again
        self._instance.routes.suspect(held.queue.topic)
        await asyncio.sleep(pause_s)

    def _log_once(self, error: RocketeerError) -> None:
        """Once, however many queues have the same trouble, until a pull succeeds."""
        text = str(error)
        if text not in self._logged:
            self._logged.add(text)
            log.warning("pull failed group=%s reason=%s", self._settings.group, text)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._last_answers.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("pulling ended group=%s task=%s", self._settings.group, task.get_name(), exc_info=error)
