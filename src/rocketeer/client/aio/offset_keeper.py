"""Offsets of the queues in hand: read when a queue is taken up, stored every few seconds and when it is let go.

On the broker for a group that shares its queues; in a file for broadcasting, where every member has its own; or where
the user keeps them (`OffsetStore`).
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

from rocketeer.client.aio.commit_order import CommitOrder
from rocketeer.client.aio.drivers import AsyncDriver
from rocketeer.client.aio.instance import ClientInstance
from rocketeer.client.core.config import ConsumerConfig
from rocketeer.client.core.consumer_ports import OffsetStore
from rocketeer.client.core.consumer_rules import parse_timestamp
from rocketeer.client.core.offsets import OffsetFile, OffsetTable, merged
from rocketeer.client.plans.brokers import ClusterRoutes
from rocketeer.client.plans.offsets import commit_offset, first_offset, min_offset, start_offset
from rocketeer.errors import ClientError, RocketeerError
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.model.subscription import MessageModel
from rocketeer.model.topic import without_namespace
from rocketeer.threads import ThreadsInTurn

log = logging.getLogger(__name__)

InThread: TypeAlias = Callable[..., Awaitable[Any]]
"""Runs a function in a thread."""

BEFORE_START_MS: Final = 30 * 60 * 1000
"""CONSUME_FROM_TIMESTAMP without a time begins half an hour before the consumer was started."""
TURN_S: Final = 1.5
"""How long a commit waits for a pull or commit of the same queue that is not answered yet."""


class OffsetKeeper:
    """Reads and stores a consumer's offsets, wherever they are kept. `table` is the truth of this moment."""

    def __init__(
        self,
        driver: AsyncDriver,
        cluster: ClusterRoutes,
        config: ConsumerConfig,
        *,
        now_ms: int,
        file: OffsetFile | None = None,
    ) -> None:
        self.table = OffsetTable()
        self._driver = driver
        self._cluster = cluster
        self._group = config.full_group
        self._begin = config.consume_from
        stamp = config.consume_timestamp
        self._timestamp_ms = parse_timestamp(stamp) if stamp else now_ms - BEFORE_START_MS
        self._own = config.offset_store
        self._namespace = config.namespace
        self._file = file
        self._in_file: dict[MessageQueue, QueueOffset] = file.load() if file else {}
        self._storing = asyncio.Lock()
        self._threads = ThreadsInTurn()
        self._order = CommitOrder()
        self._commits: set[asyncio.Task[None]] = set()
        self._begun_with: set[str] = set()
        """Topics that are younger than this consumer."""

    @classmethod
    def of(
        cls, instance: ClientInstance, cluster: ClusterRoutes, config: ConsumerConfig, folder: Path | None
    ) -> "OffsetKeeper":
        """Make the keeper for a consumer; `folder` is where a broadcasting consumer keeps its offset file."""
        broadcasting = config.message_model is MessageModel.BROADCASTING
        file = OffsetFile.at(instance.client_id, config.full_group, folder) if broadcasting else None
        return cls(instance.driver, cluster, config, now_ms=instance.clock.now_ms(), file=file)

    async def start_of(self, queue: MessageQueue) -> QueueOffset:
        """Where to begin with a queue that was assigned; raises when its broker does not say."""
        begin = (self._begin, self._timestamp_ms)
        if self._own is not None:
            stored = await self._load_own(self._own, queue)
            if stored is not None:
                self.table.known(queue, stored)
                return stored
            return await self._driver.run(first_offset(self._cluster, queue, *begin))
        if self._file is None:
            offset, known = await self._driver.run(start_offset(self._cluster, self._group, queue, *begin))
            if known:
                self.table.known(queue, offset)
                if offset:  # 0 may be what brokers say of a group they do not know
                    self._order.known(queue)
            return offset
        stored = self._in_file.get(queue)
        if stored is not None:
            self.table.known(queue, stored)
            return stored
        if queue.topic in self._begun_with:
            return await self._driver.run(min_offset(self._cluster, queue))
        return await self._driver.run(first_offset(self._cluster, queue, *begin))

    def begins_with(self, topic: str) -> None:
        """Start this topic's queues at their first message: it does not exist yet, and none of it shall be missed."""
        self._begun_with.add(topic)

    # --- with pulls --------------------------------------------------------------------------

    def uncommitted(self, queue: MessageQueue) -> QueueOffset | None:
        """The offset that is not stored yet; with a store of the user's own the newest one, for people to see."""
        return self.table.unsaved_of(queue) if self._own is None else self.table.get(queue)

    def begin_pull_commit(self, queue: MessageQueue) -> bool:
        """Whether a pull may tell the broker an offset now; if so, `end_pull_commit` must follow.

        What a pull told is not stored by that: a group of brokers answers commits when all of it knows, pulls sooner.
        """
        if not self._order.begin(queue):
            return False
        if self._own is None:
            self.table.unsure(queue)
        return True

    def end_pull_commit(self, queue: MessageQueue, *, told: bool) -> None:
        """The pull was answered, which `told` says, or will not be any more."""
        self._order.end(queue, answered=told)

    # --- by themselves -----------------------------------------------------------------------

    async def store(self, queues: set[MessageQueue] | None = None) -> None:
        """Store what changed, of these queues only if given; a failure is logged, and tried again next time."""
        if self._own is None and self._file is None:
            unsaved = self._unsaved(queues)
            if unsaved:
                await asyncio.gather(*map(self._store_one, unsaved))
            return
        async with self._storing:  # an older offset must not overtake a newer one
            unsaved = self._unsaved(queues)
            if not unsaved:
                return
            if self._own is not None:
                await self._store_own(self._own, unsaved)
            else:
                await self._store_file(unsaved)

    def _unsaved(self, queues: set[MessageQueue] | None) -> dict[MessageQueue, QueueOffset]:
        unsaved = self.table.unsaved()
        if queues is None:
            return unsaved
        return {queue: offset for queue, offset in unsaved.items() if queue in queues}

    async def reset(self, queue: MessageQueue, offset: QueueOffset) -> None:
        """Somebody set the offset on purpose: store it now."""
        self.table.update(queue, offset, only_forward=False)
        await self.store({queue})

    async def _load_own(self, own: OffsetStore, queue: MessageQueue) -> QueueOffset | None:
        try:
            loaded = await _called(asyncio.to_thread, own.load, self._plain(queue))
        except Exception as error:
            raise ClientError(f"the offset store cannot tell where {queue} begins: {error!r}") from error
        if loaded is not None and (not isinstance(loaded, int) or loaded < 0):
            raise ClientError(
                f"the offset store says {loaded!r} of {queue}: an offset is a number, 0 or more"
            )
        return None if loaded is None else QueueOffset(loaded)

    async def _store_own(self, own: OffsetStore, unsaved: dict[MessageQueue, QueueOffset]) -> None:
        try:
            stored = {self._plain(queue): offset for queue, offset in unsaved.items()}
            await _called(self._threads.run, own.store, stored)
        except Exception as error:
            log.warning("offsets not stored group=%s store=%r reason=%r", self._group, own, error)
            return
        for queue, offset in unsaved.items():
            self.table.saved(queue, offset)

    def _plain(self, queue: MessageQueue) -> MessageQueue:
        """The queue under its name without a namespace."""
        if not self._namespace:
            return queue
        return MessageQueue(
            without_namespace(queue.topic, self._namespace), queue.broker_name, queue.queue_id
        )

    async def _store_one(self, queue: MessageQueue) -> None:
        if not await self._order.turn(queue, TURN_S):
            log.warning(
                "offset not stored group=%s queue=%s reason=a pull or commit with an older one is not answered",
                self._group, queue,
            )  # fmt: skip
            return
        # A task of its own: whoever waits may be cancelled, the request is under way until it is answered.
        commit = asyncio.create_task(self._commit(queue))
        self._commits.add(commit)
        commit.add_done_callback(self._commits.discard)
        await asyncio.shield(commit)

    async def _commit(self, queue: MessageQueue) -> None:
        """Have the broker keep the offset of this moment; it is the queue's turn."""
        answered = False
        try:
            offset = self.table.unsaved_of(queue)
            if offset is None:
                return  # whatever it waited for has told it
            self.table.unsure(queue)
            try:
                await self._driver.run(commit_offset(self._cluster, self._group, queue, offset))
            except RocketeerError as error:
                log.warning(
                    "offset not stored group=%s queue=%s offset=%d reason=%s",
                    self._group, queue, offset, error,
                )  # fmt: skip
                self._cluster.routes.suspect(queue.topic)
            else:
                answered = True
                self.table.saved(queue, offset)
        finally:
            self._order.end(queue, answered=answered)

    async def _store_file(self, unsaved: dict[MessageQueue, QueueOffset]) -> None:
        assert self._file is not None
        everything = merged(self._in_file, unsaved.items())
        try:
            await self._threads.run(self._file.save, everything)
        except OSError as error:
            log.warning("offsets not stored group=%s file=%s reason=%s", self._group, self._file.path, error)
            return
        self._in_file = everything
        for queue, offset in unsaved.items():
            self.table.saved(queue, offset)

    async def store_repeatedly(self, every_s: float) -> None:
        while True:
            await asyncio.sleep(every_s)
            await self.store()


async def _called(in_thread: InThread, function: Callable[..., Any], *arguments: object) -> Any:
    """What a user's function returns: of a coroutine function on the loop, of another one in a thread."""
    if inspect.iscoroutinefunction(function):
        return await function(*arguments)
    returned = await in_thread(function, *arguments)
    return await returned if inspect.isawaitable(returned) else returned
