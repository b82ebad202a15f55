"""Listeners as an application: declared with decorators, started and stopped together.

    app = App(nameserver="127.0.0.1:9876", group="shop")

    @app.listener("orders", group="billing", tags="created || paid", concurrency=8)
    def bill(order: Order): ...

    @app.listener("payments", orderly=True, publish="receipts")
    async def book(payment: Payment) -> Receipt: ...

    @app.dead_letters("orders")
    def look(message): ...

    app.run()                       # or, from a shell: rocketeer run module:app

Functions run in threads, coroutine functions on the loop. `async with app:` starts it inside another program, a
web application's lifespan for example.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar, Unpack

from rocketeer.client.aio.consuming import ListenerFunction
from rocketeer.client.aio.listener_factory import check_listener
from rocketeer.client.aio.push_consumer import PushConsumer
from rocketeer.client.apps.dead_letters import dead_letter_consumer
from rocketeer.client.apps.declared import (
    APP_GROUP,
    DeadLetters,
    Declared,
    DeclaredGroup,
    add_listener,
    groups_of,
    named_groups,
)
from rocketeer.client.apps.publishing import as_listener, publishes, publishing_to
from rocketeer.client.apps.settings import AppSettings, parse_settings
from rocketeer.client.core.allocate import AVERAGELY, Strategy, checked_strategy
from rocketeer.client.core.codecs import JSON, Codec, checked_codec
from rocketeer.client.core.config import (
    ClientConfig,
    ConsumerConfig,
    ConsumerOptions,
    ProducerConfig,
    ProducerOptions,
)
from rocketeer.client.core.middleware import Middleware
from rocketeer.client.core.option_types import known_options, listed
from rocketeer.client.core.retry_policy import DEFAULT_RETRY, RetryPolicy, checked_retry
from rocketeer.client.lifetime import ContextManagedAsync, start_unless, stop_signals
from rocketeer.client.sync.producer import Producer
from rocketeer.errors import ClientError, ConfigError
from rocketeer.extras import users_code
from rocketeer.filter.subscribing import subscription_of
from rocketeer.model.subscription import SUB_ALL, MessageModel
from rocketeer.model.topic import check_topic

log = logging.getLogger(__name__)

F = TypeVar("F", bound=ListenerFunction)
H = TypeVar("H", bound=Callable[[], Any])
Hook = Callable[[], Awaitable[Any] | Any]

_SHARED = frozenset(each.name for each in fields(ClientConfig)) - {"group", "instance_name"}
"""Options of consumers that its producer has, too."""


class App(ContextManagedAsync):
    """`group` is the consumer group of listeners that name none, `producer_group` the one `app.producer` sends as.

    The options are a consumer's, for all listeners; those that producers have as well (`nameserver`, `tls` ...)
    count for `app.producer`, whose own are given as `producer={"send_timeout_s": 5}`. `middlewares` are around
    every listener and every send, the first one outermost; `codec` is for both, too. `dependency_overrides` says, for
    tests, which function to call instead of another one in `Depends`.
    """

    def __init__(
        self,
        *,
        group: str | None = None,
        producer_group: str = "rocketeer-app",
        producer: ProducerOptions | None = None,
        codec: Codec = JSON,
        middlewares: Sequence[Middleware] = (),
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self.codec = checked_codec(codec)
        self.dependency_overrides: dict[Callable[..., Any], Callable[..., Any]] = {}
        """Read when the app starts."""
        self._middlewares = listed("middlewares", middlewares)
        self._settings = AppSettings(
            dict(known_options(ConsumerConfig, options)),
            dict(known_options(ProducerConfig, producer or {})),
            group=group,
            producer_group=producer_group,
        )
        self._groups: dict[str, DeclaredGroup] = {}
        self._dead_letters: list[DeadLetters] = []
        self._startup: list[Hook] = []
        self._shutdown: list[Hook] = []
        self._publishes = False
        self._producer: Producer | None = None
        self._running: list[PushConsumer] = []
        self._started = False
        self._ready = False
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def __repr__(self) -> str:
        return f"<rocketeer.App group={self._settings.group!r} topics={', '.join(self.topics) or None}>"

    # --- declaring ---------------------------------------------------------------------------

    def listener(
        self,
        topic: str,
        *,
        group: str | None = None,
        tags: str = SUB_ALL,
        sql: str | None = None,
        publish: str | None = None,
        retry: RetryPolicy = DEFAULT_RETRY,
        middlewares: Sequence[Middleware] = (),
        orderly: bool = False,
        strategy: Strategy = AVERAGELY,
        **options: Unpack[ConsumerOptions],
    ) -> Callable[[F], F]:
        """Register the function below as the listener of a topic, in the given consumer group or the app's.

        `sql` filters by properties instead of tags: `sql="price > 10 AND color = 'red'"`. `publish` names a topic
        that what the function returns is sent to, before its message counts as consumed. `retry` says what becomes of
        messages the function fails at. `middlewares` are around this listener, inside the app's.

        A group may listen to several topics, with the same settings for all. Options are the fields of
        `ConsumerConfig`, and count more than the app's.
        """
        check_topic(topic)
        known_options(ConsumerConfig, options)

        def declare(function: F) -> F:
            self._check_declaring(topic, function)
            subscription_of(topic, tags, sql)  # a wrong expression is told here, where it is written
            called: Callable[..., Any] = function
            if publish is not None:
                called = self.publish(publish)(function)
            if publishes(called):
                called = as_listener(called)
            declared = Declared(
                topic, called, checked_retry(topic, retry), listed("middlewares", middlewares), tags, sql
            )
            add_listener(
                self._groups,
                group or APP_GROUP,
                DeclaredGroup(orderly, checked_strategy(strategy), dict(options)),
                declared,
            )
            return function

        return declare

    def publish(self, topic: str) -> Callable[[F], F]:
        """Send what the function below returns to the topic, whoever calls it: a value, or a `Message` as it is.

        Below `@app.listener(...)` it makes a listener answer; several may stand one below the other.
        """
        check_topic(topic)

        def declare(function: F) -> F:
            self._publishes = True
            return publishing_to(self, topic, function)

        return declare

    def dead_letters(
        self,
        topic: str,
        *,
        group: str | None = None,
        retry: RetryPolicy = DEFAULT_RETRY,
        middlewares: Sequence[Middleware] = (),
    ) -> Callable[[F], F]:
        """Give the function below the messages of the topic that a group gave up, as a listener gets them.

        Of `group`, or of all groups of this app that listen to the topic. Members of the group `GROUP-dead-letters`
        share them. `message.failure` says why the last try failed.
        """
        check_topic(topic)

        def declare(function: F) -> F:
            self._check_declaring(topic, function)
            self._dead_letters.append(
                DeadLetters(
                    Declared(
                        topic, function, checked_retry(topic, retry), listed("middlewares", middlewares)
                    ),
                    group,
                )
            )
            return function

        return declare

    def on_startup(self, hook: H) -> H:
        """Call the function, plain or async, before the first message comes."""
        self._startup.append(hook)
        return hook

    def on_shutdown(self, hook: H) -> H:
        """Call the function, plain or async, after the last message was consumed."""
        self._shutdown.append(hook)
        return hook

    def configure(self, settings: Mapping[str, Any] | AppSettings) -> None:
        """Set options from elsewhere; they count more than the code's. Before the start, in the form of the file.

        `app.configure({"nameserver": "mq:9876", "groups": {"billing": {"concurrency": 2}}})`
        """
        if self._started:
            raise ClientError("the app is running: configure it before")
        self._settings.update(settings if isinstance(settings, AppSettings) else parse_settings(settings))

    def configure_worker(self, number: int) -> None:
        """Append the worker's number to the instance names of broadcasting or named clients. (Internal.)"""
        settings = self._settings
        for options in (
            settings.options,
            *settings.groups.values(),
            *(each.options for each in self._groups.values()),
        ):
            broadcasts = (
                options.get("message_model") is MessageModel.BROADCASTING
            )  # whose offsets have the client's name
            if broadcasts or "instance_name" in options:
                options["instance_name"] = f"{options.get('instance_name', 'worker')}-{number}"

    def _check_declaring(self, topic: str, function: object) -> None:
        if self._started:
            raise ClientError("the app is running: declare listeners before")
        check_listener(topic, function)

    # --- to look at --------------------------------------------------------------------------

    @property
    def producer(self) -> Producer:
        """For listeners and hooks that send; started when first used, closed with the app."""
        if self._producer is None:
            settings = self._settings
            shared = {name: value for name, value in settings.options.items() if name in _SHARED}
            self._producer = Producer(
                settings.producer_group or "rocketeer-app",
                codec=self.codec,
                middlewares=self._middlewares,
                **{**shared, **settings.producer},
            )
        return self._producer

    @property
    def consumers(self) -> tuple[PushConsumer, ...]:
        """The running consumers."""
        return tuple(self._running)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that listeners are declared for."""
        return tuple(dict.fromkeys(topic for group in self._groups.values() for topic in group.listeners))

    @property
    def ready(self) -> bool:
        """Whether it consumes: it has started, does not stop, and each consumer reaches a broker, if there is one."""
        return self._ready and all(consumer.reaches_brokers for consumer in self._running)

    # --- running -----------------------------------------------------------------------------

    async def start(self) -> None:
        """Run the startup hooks, then start all consumers; when one cannot start, stop the others and raise."""
        if self._started:
            return
        if not self._groups and not self._dead_letters:
            raise ClientError("the app has no listener: declare one with @app.listener(topic, group=)")
        consumers = self._consumers()
        self._started = True
        try:
            for hook in self._startup:
                with users_code():
                    await _call(hook)
            if self._publishes:
                await asyncio.to_thread(self.producer.start)
            for consumer in consumers:
                await consumer.start()
                self._running.append(consumer)
        except BaseException:
            await self.close()
            raise
        self._ready = True
        log.info("app started groups=%s", ",".join(consumer.config.group for consumer in consumers))

    def _consumers(self) -> list[PushConsumer]:
        """Make the consumers that were declared and configured; raises ConfigError for impossible combinations."""
        settings = self._settings
        groups = named_groups(self._groups, settings.group)
        dead = groups_of(self._dead_letters, groups)
        for name in settings.groups:
            if name not in groups and name not in dead:
                there = ", ".join(groups)
                raise ConfigError(
                    f"the settings name the group {name!r}, which the app does not have: it has {there}"
                )
        made = []
        for name, group in groups.items():
            options = {**settings.options, **group.options, **settings.groups.get(name, {})}
            consumer = PushConsumer(
                name,
                orderly=group.orderly,
                strategy=group.strategy,
                codec=self.codec,
                middlewares=self._middlewares,
                dependency_overrides=self.dependency_overrides,
                **options,
            )
            for each in group.listeners.values():
                consumer.subscribe(
                    each.topic,
                    each.function,
                    tags=each.tags,
                    sql=each.sql,
                    retry=each.retry,
                    middlewares=each.middlewares,
                )
            made.append(consumer)
        for name, handlers in dead.items():
            made.append(
                dead_letter_consumer(
                    name,
                    handlers,
                    {**settings.options, **settings.groups.get(name, {})},
                    codec=self.codec,
                    middlewares=self._middlewares,
                    overrides=self.dependency_overrides,
                )
            )
        return made

    async def close(self) -> None:
        """Consumers finish what they have in hand and leave, then the hooks; an error in one hook skips no other."""
        self._ready = False
        if self._stop is not None:
            self._stop.set()
        if not self._started:
            return
        self._started = False
        running, self._running = self._running, []
        closing = (consumer.close() for consumer in running)
        outcomes: list[BaseException | None] = await asyncio.gather(*closing, return_exceptions=True)
        for hook in reversed(self._shutdown):
            try:
                await _call(hook)
            except Exception as error:
                outcomes.append(error)
        producer, self._producer = self._producer, None
        if producer is not None:
            await asyncio.to_thread(producer.close)
        for outcome in outcomes:
            if outcome is not None:
                log.error("app did not close cleanly", exc_info=outcome)

    def stop(self) -> None:
        """Have `serve` and `run` end, as Ctrl-C does; from any thread."""
        if self._stop is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)

    async def serve(self) -> None:
        """Run until Ctrl-C, SIGTERM, `stop`, `close` or cancellation."""
        self._loop = asyncio.get_running_loop()
        with stop_signals() as self._stop:
            try:
                await start_unless(self._stop, self.start())
                await self._stop.wait()
            finally:
                await self.close()

    def run(self, *, nameserver: str | None = None) -> None:
        """`serve` on a loop of its own; `nameserver` counts more than the one the app was made with."""
        if nameserver:
            self.configure({"nameserver": nameserver})
        asyncio.run(self.serve())


async def _call(hook: Hook) -> None:
    if inspect.iscoroutinefunction(hook):
        await hook()
    else:
        outcome = await asyncio.to_thread(hook)
        if inspect.isawaitable(outcome):
            await outcome
