"""The push consumer on asyncio: messages come to listeners, plain functions in threads, coroutines on the loop.

consumer = PushConsumer("billing", nameserver="127.0.0.1:9876")

@consumer.subscribe("orders", tags="created || paid")
async def bill(message): ...

await consumer.run()          # until Ctrl-C: finishes what is in hand, commits, leaves the group
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar, Unpack, overload

from rocketeer.client.aio.consuming import Listener, ListenerFunction
from rocketeer.client.aio.instance import ClientInstance, Membership
from rocketeer.client.aio.listener_factory import NO_OVERRIDES, make_listener
from rocketeer.client.aio.listener_hooks import with_hooks
from rocketeer.client.aio.push_work import PushWork
from rocketeer.client.aio.subscriptions import Subscriptions
from rocketeer.client.core.allocate import AVERAGELY, Strategy, checked_strategy
from rocketeer.client.core.codecs import JSON, Codec, checked_codec
from rocketeer.client.core.config import ConsumerConfig, ConsumerOptions
from rocketeer.client.core.consumer_rules import checked
from rocketeer.client.core.depends import Overrides
from rocketeer.client.core.hooks import ConsumeHook, checked_hooks
from rocketeer.client.core.middleware import Middleware
from rocketeer.client.core.option_types import known_options, listed
from rocketeer.client.core.retry_policy import DEFAULT_RETRY, RetryPolicy
from rocketeer.client.lifetime import ContextManagedAsync, start_unless, stop_signals
from rocketeer.clock import Clock, SystemClock
from rocketeer.errors import ClientClosed, ClientError, ConfigError
from rocketeer.model.queue import MessageQueue
from rocketeer.model.subscription import SUB_ALL, ConsumeType, MessageModel
from rocketeer.model.topic import check_topic
from rocketeer.protocol.bodies.heartbeat import ConsumerData

F = TypeVar("F", bound=ListenerFunction)


class PushConsumer(ContextManagedAsync):
    """A member of a consumer group. Options are the fields of `ConsumerConfig`.

    `orderly=True` consumes each queue in order, one message at a time; with `auto_commit=False` a listener says
    COMMIT or ROLLBACK itself. `strategy` deals out the queues: all members of a group must have the same.
    `offset_folder` is where a broadcasting consumer keeps its offsets. `hooks` see every call of a listener;
    `middlewares` are around it, the first one outermost; `dependency_overrides` says which function to call instead
    of another one in `Depends`.

    A listener is given what its parameter's annotation asks for: the message (also without annotation), `bytes`,
    `str`, or a value that `codec` decodes (a dataclass, msgspec Struct, TypedDict, pydantic model, dict ...). A body
    that does not decode goes to the dead letters at once. Further parameters are `ReceivedMessage`, `Context` or what
    `Depends` stands for.

    A listener that returns nothing has consumed the message; one that raises or returns RETRY gets it again
    later. With `consume_batch` over 1 it is given lists.
    """

    def __init__(
        self,
        group: str,
        *,
        orderly: bool = False,
        auto_commit: bool = True,
        strategy: Strategy = AVERAGELY,
        offset_folder: Path | str | None = None,
        hooks: Sequence[ConsumeHook] = (),
        middlewares: Sequence[Middleware] = (),
        dependency_overrides: Overrides = NO_OVERRIDES,
        codec: Codec = JSON,
        clock: Clock | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self._hooks = list(checked_hooks(hooks, "before_consume", "after_consume"))
        self._middlewares = listed("middlewares", middlewares)
        self._overrides = dependency_overrides
        self._codec = checked_codec(codec)
        self.config = checked(ConsumerConfig(group, **known_options(ConsumerConfig, options)))
        self.orderly = orderly
        self.auto_commit = auto_commit
        self._strategy = checked_strategy(strategy)
        self._offset_folder = None if offset_folder is None else Path(offset_folder)
        self._clock = clock or SystemClock()
        self._subscriptions = Subscriptions(self.config, self._clock, with_retries=True)
        self._listeners: dict[str, Listener] = {}
        self._functions: dict[str, ListenerFunction] = {}
        """As the user gave them, of the topics that are subscribed."""
        self._running: PushWork | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting = asyncio.Lock()
        self._stop: asyncio.Event | None = None

    # --- what to consume ---------------------------------------------------------------------

    @overload
    def subscribe(
        self,
        topic: str,
        listener: None = None,
        *,
        tags: str = SUB_ALL,
        sql: str | None = None,
        retry: RetryPolicy = DEFAULT_RETRY,
        middlewares: Sequence[Middleware] = (),
        replace: bool = False,
    ) -> Callable[[F], F]: ...

    @overload
    def subscribe(
        self,
        topic: str,
        listener: F,
        *,
        tags: str = SUB_ALL,
        sql: str | None = None,
        retry: RetryPolicy = DEFAULT_RETRY,
        middlewares: Sequence[Middleware] = (),
        replace: bool = False,
    ) -> F: ...

    def subscribe(
        self,
        topic: str,
        listener: F | None = None,
        *,
        tags: str = SUB_ALL,
        sql: str | None = None,
        retry: RetryPolicy = DEFAULT_RETRY,
        middlewares: Sequence[Middleware] = (),
        replace: bool = False,
    ) -> F | Callable[[F], F]:
        """Give the topic's messages to a function; with other tags, change them. Any time.

        A topic has one listener: another one takes its place only with `replace=True`. `retry` says what becomes of
        messages it fails at, by what it raises. `middlewares` are around this listener, inside the consumer's.

        `sql` filters by properties instead of tags: `sql="price > 10 AND color = 'red'"`. BadSqlExpression says
        where an expression is wrong.
        """
        check_topic(topic)

        def put(function: F) -> F:
            taken = make_listener(
                topic,
                function,
                self.config,
                codec=self._codec,
                retry=retry,
                middlewares=(*self._middlewares, *listed("middlewares", middlewares)),
                overrides=self._overrides,
            )
            before = self._functions.get(self.config.full_topic(topic), function)
            if before != function and not replace:
                raise ConfigError(
                    f"topic {topic!r} has a listener already, {before!r}: one group, one listener for a topic "
                    "(replace=True puts this one in its place)"
                )
            full = self._subscriptions.add(topic, tags, sql)
            self._functions[full] = function
            if self._hooks or self.config.trace:
                taken = with_hooks(taken, self.config, self._hooks)
            self._listeners[full] = taken
            self._subscription_changed(full)
            return function

        return put if listener is None else put(listener)

    def unsubscribe(self, topic: str) -> None:
        """Consume the topic no longer."""
        full = self._subscriptions.remove(topic)
        self._functions.pop(full, None)
        self._subscription_changed(full)

    def share_listener(self, topic: str, other: str) -> None:
        """Give the topic's listener also retries that name another topic as their first one. (Internal.)"""
        listeners = self._listeners
        listeners[self.config.full_topic(other)] = listeners[self.config.full_topic(topic)]

    def _subscription_changed(self, full_topic: str) -> None:
        """Also called from other threads: the sync consumer hosts this one."""
        running, loop = self._running, self._loop
        if running is not None and loop is not None:
            asyncio.run_coroutine_threadsafe(running.subscription_changed(full_topic), loop)

    # --- coming and going --------------------------------------------------------------------

    async def start(self) -> None:
        """Join the group and begin to consume; raises NoNameServer when none answers.

        A topic that does not exist yet is no error: the log says so, and it is consumed once it does.
        """
        async with self._starting:
            if self._running is not None:
                self._running.instance.check_loop(f"consumer {self.config.group!r}")
                return
            if not self._listeners:
                raise ClientError(
                    f"consumer {self.config.group!r} has no listener: subscribe(topic) before start"
                )
            broadcasting = self.config.message_model is MessageModel.BROADCASTING
            instance = await ClientInstance.acquire(self.config, clock=self._clock, keep_default=broadcasting)
            running = PushWork(
                instance,
                self.config,
                member=self,
                subscriptions=self._subscriptions,
                listeners=self._listeners,
                strategy=self._strategy,
                ordered=(self.auto_commit,) if self.orderly else None,
                offset_folder=self._offset_folder,
                hooks=self._hooks,
            )
            try:
                await running.start()
            except BaseException:
                await running.close()
                raise
            self._running = running
            self._loop = asyncio.get_running_loop()

    async def close(self) -> None:
        """Finish what is in hand, commit, leave the group; returns within `close_timeout_s` and a few seconds."""
        if self._running is not None:
            self._running.instance.check_loop(f"consumer {self.config.group!r}")
        running, self._running = self._running, None
        if self._stop is not None:
            self._stop.set()
        if running is not None:
            await running.close()

    async def run(self) -> None:
        """Start, consume until Ctrl-C, SIGTERM, `close` or cancellation, and close."""
        with stop_signals() as self._stop:
            try:
                await start_unless(self._stop, self.start())
                await self._stop.wait()
            finally:
                await self.close()

    def abandon(self) -> None:
        """After a fork, in the child: what runs is the parent's."""
        self._running = None
        self._starting = asyncio.Lock()

    def pause(self) -> None:
        """Begin no more messages until `resume`; membership and queues stay."""
        self._started().pause()

    def resume(self) -> None:
        """Begin messages again after `pause`."""
        self._started().resume()

    # --- to look at --------------------------------------------------------------------------

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues in this member's hands now, the retry topic's included."""
        return sorted(self._running.assigned.queues()) if self._running is not None else []

    @property
    def reaches_brokers(self) -> bool:
        """Whether it runs and a broker has answered the last heartbeat, unless its topics have no broker yet."""
        return self._running is not None and self._running.instance.reaches_brokers

    @property
    def client_id(self) -> str:
        """How brokers and the other members know us."""
        return self._started().instance.client_id

    async def commit(self) -> None:
        """Store the offsets now, rather than in a few seconds."""
        await self._started().offsets.store()

    def _started(self) -> PushWork:
        if self._running is None:
            raise ClientClosed(f"consumer {self.config.group!r} is not running: start() it first")
        return self._running

    def heartbeat(self) -> Membership:
        """What brokers learn of us every 30 s (called by the client instance)."""
        return Membership(
            consumer=ConsumerData(
                self.config.full_group,
                ConsumeType.CONSUME_PASSIVELY,
                self.config.message_model,
                self.config.consume_from,
                tuple(self._subscriptions.by_topic.values()),
                self.config.unit_mode,
            )
        )
