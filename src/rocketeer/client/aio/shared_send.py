"""One send that shares its request with others: its place in flight, and the future its sender awaits."""

import asyncio

import msgspec

from rocketeer.client.aio.batching import Batcher
from rocketeer.client.aio.send_limit import AsyncSendLimit
from rocketeer.client.core.send_result import SendResult
from rocketeer.errors import SendFailed
from rocketeer.model.message import Message
from rocketeer.model.queue import MessageQueue


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
