"""Sends that share a request, in plain Python: what `_shared_send.pyx` does compiled."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final, Protocol

from rocketeer.client.aio.send_limit import AsyncSendLimit
from rocketeer.client.core.hooks import SendMode
from rocketeer.client.core.send_result import SendResult, split_result
from rocketeer.errors import SendFailed
from rocketeer.model.message import Message
from rocketeer.model.property_names import DEDUP_ID
from rocketeer.model.queue import MessageQueue
from rocketeer.model.topic import RETRY_PREFIX

MESSAGES_MAX: Final = 1024
"""Most messages of one batch; brokers refuse far larger ones."""
_ITEM_BYTES: Final = 200
"""About what a message's properties take beside its body."""


class Waiter(Protocol):
    """Something that waits for a send's result: a future of the loop, or one that a thread waits for."""

    def done(self) -> bool: ...

    def set_result(self, result: SendResult, /) -> None: ...

    def set_exception(self, error: Exception, /) -> None: ...


class JoinRule:
    """Which messages can be in a batch, and look the same to consumers as if they came alone."""

    def __init__(self, body_bytes_max: int, *, idempotent: bool) -> None:
        self._body_bytes_max = body_bytes_max
        self._idempotent = idempotent

    def takes(self, message: object) -> bool:
        return (
            type(message) is Message
            and 0 < len(message.body) <= self._body_bytes_max
            and not message.is_timed
            and not message.topic.startswith(RETRY_PREFIX)
            and not (self._idempotent and DEDUP_ID in message.properties)
        )


class Batch:
    """Messages on their way together. Without `queue` any will do."""

    __slots__ = (
        "_bytes",
        "_bytes_max",
        "_is_sync",
        "_topic",
        "_wait_stored",
        "due_s",
        "messages",
        "mode",
        "queue",
        "shut",
        "slot",
        "timeout_s",
        "timer",
        "waiters",
    )

    def __init__(
        self,
        slot: object,
        first: Message,
        queue: MessageQueue | None,
        timeout_s: float | None,
        mode: SendMode,
        bytes_max: int,
    ) -> None:
        self.slot = slot
        self.queue = queue
        self.timeout_s = timeout_s
        self.mode = mode
        self.messages: list[Message] = []
        self.waiters: list[Waiter] = []
        self.timer: asyncio.Handle | None = None
        self.due_s: float | None = None
        """Since when it waits for its turn; more may join it meanwhile."""
        self.shut = False
        """Whether the batch is closed: no message joins it any more."""
        self._topic = first.topic
        self._wait_stored = first.wait_stored
        self._is_sync = mode is SendMode.SYNC
        self._bytes = 0
        self._bytes_max = bytes_max

    def fits(self, message: Message, timeout_s: float | None, is_sync: bool) -> bool:
        """Whether one request can say of both what is to be said."""
        return (
            self._topic == message.topic
            and self._wait_stored == message.wait_stored
            and self.timeout_s == timeout_s
            and self._is_sync == is_sync
        )

    def join(self, message: Message, waiter: Waiter) -> bool:
        """Add a message to the batch; True when the batch is full."""
        self.messages.append(message)
        self.waiters.append(waiter)
        self._bytes += len(message.body) + _ITEM_BYTES
        return self._bytes >= self._bytes_max or len(self.messages) >= MESSAGES_MAX


class BatchInput(Protocol):
    """What a send that has its place does next (`batching.Batcher`)."""

    def add(
        self, message: Message, queue: MessageQueue | None, timeout_s: float | None, waiter: Waiter
    ) -> Batch:
        """Put it into an open batch, or into a new one."""

    def full(self, batch: Batch) -> None:
        """Send the batch; nothing joins it any more."""


class SharedSend(asyncio.Future[SendResult]):
    """One send that shares its request: it waits for a place in flight, joins a batch, and leaves with its outcome.

    One object for all of it: of these there may be hundreds of thousands. `SharedSends.share` makes them.
    """

    __slots__ = ("_in_flight", "_sends", "message", "queue", "size", "timeout_s")

    def __init__(
        self, sends: "SharedSends", message: Message, queue: MessageQueue | None, timeout_s: float | None
    ) -> None:
        super().__init__(loop=sends.loop)
        self._sends = sends
        self.message = message
        self.queue = queue
        self.timeout_s = timeout_s
        self.size = len(message.body)
        self._in_flight = False

    def enter(self) -> None:
        self._in_flight = True
        self._sends._join(self)

    def set_result(self, result: SendResult, /) -> None:
        super().set_result(result)
        self._leave(answered=True)

    def set_exception(self, error: Any, /) -> None:
        super().set_exception(error)
        self._leave(answered=not isinstance(error, SendFailed))

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel the send for its sender; its place is free again."""
        if not super().cancel(msg):
            return False
        self._leave(answered=False)
        return True

    def _leave(self, *, answered: bool) -> None:
        if self._in_flight:
            self._in_flight = False
            self._sends.limit.leave(self.size, answered=answered)


class SharedSends:
    """Where sends that share requests come in: one per started producer."""

    __slots__ = ("_batcher", "_last", "limit", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: AsyncSendLimit, batcher: BatchInput) -> None:
        self.loop = loop
        self.limit = limit
        self._batcher = batcher
        self._last: Batch | None = None

    def share(self, message: Message, queue: MessageQueue | None, timeout_s: float | None) -> SharedSend:
        """Have a message sent in one request with others, as soon as there is a place for it."""
        sent = SharedSend(self, message, queue, timeout_s)
        self.limit.seek(sent)
        return sent

    def _join(self, sent: SharedSend) -> None:
        """Put it into a batch, mostly that of the send before it."""
        batch = self._last
        if (
            batch is None
            or batch.shut
            or sent.queue is not None
            or batch.queue is not None
            or not batch.fits(sent.message, sent.timeout_s, True)
        ):
            self._last = self._batcher.add(sent.message, sent.queue, sent.timeout_s, sent)
        elif batch.join(sent.message, sent):
            self._batcher.full(batch)


def any_done(waiters: Sequence[Waiter]) -> bool:
    """Whether one of them has given up."""
    return any(waiter.done() for waiter in waiters)


def finish(waiters: Sequence[Waiter], result: SendResult) -> None:
    """Give each of them its part of the result of their batch."""
    for waiter, each in zip(waiters, split_result(result, len(waiters)), strict=True):
        if not waiter.done():
            waiter.set_result(each)
