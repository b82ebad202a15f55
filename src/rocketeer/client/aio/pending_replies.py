"""Questions that wait for their answer, by correlation id; a broker pushes the answers here (326)."""

import asyncio
import logging
from collections.abc import Callable

from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.core.request_reply import received_reply
from rocketeer.clock import Clock
from rocketeer.errors import ClientClosed
from rocketeer.model.property_names import CORRELATION_ID
from rocketeer.protocol.command import Command, reply
from rocketeer.protocol.headers.base import decode_header
from rocketeer.protocol.headers.send import ReplyMessageHeader

log = logging.getLogger(__name__)


class PendingReplies:
    """The questions of one client instance that wait for their answer."""

    def __init__(self, clock: Clock, broker_at: Callable[[str], str]) -> None:
        self._clock = clock
        self._broker_at = broker_at
        self._waiting: dict[str, asyncio.Future[ReceivedMessage]] = {}

    def expect(self, correlation_id: str) -> asyncio.Future[ReceivedMessage]:
        """A future for the answer; pair it with `forget`."""
        waiter: asyncio.Future[ReceivedMessage] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = waiter
        return waiter

    def forget(self, correlation_id: str) -> None:
        self._waiting.pop(correlation_id, None)

    def close(self) -> None:
        """No answer can come any more."""
        for waiter in self._waiting.values():
            if not waiter.done():
                waiter.set_exception(ClientClosed("the producer was closed before the answer came"))
        self._waiting.clear()

    def arrived(self, command: Command, address: str) -> Command:
        """An answer came; one that nobody waits for (any more) is taken and logged, as RocketMQ does."""
        header = decode_header(ReplyMessageHeader, command.ext)
        message = received_reply(header, command.body, self._broker_at(address), self._clock.now_ms())
        correlation_id = message.properties.get(CORRELATION_ID, "")
        waiter = self._waiting.pop(correlation_id, None)
        if waiter is None:
            log.warning(
                "answer without question correlation_id=%s from=%s", correlation_id, message.born_host
            )
        elif not waiter.done():
            waiter.set_result(message)
        return reply(command)
