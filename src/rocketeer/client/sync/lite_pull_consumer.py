"""The lite pull consumer for threads: subscribe or assign, then ask for messages when you want some.

consumer = LitePullConsumer("reports", nameserver="127.0.0.1:9876")
consumer.subscribe("orders")
with consumer:
    for message in consumer:        # or: for message in consumer.poll()
        ...
"""

from collections.abc import Collection, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self, Unpack

from rocketeer.client.aio import lite_pull_consumer as aio
from rocketeer.client.aio.lite_pull_consumer import POLL_S
from rocketeer.client.core.allocate import AVERAGELY, Strategy
from rocketeer.client.core.config import ConsumerConfig, ConsumerOptions
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.sync.host import SPARE_S, Host
from rocketeer.clock import Clock
from rocketeer.errors import ClientClosed
from rocketeer.model.queue import MessageQueue
from rocketeer.model.subscription import SUB_ALL


class LitePullConsumer:
    """Options are the fields of `ConsumerConfig`.

    With `subscribe` the members of the group share the queues; with `assign` this one reads just those it names.
    What `poll` gave counts as consumed when it is called again; what a loop over the consumer gave, when the
    loop asks for the next message. Offsets are stored every `commit_interval_s` and at the end, or only by
    `commit()` with `auto_commit=False`.
    """

    def __init__(
        self,
        group: str,
        *,
        auto_commit: bool = True,
        strategy: Strategy = AVERAGELY,
        offset_folder: Path | None = None,
        clock: Clock | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self._hosted = aio.LitePullConsumer(
            group,
            auto_commit=auto_commit,
            strategy=strategy,
            offset_folder=offset_folder,
            clock=clock,
            **options,
        )
        self._host = Host(group, self._hosted.abandon)

    @property
    def config(self) -> ConsumerConfig:
        return self._hosted.config

    def subscribe(self, topic: str, *, tags: str = SUB_ALL, sql: str | None = None) -> None:
        """Read a topic together with the other members of the group; any time. `sql` filters by properties."""
        self._hosted.subscribe(topic, tags=tags, sql=sql)

    def unsubscribe(self, topic: str) -> None:
        self._hosted.unsubscribe(topic)

    def assign(
        self, queues: Collection[MessageQueue], *, tags: str = SUB_ALL, sql: str | None = None
    ) -> None:
        """Read exactly these queues; may be called again with others."""
        if self._host.running:
            self._host.call(self._hosted.assign(queues, tags=tags, sql=sql), SPARE_S)
        else:
            self._hosted.assign_first(queues, tags=tags, sql=sql)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # An error in a loop means that its message was not consumed.
        self.close(consumed=kind is None)

    def start(self) -> None:
        """Join the group and begin to pull; raises NoNameServer when none answers."""
        self._host.start(self._hosted.start)

    def close(self, *, consumed: bool = True) -> None:
        """Store offsets (with `auto_commit`), leave the group. `consumed=False`: what was given last comes again."""
        self._host.close(lambda: self._hosted.close(consumed=consumed), self.config.close_timeout_s)

    def poll(self, timeout_s: float = POLL_S, *, max_count: int | None = None) -> list[ReceivedMessage]:
        """The next messages, at most `max_count` (32); none when none came in time."""
        return self._host.call(self._hosted.poll(timeout_s, max_count=max_count), timeout_s + SPARE_S)

    def __iter__(self) -> Iterator[ReceivedMessage]:
        return self

    def __next__(self) -> ReceivedMessage:
        work = self._hosted.working
        # Fetched in bulk, so that not every message is a trip to the loop thread and back.
        while (message := work.iteration.next()) is None:
            try:
                deliveries = self._host.call(work.take_next(POLL_S, self.config.pull_batch), POLL_S + SPARE_S)
            except ClientClosed:
                raise StopIteration from None
            work.iteration.add(deliveries)
        return message

    def queues(self, topic: str) -> list[MessageQueue]:
        """All queues of a topic; raises NoRoute when nobody has it."""
        return self._host.call(self._hosted.queues(topic), SPARE_S)

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues in this member's hands now."""
        return self._host.do(lambda: self._hosted.assignment)

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on at this offset; raises ClientError for a queue that is not assigned to us."""
        self._host.call(self._hosted.seek(queue, offset), SPARE_S)

    def seek_to_begin(self, queue: MessageQueue) -> None:
        self._host.call(self._hosted.seek_to_begin(queue), SPARE_S)

    def seek_to_end(self, queue: MessageQueue) -> None:
        self._host.call(self._hosted.seek_to_end(queue), SPARE_S)

    def seek_to_time(self, queue: MessageQueue, time_ms: int) -> None:
        """Go on at the message stored nearest to that time."""
        self._host.call(self._hosted.seek_to_time(queue, time_ms), SPARE_S)

    def offset_at(self, queue: MessageQueue, time_ms: int) -> int:
        return self._host.call(self._hosted.offset_at(queue, time_ms), SPARE_S)

    def position(self, queue: MessageQueue) -> int | None:
        """The offset of the next message; None for a queue that is not ours."""
        return self._host.do(lambda: self._hosted.position(queue))

    def pause(self, *queues: MessageQueue) -> None:
        """Give no messages of these queues (of all) until `resume`."""
        self._host.do(lambda: self._hosted.pause(*queues))

    def resume(self, *queues: MessageQueue) -> None:
        self._host.do(lambda: self._hosted.resume(*queues))

    def commit(self) -> None:
        """Store the offsets of everything given so far."""
        self._host.call(self._hosted.commit(), SPARE_S)

    def committed(self, queue: MessageQueue) -> int | None:
        """The group's stored offset; None when it has none."""
        return self._host.call(self._hosted.committed(queue), SPARE_S)
