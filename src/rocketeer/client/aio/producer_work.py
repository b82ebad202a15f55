"""A producer between start and close: all that its sends go through, whole when it is made.

A message that can share its request goes to `shared`, which fills the batches of `batcher`; any other goes alone.
Either way `deliver` brings the request to a broker.
"""

import asyncio
import os
from collections.abc import Sequence

from rocketeer.client import discovery
from rocketeer.client.aio.batching import Batcher
from rocketeer.client.aio.idempotent import IdempotentSender
from rocketeer.client.aio.instance import ClientInstance, Member
from rocketeer.client.aio.send_limit import AsyncSendLimit
from rocketeer.client.aio.send_order import SendTurn
from rocketeer.client.aio.shared_send import SharedSends
from rocketeer.client.aio.tracing import Tracer
from rocketeer.client.core.config import ProducerConfig
from rocketeer.client.core.encoding import Encoder, Outgoing, body_bytes
from rocketeer.client.core.hooks import SendHook, SendMode
from rocketeer.client.core.in_flight import InFlight, oneway_in_flight, stalled_s
from rocketeer.client.core.send_result import SendResult
from rocketeer.client.plans.brokers import ClusterRoutes
from rocketeer.client.plans.lookups import Lookups
from rocketeer.client.plans.send import Choose, Fixed, Sender
from rocketeer.clock import Clock
from rocketeer.model.message import Message
from rocketeer.model.queue import MessageQueue
from rocketeer.record.ids import UniqKeys


class ProducerWork:
    """The parts of a running producer; the sync producer, which hosts an asyncio one, uses them too."""

    def __init__(
        self, instance: ClientInstance, config: ProducerConfig, hooks: tuple[SendHook, ...], clock: Clock
    ) -> None:
        self.instance = instance
        self.loop = asyncio.get_running_loop()
        self.run_plan = instance.driver.run
        self._config = config
        self._tracer: Tracer | None = None
        if config.trace:
            self._tracer = Tracer(config, instance, clock, "PRODUCE")
            hooks = (*hooks, self._tracer.send_hook())
        self.encoder = Encoder(config, UniqKeys(discovery.local_ip(), os.getpid(), clock))
        self.sender = Sender(config, instance.routes, instance.nameservers, clock, hooks)
        self.idempotent: IdempotentSender | None = None
        if config.idempotent:
            self.idempotent = IdempotentSender(self.sender, self.run_plan, config.producer_id)
        wait_s = stalled_s(config)
        self.send_limit = AsyncSendLimit(InFlight(config.in_flight_max, config.in_flight_bytes_max), wait_s)
        self.oneway_limit = AsyncSendLimit(oneway_in_flight(config), wait_s)
        self.batcher: Batcher | None = None
        self.shared: SharedSends | None = None
        if config.batch_bytes:
            self.batcher = Batcher(config, self.sender, self.encoder, self.deliver)
            self.shared = SharedSends(self.loop, self.send_limit, self.batcher)
        cluster = ClusterRoutes(instance.routes, instance.nameservers, config.call_timeout_s)
        self.lookups = Lookups(config, cluster, clock)

    async def close(self, member: Member) -> None:
        """Let unanswered sends finish, and have `member` leave the group."""
        timeout_s = self._config.close_timeout_s
        try:
            limits = (self.send_limit, self.oneway_limit)
            for limit in limits:
                limit.close()
            await asyncio.gather(*(limit.wait_empty(timeout_s) for limit in limits))
            if self._tracer is not None:
                await self._tracer.close(timeout_s)
            await self.instance.leave(member)
        finally:
            await self.instance.release()
            if self.batcher is not None:  # others may still use the connections
                self.batcher.close()

    async def send(
        self, message: Message | Sequence[Message], choose: Choose | None, timeout_s: float | None
    ) -> SendResult:
        """Send in a request shared with others where that can be, else alone."""
        batcher = self.batcher
        chosen: MessageQueue | None = None
        first = message[0] if isinstance(message, Sequence) and message else message
        if batcher is None or not isinstance(first, Message):
            return await self._send_alone(message, choose, timeout_s)
        if choose is not None:
            chosen = batcher.known_queue(first.topic, choose) or await batcher.find_queue(
                self.run_plan, first.topic, choose, timeout_s
            )
            choose = Fixed(chosen)  # whoever chose is not asked twice
        if not batcher.takes(message):
            turn = None if chosen is None else batcher.turn(chosen)
            return await self._send_alone(message, choose, timeout_s, turn)
        assert isinstance(message, Message), "the batcher takes nothing else"
        assert self.shared is not None, "made with the batcher"
        return await self.shared.share(message, chosen, timeout_s)

    async def _send_alone(
        self,
        message: Message | Sequence[Message],
        choose: Choose | None,
        timeout_s: float | None,
        turn: SendTurn | None = None,
    ) -> SendResult:
        """In a request of its own, and where a queue was chosen in its turn."""
        if turn is None:
            async with self.send_limit.place(body_bytes(message)):
                # Encoded when there is a place for it: those who wait hold their message and nothing else.
                return await self.deliver(self.encoder.encode(message), choose, timeout_s)
        try:
            async with self.send_limit.place(body_bytes(message), turn.enqueue):
                outgoing = self.encoder.encode(message)
                return await self.deliver(outgoing, choose, await turn.begin(timeout_s))
        finally:
            turn.end()

    async def deliver(
        self,
        outgoing: Outgoing,
        choose: Choose | None,
        timeout_s: float | None,
        mode: SendMode = SendMode.SYNC,
    ) -> SendResult:
        """Bring a request to a broker, numbered when idempotent."""
        if self.idempotent is not None:
            limit_s = self._config.send_timeout_s if timeout_s is None else timeout_s
            return await self.idempotent.send(outgoing, choose, limit_s)
        result = await self.run_plan(self.sender.send(outgoing, mode, choose=choose, timeout_s=timeout_s))
        assert result is not None, "only oneway sends have no result"
        return result
