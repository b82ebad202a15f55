"""Joins single sends of one moment into batch requests: each caller still gets its own result, or its own error.

Sends that name no queue share one until it is full, then it is the turn of the next; those with a queue, a selector
or a sharding key are joined per queue, and the requests for such a queue leave one after the other (`send_order`).
What cannot be in a batch goes alone, in its turn.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from rocketeer.client.aio.drivers import PlanRunner
from rocketeer.client.aio.send_order import QueueSendOrder, RouteSendOrder, SendTurn, late
from rocketeer.client.aio.shared_send import Batch, JoinRule, Waiter, any_done, finish
from rocketeer.client.core.config import ProducerConfig
from rocketeer.client.core.encoding import Encoder, Outgoing
from rocketeer.client.core.hooks import SendMode
from rocketeer.client.core.send_result import SendResult
from rocketeer.client.plans.effects import Plan
from rocketeer.client.plans.send import Choose, Fixed, SendApart, Sender
from rocketeer.errors import BrokerRefused, ClientClosed, RocketeerError
from rocketeer.model.message import InvalidMessage, Message
from rocketeer.model.queue import MessageQueue


class DeliverRequest(Protocol):
    """Brings a request to a broker: numbered when the producer is idempotent."""

    async def __call__(
        self, outgoing: Outgoing, choose: Choose | None, timeout_s: float | None, mode: SendMode
    ) -> SendResult: ...


class Batcher:
    """Collects single sends into batch requests; one per started producer."""

    def __init__(
        self, config: ProducerConfig, sender: Sender, encoder: Encoder, deliver: DeliverRequest
    ) -> None:
        self._config = config
        self._sender = sender
        self._encoder = encoder
        self._deliver_request = deliver
        self._linger_s = config.linger_ms / 1000
        self._bytes_max = min(config.batch_bytes, config.message_bytes_max)
        body_bytes_max = min(config.compress_over_bytes - 1, self._bytes_max)
        self.takes = JoinRule(body_bytes_max, idempotent=config.idempotent).takes
        """Whether the message can be in a batch."""
        self._loop = asyncio.get_running_loop()
        # An idempotent producer's messages have numbers: the broker keeps their order.
        self._lines = None if config.idempotent else QueueSendOrder()
        self._route_lines = RouteSendOrder()
        self._open: dict[object, Batch] = {}
        self._in_line: set[Batch] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def add(
        self,
        message: Message,
        queue: MessageQueue | None,
        timeout_s: float | None,
        waiter: Waiter,
        mode: SendMode = SendMode.SYNC,
    ) -> Batch:
        """Put a message into a batch, which is returned; the waiter gets what a send alone would return or raise."""
        is_sync = mode is SendMode.SYNC
        # Of a chosen queue one is open, so order is kept.
        slot = (message.topic, message.wait_stored, timeout_s, is_sync) if queue is None else queue
        batch = self._open.get(slot)
        if batch is not None and (not batch.fits(message, timeout_s, is_sync) or self._is_old(batch)):
            self.full(batch)
            batch = None
        if batch is None:
            batch = Batch(slot, message, queue, timeout_s, mode, self._bytes_max)
            self._open[slot] = batch
            if self._linger_s > 0:
                batch.timer = self._loop.call_later(self._linger_s, self._flush, batch)
            else:
                batch.timer = self._loop.call_soon(self._flush, batch)
        if batch.join(message, waiter):
            self.full(batch)
        return batch

    def full(self, batch: Batch) -> None:
        """Send the batch as it is, or line it up for its turn: messages that come now go behind it."""
        self._flush(batch)
        self._shut(batch)

    def known_queue(self, topic: str, choose: Choose) -> MessageQueue | None:
        """The queue that was chosen; None when its topic's route is not known yet (`find_queue` asks for it)."""
        topic = self._config.full_topic(topic)
        if topic in self._route_lines:
            return None  # those who wait for the route come first
        if isinstance(choose, Fixed):
            return self._sender.named(topic, choose)
        known = self._sender.routes.get(topic)
        if known is None or not known.publish:
            return None
        return self._sender.chosen(topic, known, choose)

    async def find_queue(
        self, run_plan: PlanRunner, topic: str, choose: Choose, timeout_s: float | None
    ) -> MessageQueue:
        """The queue that was chosen; asks for the route first, and comes behind all who asked before."""
        topic = self._config.full_topic(topic)
        limit_s = self.limit_s(timeout_s)
        asking = run_plan(self._queue_plan(topic, choose, limit_s))
        return await self._route_lines.wait(topic, asking, limit_s)

    def _queue_plan(self, topic: str, choose: Choose, limit_s: float) -> Plan[MessageQueue]:
        if isinstance(choose, Fixed):
            return self._sender.named(topic, choose)
        known = yield from self._sender.route_for_send(
            topic,
            SendMode.SYNC,
            min(limit_s, self._config.call_timeout_s),
            self._sender.clock.monotonic_s() + limit_s,
        )
        return self._sender.chosen(topic, known, choose)

    def limit_s(self, timeout_s: float | None) -> float:
        return self._config.send_timeout_s if timeout_s is None else timeout_s

    def turn(self, queue: MessageQueue) -> SendTurn:
        """For a request that goes alone to a queue that was chosen."""
        return SendTurn(self, self._lines, queue)

    def close_open(self, queue: MessageQueue | None) -> None:
        """Close the queue's open batch: later messages go into the next one."""
        batch = self._open.get(queue)
        if batch is not None:
            self.full(batch)

    def close(self) -> None:
        """Give up what is under way: those who wait get ClientClosed."""
        for batch in [*self._open.values(), *self._in_line]:
            self._shut(batch)
            if batch.timer is not None:
                batch.timer.cancel()
            _fail(batch.waiters, asyncio.CancelledError())
        for task in self._tasks:
            task.cancel()

    # --- a batch's way -----------------------------------------------------------------------

    def _flush(self, batch: Batch) -> None:
        """Send a batch whose linger time is over, or queue it for its turn; while it waits it may grow."""
        if batch.due_s is not None:
            return
        batch.due_s = self._loop.time()
        if batch.timer is not None:
            batch.timer.cancel()
            batch.timer = None
        if batch.queue is None or self._lines is None:
            self._begin(batch)
            return
        self._in_line.add(batch)
        self._lines.join(batch.queue, lambda: self._begin(batch))
        limit_s = self.limit_s(batch.timeout_s)
        if batch in self._in_line and limit_s > 0:
            batch.timer = self._loop.call_later(limit_s, self._late, batch)

    def _begin(self, batch: Batch) -> bool:
        self._shut(batch)
        self._in_line.discard(batch)
        if batch.timer is not None:
            batch.timer.cancel()
        if all(waiter.done() for waiter in batch.waiters):
            return False
        task = self._loop.create_task(self._deliver(batch))
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._ended(batch, done))
        return True

    def _ended(self, batch: Batch, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():  # perhaps before it began
            _fail(batch.waiters, asyncio.CancelledError())
        if batch.queue is not None and self._lines is not None:
            self._lines.leave(batch.queue)

    def _shut(self, batch: Batch) -> None:
        """Take no more messages into the batch."""
        batch.shut = True
        if self._open.get(batch.slot) is batch:
            del self._open[batch.slot]

    def _is_old(self, batch: Batch) -> bool:
        """Whether a batch has waited so long that who joins it would have little of its time left."""
        if batch.due_s is None:
            return False
        return self._loop.time() - batch.due_s > self.limit_s(batch.timeout_s) / 2

    def _late(self, batch: Batch) -> None:
        assert batch.queue is not None, "others do not wait"
        self._shut(batch)
        _fail(batch.waiters, late(batch.queue))

    async def _deliver(self, batch: Batch) -> None:
        messages, waiters = batch.messages, batch.waiters
        if any_done(waiters):  # given up before it left
            alive = [at for at, waiter in enumerate(waiters) if not waiter.done()]
            messages, waiters = [messages[at] for at in alive], [waiters[at] for at in alive]
        if not messages:
            return
        try:
            await self._send_joined(messages, waiters, batch)
        except BaseException as error:
            _fail(waiters, error)
            if not isinstance(error, RocketeerError):
                raise

    async def _send_joined(self, messages: list[Message], waiters: list[Waiter], batch: Batch) -> None:
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
        else:
            finish(waiters, result)

    async def _alone(self, part: Outgoing | Message, waiter: Waiter, batch: Batch) -> None:
        try:
            outgoing = self._encoder.encode(part) if isinstance(part, Message) else part
            result = await self._send(outgoing, batch)
        except Exception as error:
            _fail([waiter], error)
        else:
            if not waiter.done():
                waiter.set_result(result)

    async def _send(self, outgoing: Outgoing, batch: Batch) -> SendResult:
        choose = None if batch.queue is None else Fixed(batch.queue)
        return await self._deliver_request(outgoing, choose, self._left_s(batch), batch.mode)

    def _left_s(self, batch: Batch) -> float | None:
        """What waiting for its turn left of its time."""
        limit_s = self.limit_s(batch.timeout_s)
        if batch.queue is None or batch.due_s is None or limit_s <= 0:
            return batch.timeout_s
        left_s = limit_s - (self._loop.time() - batch.due_s)
        if left_s <= 0:
            raise late(batch.queue)
        return left_s


def _fail(waiters: Sequence[Waiter], error: BaseException) -> None:
    """Set an error of its own for each waiter: one exception raised in many places collects all their tracebacks."""
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
