"""The producer on asyncio.

async with Producer("shop", nameserver="127.0.0.1:9876") as producer:
    print(await producer.send(Message("orders", b"...", tags="created", keys="42")))
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Unpack, cast

from rocketeer.client.aio import request_reply
from rocketeer.client.aio.instance import ClientInstance, Membership
from rocketeer.client.aio.producer_work import ProducerWork
from rocketeer.client.core.codecs import JSON, NOTHING, Codec, as_message, checked_codec
from rocketeer.client.core.config import ProducerConfig, ProducerOptions
from rocketeer.client.core.encoding import body_bytes
from rocketeer.client.core.hooks import SendHook, SendMode, checked_hooks
from rocketeer.client.core.middleware import Middleware, publishing
from rocketeer.client.core.option_types import known_options, listed
from rocketeer.client.core.publishing import send_with_middlewares_async
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.core.selectors import Selector
from rocketeer.client.core.send_result import SendResult
from rocketeer.client.lifetime import ContextManagedAsync
from rocketeer.client.plans.lookups import COUNT_MAX
from rocketeer.client.plans.queries import FOREVER_MS
from rocketeer.client.plans.recall import recall_plan
from rocketeer.client.plans.send import chooser
from rocketeer.client.plans.topics import put_topic_everywhere
from rocketeer.clock import Clock, SystemClock
from rocketeer.errors import ClientClosed, ClientError, ConfigError
from rocketeer.model.message import Message
from rocketeer.model.queue import MessageQueue
from rocketeer.model.topic import TopicConfig, check_topic, without_namespace


class Producer(ContextManagedAsync):
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
        self._work: ProducerWork | None = None
        self._starting = asyncio.Lock()
        self._closed = False

    async def start(self) -> None:
        """Get ready to send; raises NoNameServer when no address is known. The first send does it too."""
        async with self._starting:
            if self._work is not None:
                return
            instance = await ClientInstance.acquire(self.config, clock=self._clock)
            work = ProducerWork(instance, self.config, self._hooks, self._clock)
            self._closed = False
            instance.join(self)
            self._work = work

    async def close(self) -> None:
        """Let unanswered sends finish, leave the group, close; returns within `close_timeout_s` and a second."""
        if self._work is not None:
            self._work.instance.check_loop(f"producer {self.config.group!r}")
        work, self._work = self._work, None
        self._closed = True
        if work is not None:
            await work.close(self)

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
        work = self._work
        if work is None or asyncio.get_running_loop() is not work.loop:
            work = await self._ready()
        if value is not NOTHING or type(message) is not Message:
            message = as_message(message, value, self.codec)
        if self.around:
            return await self._publish(work, message, queue, selector, arg, timeout_s)
        batcher = work.batcher
        chosen = queue is not None or selector is not None or arg is not None
        if not chosen and batcher is not None and batcher.takes(message):
            assert isinstance(message, Message), "the batcher takes nothing else"
            assert work.shared is not None, "made with the batcher"
            if message.sharding_key is None:
                return await work.shared.share(message, None, timeout_s)
        return await work.send(message, chooser(message, queue, selector, arg), timeout_s)

    async def _publish(
        self,
        work: ProducerWork,
        message: Message | Sequence[Message],
        queue: MessageQueue | None,
        selector: Selector | None,
        arg: Any,
        timeout_s: float | None,
    ) -> SendResult:
        # Apart from `send`: what a lambda holds costs an object for each name, for every send.
        return await send_with_middlewares_async(
            self.around,
            self.config.group,
            message,
            lambda ready: work.send(ready, chooser(ready, queue, selector, arg), timeout_s),
        )

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
        work = await self._ready()
        if work.idempotent is not None:
            raise ClientError("an idempotent producer waits for every answer: use send")
        message = as_message(message, value, self.codec)

        async def leave(message: Message | Sequence[Message]) -> None:
            choose = chooser(message, queue, selector, arg)
            async with work.oneway_limit.place(body_bytes(message)):
                outgoing = work.encoder.encode(message)
                await work.run_plan(work.sender.send(outgoing, SendMode.ONEWAY, choose=choose))

        if self.around:
            await send_with_middlewares_async(self.around, self.config.group, message, leave, SendMode.ONEWAY)
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
        work = await self._ready()

        async def ask(ready: Message | Sequence[Message]) -> ReceivedMessage:
            return await request_reply.request(
                work.instance,
                work.encoder,
                work.sender,
                cast(Message, ready),
                choose=chooser(ready, queue, selector, arg),
                timeout_s=self.config.send_timeout_s if timeout_s is None else timeout_s,
            )

        if self.around:
            return await send_with_middlewares_async(self.around, self.config.group, message, ask)
        return await ask(message)

    async def reply(
        self, request: ReceivedMessage, body: bytes, *, timeout_s: float | None = None
    ) -> SendResult:
        """Answer a message that was sent with `request`; returns when who asked has the answer.

        Raises ClientError for a message nobody waits for an answer to, BrokerRefused when who asked has gone.
        """
        work = await self._ready()
        return await request_reply.reply(
            work.instance, work.encoder, work.sender, request, body, timeout_s=timeout_s
        )

    async def view_message(self, message_id: str, topic: str | None = None) -> ReceivedMessage:
        """The message of an id: the broker's (`offset_message_id`), or with `topic` also the sender's (`message_id`).

        Raises MessageNotFound.
        """
        work = await self._ready()
        return await work.run_plan(work.lookups.view(message_id, topic))

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
        work = await self._ready()
        plan = work.lookups.query(topic, key, begin_ms=begin_ms, end_ms=end_ms, max_count=max_count)
        return await work.run_plan(plan)

    async def recall(self, handle: str, *, timeout_s: float | None = None) -> str:
        """Take a timed message back before it is delivered, with the `recall_handle` of its `SendResult`.

        Returns its message id. Raises BadRecallHandle for a text that is none, and BrokerRefused when the message
        does not wait any more: it was delivered, or taken back already.
        """
        work = await self._ready()
        limit_s = self.config.send_timeout_s if timeout_s is None else timeout_s
        return await work.run_plan(recall_plan(work.sender, handle, limit_s))

    async def create_topic(self, topic: str, *, queues: int | None = None) -> list[MessageQueue]:
        """Make a topic with so many queues (`default_topic_queues`) on every broker; its queues.

        On brokers that have it already it gets this number. `Admin.update_topic` has more to say.
        Raises InvalidTopic, BrokerRefused.
        """
        work = await self._ready()
        check_topic(topic)
        count = self.config.default_topic_queues if queues is None else queues
        if count < 1:
            raise ConfigError(f"queues is {count}: a topic has one at least")
        made = TopicConfig(self.config.full_topic(topic), read_queues=count, write_queues=count)
        timeout_s = self.config.call_timeout_s
        await work.run_plan(put_topic_everywhere(work.instance.nameservers, made, timeout_s))
        await work.instance.refresh_route(made.name)
        return await self.queues(topic)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues a topic can be written to, as selectors get them."""
        work = await self._ready()
        full = self.config.full_topic(topic)
        known = await work.run_plan(work.sender.publish_route(full, self.config.call_timeout_s))
        plain = without_namespace(full, self.config.namespace) if self.config.namespace else full
        return [MessageQueue(plain, queue.broker_name, queue.queue_id) for queue in known.publish]

    async def next_sequence(self, queue: MessageQueue) -> int:
        """How many messages of this idempotent producer the queue has.

        One that starts again with its old `producer_id` learns so which of its messages are stored: the queue's
        first ones, so many.
        """
        work = await self._ready()
        if work.idempotent is None:
            raise ClientError("only an idempotent producer numbers its messages: give idempotent=True")
        full = MessageQueue(self.config.full_topic(queue.topic), queue.broker_name, queue.queue_id)
        await work.run_plan(work.sender.publish_route(full.topic, self.config.call_timeout_s))
        return await work.idempotent.next_sequence(full, self.config.send_timeout_s)

    def heartbeat(self) -> Membership:
        """What brokers learn of us every 30 s (called by the client instance)."""
        return Membership(producer_group=self.config.full_group)

    @property
    def working(self) -> ProducerWork:
        """The parts of the running producer. (Internal.)"""
        if self._work is None:
            raise ClientClosed(f"producer {self.config.group!r} is not running: start() it first")
        return self._work

    async def _ready(self) -> ProducerWork:
        if self._work is not None:
            self._work.instance.check_loop(f"producer {self.config.group!r}")
            return self._work
        if self._closed:
            raise ClientClosed(f"producer {self.config.group!r} is closed: start() it again to send")
        await self.start()
        return self.working
