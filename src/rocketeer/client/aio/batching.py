"""Joins single sends of one moment into batch requests: each caller still gets its own result, or its own error.

Sends that name no queue share one until it is full, then it is the turn of the next; those with a queue, a selector
or a sharding key are joined per queue. A message that cannot be in a batch goes alone, behind what waits for its
queue.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from rocketeer.client.aio.send_limit import AsyncSendLimit
from rocketeer.client.core.config import ProducerConfig
from rocketeer.client.core.encoding import Encoder, Outgoing
from rocketeer.client.core.hooks import SendMode
from rocketeer.client.core.send_result import SendResult, split_result
from rocketeer.client.plans.effects import Plan
from rocketeer.client.plans.send import Choose, SendApart, Sender, fixed
from rocketeer.errors import BrokerRefused, ClientClosed, RocketeerError, SendFailed
from rocketeer.model.message import InvalidMessage, Message
from rocketeer.model.property_names import DEDUP_ID
from rocketeer.model.queue import MessageQueue
from rocketeer.model.topic import RETRY_PREFIX

MESSAGES_MAX: Final = 1024
"""Of one batch; brokers refuse far larger ones."""
_ITEM_BYTES: Final = 200
"""About what a message's properties take beside its body."""


class Waiter(Protocol):
    """Who waits for a send's result: a future of the loop, or one that a thread waits for."""

    def done(self) -> bool: ...

    def set_result(self, result: SendResult, /) -> None: ...

    def set_exception(self, error: Exception, /) -> None: ...


class Store(Protocol):
    """Brings a request to a broker: numbered when the producer is idempotent."""

    async def __call__(
        self, outgoing: Outgoing, choose: Choose | None, timeout_s: float | None, mode: SendMode
    ) -> SendResult: ...


class _Batch:
    """Messages on their way together. Without `queue` any will do."""

    __slots__ = ("bytes", "key", "messages", "mode", "queue", "timeout_s", "timer", "waiters")

    def __init__(
        self, key: tuple[object, ...], queue: MessageQueue | None, timeout_s: float | None, mode: SendMode
    ) -> None:
        self.key = key
        self.queue = queue
        self.timeout_s = timeout_s
        self.mode = mode
        self.messages: list[Message] = []
        self.waiters: list[Waiter] = []
        self.bytes = 0
        self.timer: asyncio.Handle | None = None


class Batcher:
    """One per started producer."""

    def __init__(self, config: ProducerConfig, sender: Sender, encoder: Encoder, store: Store) -> None:
        self._config = config
        self._sender = sender
        self._encoder = encoder
        self._store = store
        self._linger_s = config.linger_ms / 1000
        self._bytes_max = min(config.batch_bytes, config.message_bytes_max)
        self._body_bytes_max = min(config.compress_over_bytes - 1, self._bytes_max)
        self._loop = asyncio.get_running_loop()
        self._open: dict[tuple[object, ...], _Batch] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def takes(self, message: object) -> bool:
        """Whether the message can be in a batch, and looks the same to consumers as if it came alone."""
        return (
            type(message) is Message
            and 0 < len(message.body) <= self._body_bytes_max
            and not message.is_timed
            and not message.topic.startswith(RETRY_PREFIX)
            and not (self._config.idempotent and DEDUP_ID in message.properties)
        )

    def add(
        self,
        message: Message,
        queue: MessageQueue | None,
        timeout_s: float | None,
        waiter: Waiter,
        mode: SendMode = SendMode.SYNC,
    ) -> None:
        """Have it sent; the waiter gets what a send alone would return or raise."""
        key = (message.topic, queue, message.wait_stored, timeout_s, mode is SendMode.SYNC)
        batch = self._open.get(key)
        if batch is None:
            batch = self._open[key] = _Batch(key, queue, timeout_s, mode)
            if self._linger_s > 0:
                batch.timer = self._loop.call_later(self._linger_s, self._flush, batch)
            else:
                batch.timer = self._loop.call_soon(self._flush, batch)
        batch.messages.append(message)
        batch.waiters.append(waiter)
        batch.bytes += len(message.body) + _ITEM_BYTES
        if batch.bytes >= self._bytes_max or len(batch.messages) >= MESSAGES_MAX:
            self._flush(batch)

    def known_queue(self, message: Message, choose: Choose) -> MessageQueue | None:
        """The queue that was chosen; None when its topic's route is not known yet (`queue_plan` asks for it)."""
        topic = self._config.full_topic(message.topic)
        known = self._sender.routes.get(topic)
        if known is None or not known.publish:
            return None
        return self._sender.chosen(topic, known, choose)

    def queue_plan(self, message: Message, choose: Choose, timeout_s: float | None) -> Plan[MessageQueue]:
        """The queue that was chosen; asks for the route first."""
        topic = self._config.full_topic(message.topic)
        limit_s = self._config.send_timeout_s if timeout_s is None else timeout_s
        known = yield from self._sender.publish_route(topic, min(limit_s, self._config.call_timeout_s))
        return self._sender.chosen(topic, known, choose)

    def flush_queue(self, queue: MessageQueue) -> bool:
        """Have what waits for the queue leave in the loop's next turn: a message that goes alone comes behind it.

        False when nothing waits.
        """
        waiting = [batch for batch in self._open.values() if batch.queue == queue]
        for batch in waiting:
            self._flush(batch)
        return bool(waiting)

    def close(self) -> None:
        """Give up what is under way: those who wait get ClientClosed."""
        for batch in list(self._open.values()):
            if batch.timer is not None:
                batch.timer.cancel()
            _fail(batch.waiters, asyncio.CancelledError())
        self._open.clear()
        for task in self._tasks:
            task.cancel()

    def _flush(self, batch: _Batch) -> None:
        if self._open.get(batch.key) is not batch:
            return
        del self._open[batch.key]
        if batch.timer is not None:
            batch.timer.cancel()
        task = self._loop.create_task(self._deliver(batch))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _deliver(self, batch: _Batch) -> None:
        messages, waiters = batch.messages, batch.waiters
        if any(waiter.done() for waiter in waiters):  # given up before it left
            alive = [at for at, waiter in enumerate(waiters) if not waiter.done()]
            messages, waiters = [messages[at] for at in alive], [waiters[at] for at in alive]
        if not messages:
            return
        whole: Outgoing | None = None
        try:
            # Hooks see every message by itself, so each is encoded by itself.
            whole = self._encoder.joined(messages, apart=bool(self._sender.hooks))
            result = await self._send(whole, batch)
        except (BrokerRefused, InvalidMessage, ValueError, SendApart) as error:
            if len(messages) == 1:
                _fail(waiters, error)
                return
            # Of which message it is true nobody has said: each is sent by itself, in their order.
            parts: Sequence[Outgoing | Message] = (
                messages if whole is None or not whole.parts else whole.parts
            )
            for part, waiter in zip(parts, waiters, strict=True):
                await self._alone(part, waiter, batch)
        except BaseException as error:
            _fail(waiters, error)
            if not isinstance(error, RocketeerError):
                raise
        else:
            for waiter, each in zip(waiters, split_result(result, len(waiters)), strict=True):
                if not waiter.done():
                    waiter.set_result(each)

    async def _alone(self, part: Outgoing | Message, waiter: Waiter, batch: _Batch) -> None:
        try:
            outgoing = self._encoder.encode(part) if isinstance(part, Message) else part
            result = await self._send(outgoing, batch)
        except Exception as error:
            _fail([waiter], error)
        else:
            if not waiter.done():
                waiter.set_result(result)

    async def _send(self, outgoing: Outgoing, batch: _Batch) -> SendResult:
        choose = None if batch.queue is None else fixed(batch.queue)
        return await self._store(outgoing, choose, batch.timeout_s, batch.mode)


class SharedSend(msgspec.Struct, gc=False, eq=False):
    """One send that shares its request: it waits for a place in flight, joins a batch, and leaves with its outcome.

    One object and one future for all of it: of these there may be hundreds of thousands.
    """

    future: asyncio.Future[SendResult]
    batcher: Batcher
    limit: AsyncSendLimit
    message: Message
    queue: MessageQueue | None
    timeout_s: float | None
    size: int
    in_flight: bool = False

    def enter(self) -> None:
        self.in_flight = True
        self.batcher.add(self.message, self.queue, self.timeout_s, self)

    def done(self) -> bool:
        return self.future.done()

    def set_result(self, result: SendResult, /) -> None:
        self.future.set_result(result)
        self._leave(answered=True)

    def set_exception(self, error: Exception, /) -> None:
        self.future.set_exception(error)
        self._leave(answered=not isinstance(error, SendFailed))

    def give_up(self) -> None:
        """Its sender was cancelled."""
        self._leave(answered=False)

    def _leave(self, *, answered: bool) -> None:
        if self.in_flight:
            self.in_flight = False
            self.limit.leave(self.size, answered=answered)


def _fail(waiters: Sequence[Waiter], error: BaseException) -> None:
    """Each its own error: one that is raised in many places collects all their tracebacks."""
    for waiter in waiters:
        if not waiter.done():
            if isinstance(error, Exception):
                waiter.set_exception(_copied(error))
            else:
                waiter.set_exception(ClientClosed("the producer was closed before the broker answered"))


def _copied(error: Exception) -> Exception:
    copy = error.__class__.__new__(error.__class__)
    copy.args = error.args
    copy.__dict__.update(error.__dict__)
    copy.__cause__ = error.__cause__
    return copy
