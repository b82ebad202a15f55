"""Sends joined into one request: whatever becomes of it, all who wait hear of it."""

import asyncio

import pytest

from rocketeer.client.aio.batching import Batcher
from rocketeer.client.aio.send_limit import AsyncSendLimit
from rocketeer.client.aio.shared_send import SharedSends
from rocketeer.client.core.config import ProducerConfig
from rocketeer.client.core.encoding import Encoder, Outgoing
from rocketeer.client.core.hooks import SendMode
from rocketeer.client.core.in_flight import InFlight
from rocketeer.client.core.nameservers import NameServers
from rocketeer.client.core.routes import RouteCache
from rocketeer.client.core.send_result import SendResult, SendStatus
from rocketeer.client.plans.send import Choose, Sender
from rocketeer.model.message import Message
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.record.ids import UniqKeys
from support.clock import ManualClock


async def test_an_answer_that_cannot_be_shared_out_is_an_error_for_all_who_wait() -> None:
    """They waited for ever."""

    async def deliver(
        outgoing: Outgoing, choose: Choose | None, timeout_s: float | None, mode: SendMode = SendMode.SYNC
    ) -> SendResult:
        return SendResult(
            SendStatus.SEND_OK, "one", "place", MessageQueue("T", "broker-a", 0), QueueOffset(0)
        )

    clock = ManualClock()
    config = ProducerConfig("G")
    sender = Sender(config, RouteCache(), NameServers(()), clock)
    batcher = Batcher(config, sender, Encoder(config, UniqKeys("127.0.0.1", 1, clock)), deliver)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda loop, context: None)  # it is our own bug: asyncio tells of it, too
    limit = AsyncSendLimit(InFlight(10, 1 << 20), 5)
    sends = SharedSends(loop, limit, batcher)
    waiting = [sends.share(Message("T", b"body"), None, None) for _ in range(2)]
    for each in waiting:
        with pytest.raises(ValueError, match="1 ids for 2 messages"):
            await asyncio.wait_for(each, 5)
    assert limit.in_flight.count == 0
