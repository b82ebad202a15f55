"""Listeners as an application: declared with decorators, started and stopped together.

    app = App(nameserver="127.0.0.1:9876")

    @app.listener(topic="orders", group="billing", tags="created || paid", concurrency=8)
    def bill(message): ...

    @app.listener(topic="payments", group="ledger", orderly=True)
    async def book(message): ...

    app.run()                       # or, from a shell: rocketeer run module:app

Functions run in threads, coroutine functions on the loop. `async with app:` starts it inside another program, a
web application's lifespan for example.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, Unpack

from rocketeer.client.aio.consuming import ListenerFunction, check_listener
from rocketeer.client.aio.push_consumer import PushConsumer
from rocketeer.client.core.allocate import AVERAGELY, Strategy
from rocketeer.client.core.codecs import JSON, Codec
from rocketeer.client.core.config import ConsumerConfig, ConsumerOptions
from rocketeer.client.core.option_types import known_options
from rocketeer.client.core.retry_policy import DEFAULT_RETRY, RetryPolicy
from rocketeer.client.lifetime import StartedAsync, stop_signals
from rocketeer.client.sync.producer import Producer
from rocketeer.errors import ClientError, ConfigError
from rocketeer.filter.subscribing import subscription_of
from rocketeer.model.subscription import SUB_ALL

log = logging.getLogger(__name__)

F = TypeVar("F", bound=ListenerFunction)
H = TypeVar("H", bound=Callable[[], Any])
Hook = Callable[[], Awaitable[Any] | Any]


@dataclass(slots=True)
class _Group:
    """One consumer: the listeners of a group on several topics share it, and so must its settings."""

    settings: dict[str, Any]
    listeners: dict[str, tuple[ListenerFunction, str, str | None, RetryPolicy]] = field(default_factory=dict)


class App(StartedAsync):
    """`producer_group` is the group `app.producer` sends as; `codec` and the options are for all listeners."""

    def __init__(
        self,
        *,
        producer_group: str = "rocketeer-app",
        codec: Codec = JSON,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self._codec = codec
        known_options(ConsumerConfig, options)
        self._nameserver = options.pop("nameserver", None)
        self._producer_group = producer_group
        self._options: dict[str, Any] = dict(options)
        self._groups: dict[str, _Group] = {}
        self._startup: list[Hook] = []
        self._shutdown: list[Hook] = []
        self._producer: Producer | None = None
        self._running: list[PushConsumer] = []
        self._started = False
        self._stop: asyncio.Event | None = None

    # --- declaring ---------------------------------------------------------------------------

    def listener(
        self,
        *,
        topic: str,
        group: str,
        tags: str = SUB_ALL,
        sql: str | None = None,
        retry: RetryPolicy = DEFAULT_RETRY,
        orderly: bool = False,
        strategy: Strategy = AVERAGELY,
        **options: Unpack[ConsumerOptions],
    ) -> Callable[[F], F]:
        """Give the messages of a topic to the function below, as a member of the group.

        `sql` filters by properties instead of tags: `sql="price > 10 AND color = 'red'"`. `retry` says what becomes
        of messages the function fails at.

        A group may listen to several topics, with the same settings for all. Options are the fields of
        `ConsumerConfig`, and count more than the app's.
        """
        known_options(ConsumerConfig, options)
        settings: dict[str, Any] = {
            "orderly": orderly,
            "strategy": strategy,
            "codec": self._codec,
            **self._options,
            **options,
        }

        def declare(function: F) -> F:
            if self._started:
                raise ClientError("the app is running: declare listeners before")
            check_listener(topic, function)
            known = self._groups.setdefault(group, _Group(settings))
            if known.settings != settings:
                raise ConfigError(
                    f"group {group!r} has listeners with different settings: {known.settings}, {settings}"
                )
            if topic in known.listeners:
                raise ConfigError(
                    f"group {group!r} has two listeners for topic {topic!r}: one group, one listener"
                )
            subscription_of(topic, tags, sql)  # a wrong expression is told here, where it is written
            known.listeners[topic] = (function, tags, sql, retry)
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

    @property
    def producer(self) -> Producer:
        """For listeners and hooks that send; started when first used, closed with the app."""
        if self._producer is None:
            self._producer = Producer(self._producer_group, nameserver=self._nameserver, codec=self._codec)
        return self._producer

    @property
    def consumers(self) -> tuple[PushConsumer, ...]:
        """Those running now."""
        return tuple(self._running)

    # --- running -----------------------------------------------------------------------------

    async def start(self) -> None:
        """Hooks first, then all consumers; when one cannot start, none stays."""
        if self._started:
            return
        if not self._groups:
            raise ClientError("the app has no listener: declare one with @app.listener(topic=, group=)")
        self._started = True
        try:
            for hook in self._startup:
                await _call(hook)
            for name, group in self._groups.items():
                consumer = PushConsumer(name, **{"nameserver": self._nameserver, **group.settings})
                for topic, (function, tags, sql, retry) in group.listeners.items():
                    consumer.subscribe(topic, function, tags=tags, sql=sql, retry=retry)
                await consumer.start()
                self._running.append(consumer)
        except BaseException:
            await self.close()
            raise
        log.info("app started groups=%s", ",".join(self._groups))

    async def close(self) -> None:
        """Consumers finish what they have in hand and leave, then the hooks; an error in one hook skips no other."""
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

    async def serve(self) -> None:
        """Run until Ctrl-C, SIGTERM, `close` or cancellation."""
        with stop_signals() as self._stop:
            try:
                await self.start()
                await self._stop.wait()
            finally:
                await self.close()

    def run(self, *, nameserver: str | None = None) -> None:
        """`serve` on a loop of its own; `nameserver` counts more than the one the app was made with."""
        self._nameserver = nameserver or self._nameserver
        asyncio.run(self.serve())


async def _call(hook: Hook) -> None:
    if inspect.iscoroutinefunction(hook):
        await hook()
    else:
        outcome = await asyncio.to_thread(hook)
        if inspect.isawaitable(outcome):
            await outcome
