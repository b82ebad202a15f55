"""The producer on asyncio.

async with Producer("shop", nameserver="127.0.0.1:9876") as producer:
    print(await producer.send(Message("orders", b"...", tags="created", keys="42")))
"""

import asyncio
import os
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar, Unpack

from rocketeer.client import discovery
from rocketeer.client.aio.gates import AsyncGate
from rocketeer.client.aio.instance import ClientInstance, Membership
from rocketeer.client.core.config import ProducerConfig, ProducerOptions
from rocketeer.client.core.encoding import Encoder
from rocketeer.client.core.hooks import SendHook, SendMode
from rocketeer.client.core.in_flight import InFlight
from rocketeer.client.core.selectors import Selector
from rocketeer.client.core.send_result import SendResult
from rocketeer.client.plans.effects import Plan
from rocketeer.client.plans.send import Sender, chooser
from rocketeer.clock import Clock, SystemClock
from rocketeer.errors import ClientClosed, ClientError
from rocketeer.model.message import Message
from rocketeer.model.queue import MessageQueue
from rocketeer.model.topic import without_namespace
from rocketeer.record.ids import UniqKeys

T = TypeVar("T")


class PlanRunner(Protocol):
    async def __call__(self, plan: Plan[T]) -> T: ...


class Producer:
    """Sends messages; one is enough for a whole application.

    Options are the fields of `ProducerConfig`. Sends may run side by side: those of one moment share their
    writes, and above `in_flight_max` unanswered ones the next waits for its turn.
    """

    def __init__(
        self,
        group: str,
        *,
        hooks: Sequence[SendHook] = (),
        clock: Clock | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        self.config = ProducerConfig(group, **options)
        self._hooks = tuple(hooks)
        self._clock = clock or SystemClock()
        self._instance: ClientInstance | None = None
        self._starting = asyncio.Lock()
        self._closed = False
        self.encoder: Encoder
        self.sender: Sender
        self.run_plan: PlanRunner
        """These three exist once started; the sync producer, which hosts this one, uses them too."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Get ready to send; raises NoNameServer when no address is known. The first send does it too."""
        async with self._starting:
            if self._instance is not None:
                return
            instance = await ClientInstance.acquire(self.config, clock=self._clock)
            self._loop = asyncio.get_running_loop()
            self.encoder = Encoder(self.config, UniqKeys(discovery.local_ip(), os.getpid(), self._clock))
            self.sender = Sender(self.config, instance.routes, instance.nameservers, self._clock, self._hooks)
            self._gate = AsyncGate(InFlight(self.config.in_flight_max, self.config.in_flight_bytes_max))
            self.run_plan = instance.driver.run
            self._closed = False
            instance.join(self)
            self._instance = instance

    async def close(self) -> None:
        """Let unanswered sends finish, leave the group, close; returns within `close_timeout_s` and a second."""
        instance, self._instance = self._instance, None
        self._closed = True
        if instance is None:
            return
        try:
            await self._gate.wait_empty(self.config.close_timeout_s)
            await instance.leave(self)
        finally:
            await instance.release()

    async def send(
        self,
        message: Message | Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
        timeout_s: float | None = None,
    ) -> SendResult:
        """Send and wait for the broker's answer; a list of messages is one batch.

        `queue` names the queue, `selector` chooses one from (queues, message, arg); otherwise they take turns.
        Raises BrokerRefused, SendTimeout, SendFailed, NoRoute, NoBroker, NoNameServer.
        """
        if self._instance is None or asyncio.get_running_loop() is not self._loop:
            await self._ready()
        outgoing = self.encoder.encode(message)
        choose = chooser(message, queue, selector, arg)
        gate = self._gate
        size = outgoing.size
        if not gate.try_enter(size):
            await gate.enter(size, self.config.send_timeout_s if timeout_s is None else timeout_s)
        try:
            result = await self.run_plan(self.sender.send(outgoing, choose=choose, timeout_s=timeout_s))
        finally:
            gate.leave(size)
        assert result is not None, "only oneway sends have no result"
        return result

    async def send_oneway(
        self,
        message: Message | Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
    ) -> None:
        """Send without an answer: the quickest way, and a message may get lost. Waits for a slow broker only."""
        await self._ready()
        outgoing = self.encoder.encode(message)
        choose = chooser(message, queue, selector, arg)
        await self.run_plan(self.sender.send(outgoing, SendMode.ONEWAY, choose=choose))

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues a topic can be written to, as selectors get them."""
        await self._ready()
        full = self.config.full_topic(topic)
        known = await self.run_plan(self.sender.publish_route(full, self.config.call_timeout_s))
        plain = without_namespace(full, self.config.namespace) if self.config.namespace else full
        return [MessageQueue(plain, queue.broker_name, queue.queue_id) for queue in known.publish]

    def heartbeat(self) -> Membership:
        """What brokers learn of us every 30 s (called by the client instance)."""
        return Membership(producer_group=self.config.full_group)

    async def _ready(self) -> None:
        if self._instance is not None:
            if asyncio.get_running_loop() is self._loop:
                return
            raise ClientError(
                f"producer {self.config.group!r} runs on another event loop: use it there, or make one here"
            )
        if self._closed:
            raise ClientClosed(f"producer {self.config.group!r} is closed: start() it again to send")
        await self.start()
