"""The push consumer for threads.

    consumer = PushConsumer("billing", nameserver="127.0.0.1:9876")

    @consumer.subscribe("orders", tags="created || paid")
    def bill(message): ...

    consumer.run()          # Ctrl-C finishes what is in hand, commits, leaves the group

It hosts the consumer of `rocketeer.aio` on the loop thread; listeners run in threads of their own, coroutine
functions on the loop.
"""

import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar, Unpack, overload

from rocketeer.client.aio import push_consumer as aio
from rocketeer.client.aio.consuming import ListenerFunction
from rocketeer.client.core.allocate import AVERAGELY, Strategy
from rocketeer.client.core.config import ConsumerConfig, ConsumerOptions
from rocketeer.client.core.hooks import ConsumeHook
from rocketeer.client.lifetime import Started
from rocketeer.client.sync.host import SPARE_S, Host
from rocketeer.clock import Clock
from rocketeer.model.queue import MessageQueue
from rocketeer.model.subscription import SUB_ALL

F = TypeVar("F", bound=ListenerFunction)


class PushConsumer(Started):
    """A member of a consumer group. Options are the fields of `ConsumerConfig`.

    `orderly=True` consumes each queue in order, one message at a time; with `auto_commit=False` a listener says
    COMMIT or ROLLBACK itself. `strategy` deals out the queues: all members of a group must have the same.
    `offset_folder` is where a broadcasting consumer keeps its offsets. `hooks` see every call of a listener.

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
        offset_folder: Path | None = None,
        hooks: Sequence[ConsumeHook] = (),
        clock: Clock | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self._hosted = aio.PushConsumer(
            group,
            orderly=orderly,
            auto_commit=auto_commit,
            strategy=strategy,
            offset_folder=offset_folder,
            hooks=hooks,
            clock=clock,
            **options,
        )
        self._host = Host(group, self._hosted.abandon)
        self._stop = threading.Event()

    @property
    def config(self) -> ConsumerConfig:
        return self._hosted.config

    @overload
    def subscribe(
        self, topic: str, listener: None = None, *, tags: str = SUB_ALL, sql: str | None = None
    ) -> Callable[[F], F]: ...

    @overload
    def subscribe(self, topic: str, listener: F, *, tags: str = SUB_ALL, sql: str | None = None) -> F: ...

    def subscribe(
        self, topic: str, listener: Any = None, *, tags: str = SUB_ALL, sql: str | None = None
    ) -> Any:
        """Give the topic's messages to a function; with other tags or another function, change it. Any time.

        `sql` filters by properties instead of tags: `sql="price > 10 AND color = 'red'"`. BadSqlExpression says
        where an expression is wrong.
        """
        return self._hosted.subscribe(topic, listener, tags=tags, sql=sql)

    def unsubscribe(self, topic: str) -> None:
        """Consume the topic no longer."""
        self._hosted.unsubscribe(topic)

    def start(self) -> None:
        """Join the group and begin to consume; raises NoNameServer when none answers.

        A topic that does not exist yet is no error: the log says so, and it is consumed once it does.
        """
        self._stop.clear()
        self._host.start(self._hosted.start)

    def close(self) -> None:
        """Finish what is in hand, commit, leave the group; returns within `close_timeout_s` and a few seconds."""
        self._stop.set()
        self._host.close(self._hosted.close, self.config.close_timeout_s)

    def run(self) -> None:
        """Start, consume until Ctrl-C, SIGTERM or `close`, and close. A second Ctrl-C does not wait."""

        def stop(number: int, frame: FrameType | None) -> None:
            if self._stop.is_set():
                raise KeyboardInterrupt
            self._stop.set()

        before: dict[signal.Signals, Any] = {}
        if threading.current_thread() is threading.main_thread():
            before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        self._stop.clear()
        try:
            for number in before:
                signal.signal(number, stop)
            self._host.start(self._hosted.start)  # a signal may come while it starts: not forgotten
            self._stop.wait()
        finally:
            try:
                self.close()
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)

    def pause(self) -> None:
        """Begin no more messages until `resume`; membership and queues stay."""
        self._host.do(self._hosted.pause)

    def resume(self) -> None:
        self._host.do(self._hosted.resume)

    def commit(self) -> None:
        """Store the offsets now, rather than in a few seconds."""
        self._host.call(self._hosted.commit(), SPARE_S)

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues in this member's hands now, the retry topic's included."""
        return self._host.do(lambda: self._hosted.queues) if self._host.running else []

    @property
    def client_id(self) -> str:
        """How brokers and the other members know us."""
        return self._hosted.client_id
