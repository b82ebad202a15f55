"""The producer on asyncio.

async with Producer("shop", nameserver="127.0.0.1:9876") as producer:
    print(await producer.send(Message("orders", b"...", tags="created", keys="42")))
"""

import asyncio
import os
from collections.abc import Sequence
from typing import Any, Unpack, cast

from rocketeer.client import discovery
from rocketeer.client.aio import request_reply
from rocketeer.client.aio.batching import Batcher
from rocketeer.client.aio.drivers import PlanRunner
from rocketeer.client.aio.idempotent import IdempotentSender
from rocketeer.client.aio.instance import ClientInstance, Membership
from rocketeer.client.aio.queue_lines import Turn
from rocketeer.client.aio.send_limit import AsyncSendLimit
from rocketeer.client.aio.shared_send import SharedSends
from rocketeer.client.aio.tracing import Tracer
from rocketeer.client.core.codecs import JSON, NOTHING, Codec, as_message, checked_codec
from rocketeer.client.core.config import ProducerConfig, ProducerOptions
from rocketeer.client.core.encoding import Encoder, Outgoing, body_bytes
from rocketeer.client.core.hooks import SendHook, SendMode, checked_hooks
from rocketeer.client.core.in_flight import InFlight, oneway_in_flight, stalled_s
from rocketeer.client.core.middleware import Middleware, publishing
from rocketeer.client.core.option_types import known_options, listed
from rocketeer.client.core.publishing import published_async
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.core.selectors import Selector
from rocketeer.client.core.send_result import SendResult
from rocketeer.client.lifetime import StartedAsync
from rocketeer.client.plans.brokers import Cluster
from rocketeer.client.plans.lookups import COUNT_MAX, Lookups
from rocketeer.client.plans.queries import FOREVER_MS
from rocketeer.client.plans.recall import recall_plan
from rocketeer.client.plans.send import Choose, Fixed, Sender, chooser
from rocketeer.client.plans.topics import put_topic_everywhere
from rocketeer.client.secure import ConnectionSecurity
from rocketeer.clock import Clock, SystemClock
from rocketeer.errors import ClientClosed, ClientError, ConfigError
from rocketeer.model.message import Message
from rocketeer.model.queue import MessageQueue
from rocketeer.model.topic import TopicConfig, check_topic, without_namespace
from rocketeer.record.ids import UniqKeys


class Producer(StartedAsync):
    """Sends messages; one is enough for a whole application.

    Options are the fields of `ProducerConfig`. Sends may run side by side: those of one moment share their
    writes, and above `in_flight_max` unanswered ones the next waits for its turn. `hooks` see every attempt,
    `middlewares` are around every send, the first one outermost.
    """

    def __init__(
        self,
        group: str,
        *,
        hooks: Sequence[SendHook] = (),
        middlewares: Sequence[Middleware] = (),
        codec: Codec = JSON,
        clock: Clock | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        self.config = ProducerConfig(group, **known_options(ProducerConfig, options))
        self._hooks = checked_hooks(hooks, "before_send", "after_send")
        self.around = publishing(listed("middlewares", middlewares))
        self.codec = checked_codec(codec)
        self._clock = clock or SystemClock()
        self._instance: ClientInstance | None = None
        self._tracer: Tracer | None = None
        self._starting = asyncio.Lock()
        self._closed = False
        self.encoder: Encoder
        self.sender: Sender
        self.run_plan: PlanRunner
        self.security: ConnectionSecurity
        self.lookups: Lookups
        self.batcher: Batcher | None
        """These exist once started; the sync producer, which hosts this one, uses them too."""

    async def start(self) -> None:
        """Get ready to send; raises NoNameServer when no address is known. The first send does it too."""
        async with self._starting:
            if self._instance is not None:
                return
            instance = await ClientInstance.acquire(self.config, clock=self._clock)
            self._loop = asyncio.get_running_loop()
            self.encoder = Encoder(self.config, UniqKeys(discovery.local_ip(), os.getpid(), self._clock))
            hooks = self._hooks
            if self.config.trace:
                self._tracer = Tracer(self.config, instance, self._clock, "PRODUCE")
                hooks = (*hooks, self._tracer.send_hook())
            self.sender = Sender(self.config, instance.routes, instance.nameservers, self._clock, hooks)
            self._idempotent: IdempotentSender | None = None
            if self.config.idempotent:
                self._idempotent = IdempotentSender(self.sender, instance.driver.run, self.config.producer_id)
            wait_s = stalled_s(self.config)
            self._send_limit = AsyncSendLimit(
                InFlight(self.config.in_flight_max, self.config.in_flight_bytes_max), wait_s
            )
            self.batcher = None
            if self.config.batch_bytes:
                self.batcher = Batcher(self.config, self.sender, self.encoder, self.store)
                self._shared = SharedSends(self._loop, self._send_limit, self.batcher)
            self._oneway_limit = AsyncSendLimit(oneway_in_flight(self.config), wait_s)
            self.run_plan = instance.driver.run
            self.security = instance.security
            cluster = Cluster(instance.routes, instance.nameservers, self.config.call_timeout_s)
            self.lookups = Lookups(self.config, cluster, self._clock)
            self._closed = False
            instance.join(self)
            self._instance = instance

    async def close(self) -> None:
        """Let unanswered sends finish, leave the group, close; returns within `close_timeout_s` and a second."""
        if self._instance is not None:
            self._instance.check_loop(f"producer {self.config.group!r}")
        instance, self._instance = self._instance, None
        self._closed = True
        if instance is None:
            return
        try:
            limits = (self._send_limit, self._oneway_limit)
            for limit in limits:
                limit.close()
            await asyncio.gather(*(limit.wait_empty(self.config.close_timeout_s) for limit in limits))
            if self._tracer is not None:
                await self._tracer.close(self.config.close_timeout_s)
            await instance.leave(self)
        finally:
            await instance.release()
            if self.batcher is not None:  # others may still use the connections
                self.batcher.close()

    async def send(
        self,
        message: Message | Sequence[Message] | str,
        value: Any = NOTHING,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
        timeout_s: float | None = None,
    ) -> SendResult:
        """Send and wait for the broker's answer; a list of messages is one batch.

        `send("orders", order)` sends a value: text, bytes, or what the producer's `codec` encodes (JSON).

        `queue` names the queue, `selector` chooses one from (queues, message, arg); otherwise they take turns.
        With `in_flight_max` sends unanswered this first waits for a place (TooManyInFlight: see `place_timeout_s`);
        then `timeout_s` counts (`send_timeout_s` unless given), which all attempts share.
        Raises BrokerRefused, SendTimeout, SendFailed, NoRoute, NoBroker, NoNameServer.
        """
        if self._instance is None or asyncio.get_running_loop() is not self._loop:
            await self._ready()
        if value is not NOTHING or type(message) is not Message:
            message = as_message(message, value, self.codec)
        if self.around:
            return await self._publish(message, queue, selector, arg, timeout_s)
        batcher = self.batcher
        chosen = queue is not None or selector is not None or arg is not None
        if not chosen and batcher is not None and batcher.takes(message):
            assert isinstance(message, Message), "the batcher takes nothing else"
            if message.sharding_key is None:
                return await self._shared.share(message, None, timeout_s)
        return await self._send(message, chooser(message, queue, selector, arg), timeout_s)

    async def _publish(
        self,
        message: Message | Sequence[Message],
        queue: MessageQueue | None,
        selector: Selector | None,
        arg: Any,
        timeout_s: float | None,
    ) -> SendResult:
        # Apart from `send`: what a lambda holds costs an object for each name, for every send.
        return await published_async(
            self.around,
            self.config.group,
            message,
            lambda ready: self._send(ready, chooser(ready, queue, selector, arg), timeout_s),
        )

    async def _send(
        self, message: Message | Sequence[Message], choose: Choose | None, timeout_s: float | None
    ) -> SendResult:
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
        return await self._shared.share(message, chosen, timeout_s)

    async def _send_alone(
        self,
        message: Message | Sequence[Message],
        choose: Choose | None,
        timeout_s: float | None,
        turn: Turn | None = None,
    ) -> SendResult:
        """In a request of its own, and where a queue was chosen in its turn."""
        if turn is None:
            async with self._send_limit.place(body_bytes(message)):
                # Encoded when there is a place for it: those who wait hold their message and nothing else.
                return await self.store(self.encoder.encode(message), choose, timeout_s)
        try:
            async with self._send_limit.place(body_bytes(message), turn.line_up):
                outgoing = self.encoder.encode(message)
                return await self.store(outgoing, choose, await turn.begin(timeout_s))
        finally:
            turn.end()

    async def store(
        self,
        outgoing: Outgoing,
        choose: Choose | None,
        timeout_s: float | None,
        mode: SendMode = SendMode.SYNC,
    ) -> SendResult:
        """Bring a request to a broker, numbered when idempotent. (Internal: `send` makes the request.)"""
        if self._idempotent is not None:
            limit_s = self.config.send_timeout_s if timeout_s is None else timeout_s
            return await self._idempotent.send(outgoing, choose, limit_s)
        result = await self.run_plan(self.sender.send(outgoing, mode, choose=choose, timeout_s=timeout_s))
        assert result is not None, "only oneway sends have no result"
        return result

    async def send_oneway(
        self,
        message: Message | Sequence[Message] | str,
        value: Any = NOTHING,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
    ) -> None:
        """Send without an answer: the quickest way, and a message may get lost. Waits for a slow broker only.

        Raises SendTimeout when the broker does not read, TooManyInFlight when too many sends wait for that.
        """
        await self._ready()
        if self._idempotent is not None:
            raise ClientError("an idempotent producer waits for every answer: use send")
        message = as_message(message, value, self.codec)

        async def leave(message: Message | Sequence[Message]) -> None:
            choose = chooser(message, queue, selector, arg)
            async with self._oneway_limit.place(body_bytes(message)):
                outgoing = self.encoder.encode(message)
                await self.run_plan(self.sender.send(outgoing, SendMode.ONEWAY, choose=choose))

        if self.around:
            await published_async(self.around, self.config.group, message, leave, SendMode.ONEWAY)
        else:
            await leave(message)

    async def request(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
        timeout_s: float | None = None,
    ) -> ReceivedMessage:
        """Send a question and wait for its answer, which a consumer of the topic gives with `reply`.

        Raises RequestTimeout when none came in `timeout_s` (`send_timeout_s` unless given), or what `send` does.
        """
        instance = await self._ready()

        async def ask(ready: Message | Sequence[Message]) -> ReceivedMessage:
            return await request_reply.request(
                instance,
                self.encoder,
                self.sender,
                cast(Message, ready),
                choose=chooser(ready, queue, selector, arg),
                timeout_s=self.config.send_timeout_s if timeout_s is None else timeout_s,
            )

        if self.around:
            return await published_async(self.around, self.config.group, message, ask)
        return await ask(message)

    async def reply(
        self, request: ReceivedMessage, body: bytes, *, timeout_s: float | None = None
    ) -> SendResult:
        """Answer a message that was sent with `request`; returns when who asked has the answer.

        Raises ClientError for a message nobody waits for an answer to, BrokerRefused when who asked has gone.
        """
        instance = await self._ready()
        return await request_reply.reply(
            instance, self.encoder, self.sender, request, body, timeout_s=timeout_s
        )

    async def view_message(self, message_id: str, topic: str | None = None) -> ReceivedMessage:
        """The message of an id: the broker's (`offset_message_id`), or with `topic` also the sender's (`message_id`).

        Raises MessageNotFound.
        """
        await self._ready()
        plan = self.lookups.view(message_id, topic)
        return await self.run_plan(plan)

    async def query_messages(
        self,
        topic: str,
        key: str,
        *,
        begin_ms: int = 0,
        end_ms: int = FOREVER_MS,
        max_count: int = COUNT_MAX,
    ) -> list[ReceivedMessage]:
        """The messages with this key stored between the two times, oldest first; at most `max_count` per broker."""
        await self._ready()
        plan = self.lookups.query(topic, key, begin_ms=begin_ms, end_ms=end_ms, max_count=max_count)
        return await self.run_plan(plan)

    async def recall(self, handle: str, *, timeout_s: float | None = None) -> str:
        """Take a timed message back before it is delivered, with the `recall_handle` of its `SendResult`.

        Returns its message id. Raises BadRecallHandle for a text that is none, and BrokerRefused when the message
        does not wait any more: it was delivered, or taken back already.
        """
        await self._ready()
        limit_s = self.config.send_timeout_s if timeout_s is None else timeout_s
        return await self.run_plan(recall_plan(self.sender, handle, limit_s))

    async def create_topic(self, topic: str, *, queues: int | None = None) -> list[MessageQueue]:
        """Make a topic with so many queues (`default_topic_queues`) on every broker; its queues.

        On brokers that have it already it gets this number. `Admin.update_topic` has more to say.
        Raises InvalidTopic, BrokerRefused.
        """
        instance = await self._ready()
        check_topic(topic)
        count = self.config.default_topic_queues if queues is None else queues
        if count < 1:
            raise ConfigError(f"queues is {count}: a topic has one at least")
        made = TopicConfig(self.config.full_topic(topic), read_queues=count, write_queues=count)
        timeout_s = self.config.call_timeout_s
        await self.run_plan(put_topic_everywhere(instance.nameservers, made, timeout_s))
        await instance.refresh_route(made.name)
        return await self.queues(topic)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues a topic can be written to, as selectors get them."""
        await self._ready()
        full = self.config.full_topic(topic)
        known = await self.run_plan(self.sender.publish_route(full, self.config.call_timeout_s))
        plain = without_namespace(full, self.config.namespace) if self.config.namespace else full
        return [MessageQueue(plain, queue.broker_name, queue.queue_id) for queue in known.publish]

    async def next_sequence(self, queue: MessageQueue) -> int:
        """Of an idempotent producer: how many of its messages the queue has.

        One that starts again with its old `producer_id` learns so which of its messages are stored: the queue's
        first ones, so many.
        """
        await self._ready()
        if self._idempotent is None:
            raise ClientError("only an idempotent producer numbers its messages: give idempotent=True")
        full = MessageQueue(self.config.full_topic(queue.topic), queue.broker_name, queue.queue_id)
        await self.run_plan(self.sender.publish_route(full.topic, self.config.call_timeout_s))
        return await self._idempotent.next_sequence(full, self.config.send_timeout_s)

    def heartbeat(self) -> Membership:
        """What brokers learn of us every 30 s (called by the client instance)."""
        return Membership(producer_group=self.config.full_group)

    async def _ready(self) -> ClientInstance:
        if self._instance is not None:
            self._instance.check_loop(f"producer {self.config.group!r}")
            return self._instance
        if self._closed:
            raise ClientClosed(f"producer {self.config.group!r} is closed: start() it again to send")
        await self.start()
        assert self._instance is not None, "it was just started"
        return self._instance
