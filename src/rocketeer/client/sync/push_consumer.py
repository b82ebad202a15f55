# Written by tools/make_sync.py from client/aio/push_consumer.py: change that, then `make sync`.
"""The push consumer for threads: messages come to listeners, plain functions in threads, coroutines on the loop.

consumer = PushConsumer("billing", nameserver="127.0.0.1:9876")

@consumer.subscribe("orders", tags="created || paid")
def bill(message): ...

consumer.run()          # until Ctrl-C: finishes what is in hand, commits, leaves the group
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Unpack, overload

from rocketeer.client.aio import push_consumer as aio
from rocketeer.client.aio.listener_factory import NO_OVERRIDES
from rocketeer.client.aio.push_consumer import F
from rocketeer.client.core.allocate import AVERAGELY, Strategy
from rocketeer.client.core.codecs import JSON, Codec
from rocketeer.client.core.config import ConsumerOptions
from rocketeer.client.core.depends import Overrides
from rocketeer.client.core.hooks import ConsumeHook
from rocketeer.client.core.middleware import Middleware
from rocketeer.client.core.retry_policy import DEFAULT_RETRY, RetryPolicy
from rocketeer.client.sync.push_consumer_base import PushConsumerBase
from rocketeer.clock import Clock
from rocketeer.model.queue import MessageQueue
from rocketeer.model.subscription import SUB_ALL


class PushConsumer(PushConsumerBase):
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
        self._set_up(
            aio.PushConsumer(
                group,
                orderly=orderly,
                auto_commit=auto_commit,
                strategy=strategy,
                offset_folder=offset_folder,
                hooks=hooks,
                middlewares=middlewares,
                dependency_overrides=dependency_overrides,
                codec=codec,
                clock=clock,
                **options,
            )
        )

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
        return self._hosted.subscribe(
            topic, listener, tags=tags, sql=sql, retry=retry, middlewares=middlewares, replace=replace
        )

    def unsubscribe(self, topic: str) -> None:
        """Consume the topic no longer."""
        return self._hosted.unsubscribe(topic)

    def start(self) -> None:
        """Join the group and begin to consume; raises NoNameServer when none answers.

        A topic that does not exist yet is no error: the log says so, and it is consumed once it does.
        """
        return self._start()

    def close(self) -> None:
        """Finish what is in hand, commit, leave the group; returns within `close_timeout_s` and a few seconds."""
        return self._close()

    def run(self) -> None:
        """Start, consume until Ctrl-C, SIGTERM, `close` or cancellation, and close."""
        return self._run()

    def pause(self) -> None:
        """Begin no more messages until `resume`; membership and queues stay."""
        return self._do(lambda: self._hosted.pause())

    def resume(self) -> None:
        """Begin messages again after `pause`."""
        return self._do(lambda: self._hosted.resume())

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues in this member's hands now, the retry topic's included."""
        return self._queues()

    @property
    def reaches_brokers(self) -> bool:
        """Whether it runs and a broker has answered the last heartbeat, unless its topics have no broker yet."""
        return self._hosted.reaches_brokers

    @property
    def client_id(self) -> str:
        """How brokers and the other members know us."""
        return self._hosted.client_id

    def commit(self) -> None:
        """Store the offsets now, rather than in a few seconds."""
        return self._call(self._hosted.commit())
