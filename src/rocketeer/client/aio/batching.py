"""Joins single sends of one moment into batch requests: each caller still gets its own result, or its own error.

Sends that name no queue share one until it is full, then it is the turn of the next; those with a queue, a selector
or a sharding key are joined per queue. A message that cannot be in a batch goes alone, behind what waits for its
queue.
"""

import asyncio
from typing import Any, Final, NamedTuple

from rocketeer.client.core.config import ProducerConfig
from rocketeer.client.core.encoding import Encoder, Outgoing
from rocketeer.client.core.send_result import SendResult
from rocketeer.client.plans.effects import Plan
from rocketeer.client.plans.send import Choose, Sender
from rocketeer.errors import BrokerRefused, RocketeerError
from rocketeer.model.message import InvalidMessage, Message
from rocketeer.model.queue import MessageQueue
from rocketeer.model.topic import RETRY_PREFIX

MESSAGES_MAX: Final = 1024
"""Of one batch; brokers refuse far larger ones."""
_ITEM_BYTES: Final = 200
"""About what a message's properties take beside its body."""


class _Key(NamedTuple):
    """What the messages of a batch have in common. Without `queue` any will do."""

    topic: str
    queue: MessageQueue | None
    wait_stored: bool
    timeout_s: float | None


class _Batch:
    __slots__ = ("bytes", "key", "messages", "timer", "waiters")

    def __init__(self, key: _Key) -> None:
        self.key = key
        self.messages: list[Message] = []
        self.waiters: list[asyncio.Future[SendResult]] = []
        self.bytes = 0
        self.timer: asyncio.Handle | None = None


class Batcher:
    """One per started producer."""

    def __init__(self, config: ProducerConfig, sender: Sender, encoder: Encoder, run_plan: Any) -> None:
        self._config = config
        self._sender = sender
        self._encoder = encoder
        self._run = run_plan
        self._linger_s = config.linger_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._open: dict[_Key, _Batch] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def takes(self, message: object) -> bool:
        """Whether the message can be in a batch, and looks the same to consumers as if it came alone."""
        return (
            type(message) is Message
            and not message.is_timed
            and 0 < len(message.body) < min(self._config.compress_over_bytes, self._config.batch_bytes)
            and not message.topic.startswith(RETRY_PREFIX)
        )

    async def send(self, message: Message, choose: Choose | None, timeout_s: float | None) -> SendResult:
        """Raises what a send alone would."""
        queue = None
        if choose is not None:
            queue = await self._chosen(message, choose, timeout_s)
        key = _Key(message.topic, queue, message.wait_stored, timeout_s)
        batch = self._open.get(key)
        if batch is None:
            batch = self._open[key] = _Batch(key)
            if self._linger_s > 0:
                batch.timer = self._loop.call_later(self._linger_s, self._flush, batch)
            else:
                batch.timer = self._loop.call_soon(self._flush, batch)
        waiter: asyncio.Future[SendResult] = self._loop.create_future()
        batch.messages.append(message)
        batch.waiters.append(waiter)
        batch.bytes += len(message.body) + _ITEM_BYTES
        if batch.bytes >= self._config.batch_bytes or len(batch.messages) >= MESSAGES_MAX:
            self._flush(batch)
        return await waiter

    async def flush_before(self, message: object, choose: Choose | None) -> None:
        """A message that goes alone to a chosen queue does so behind those that wait for it."""
        if choose is not None and isinstance(message, Message):
            queue = await self._chosen(message, choose, None)
            waiting = [batch for key, batch in self._open.items() if key.queue == queue]
            for batch in waiting:
                self._flush(batch)
            if waiting:
                await asyncio.sleep(0)  # they leave in the turn of the loop that comes first

    async def _chosen(self, message: Message, choose: Choose, timeout_s: float | None) -> MessageQueue:
        topic = self._config.full_topic(message.topic)
        known = self._sender.routes.get(topic)
        if known is None or not known.publish:
            limit_s = self._config.send_timeout_s if timeout_s is None else timeout_s
            known = await self._run(
                self._sender.publish_route(topic, min(limit_s, self._config.call_timeout_s))
            )
        return self._sender.chosen(topic, known, choose)

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
        alive = [each for each in zip(batch.messages, batch.waiters, strict=True) if not each[1].done()]
        messages, waiters = [message for message, _ in alive], [waiter for _, waiter in alive]
        if not messages:
            return
        try:
            whole = self._encoder.joined(messages)
            result = await self._run(self._plan(whole, batch.key))
        except (BrokerRefused, InvalidMessage, ValueError) as error:
            if len(messages) == 1:
                _fail(waiters, error)
            else:  # of which message it is true nobody has said: each is asked for by itself, in their order
                for message, waiter in alive:
                    await self._alone(message, waiter, batch.key)
        except BaseException as error:
            _fail(waiters, error)
            if not isinstance(error, RocketeerError):
                raise
        else:
            assert result is not None, "only oneway sends have no result"
            for waiter, each in zip(waiters, split_result(result, len(waiters)), strict=True):
                if not waiter.done():
                    waiter.set_result(each)

    async def _alone(self, message: Message, waiter: asyncio.Future[SendResult], key: _Key) -> None:
        try:
            result = await self._run(self._plan(self._encoder.encode(message), key))
        except Exception as error:
            _fail([waiter], error)
        else:
            assert result is not None, "only oneway sends have no result"
            if not waiter.done():
                waiter.set_result(result)

    def _plan(self, outgoing: Outgoing, key: _Key) -> Plan[SendResult | None]:
        queue = key.queue
        choose: Choose | None = None if queue is None else lambda queues: queue
        return self._sender.send(outgoing, choose=choose, timeout_s=key.timeout_s)


def split_result(result: SendResult, count: int) -> list[SendResult]:
    """A batch's result as those of its messages: ids are joined with commas, offsets count up from the first."""
    if count == 1:
        return [result]
    ids = result.message_id.split(",")
    places = result.offset_message_id.split(",")
    if len(places) != count:
        places = [result.offset_message_id] * count
    return [
        SendResult(
            result.status,
            ids[at],
            places[at],
            result.queue,
            result.queue_offset + at,
            result.transaction_id,
            result.region,
            result.trace_on,
        )
        for at in range(count)
    ]


def _fail(waiters: list[asyncio.Future[SendResult]], error: BaseException) -> None:
    """Each its own error: one that is raised in many places collects all their tracebacks."""
    for waiter in waiters:
        if not waiter.done():
            if isinstance(error, asyncio.CancelledError):
                waiter.cancel()
            else:
                waiter.set_exception(_copied(error))


def _copied(error: BaseException) -> BaseException:
    copy = error.__class__.__new__(error.__class__)
    copy.args = error.args
    copy.__dict__.update(error.__dict__)
    copy.__cause__ = error.__cause__
    return copy
