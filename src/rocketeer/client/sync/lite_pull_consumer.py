# Written by tools/make_sync.py from client/aio/lite_pull_consumer.py: change that, then `make sync`.
"""The lite pull consumer for threads: subscribe or assign, then ask for messages when you want some.

consumer = LitePullConsumer("reports", nameserver="127.0.0.1:9876")
consumer.subscribe("orders")
with consumer:
    for message in consumer:        # or: for message in consumer.poll()
        ...
"""

from collections.abc import Collection
from pathlib import Path
from typing import Unpack

from rocketeer.client.aio import lite_pull_consumer as aio
from rocketeer.client.aio.lite_pull_consumer import POLL_S
from rocketeer.client.core.allocate import AVERAGELY, Strategy
from rocketeer.client.core.config import ConsumerOptions
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.sync.lite_pull_consumer_base import LitePullConsumerBase
from rocketeer.clock import Clock
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.model.subscription import SUB_ALL


class LitePullConsumer(LitePullConsumerBase):
    """Options are the fields of `ConsumerConfig`. `subscribe` or `assign` before the start, or any time after it.

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
        offset_folder: Path | str | None = None,
        clock: Clock | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self._set_up(
            aio.LitePullConsumer(
                group,
                auto_commit=auto_commit,
                strategy=strategy,
                offset_folder=offset_folder,
                clock=clock,
                **options,
            )
        )

    def subscribe(self, topic: str, *, tags: str = SUB_ALL, sql: str | None = None) -> None:
        """Read a topic together with the other members of the group; any time. `sql` filters by properties."""
        return self._hosted.subscribe(topic, tags=tags, sql=sql)

    def unsubscribe(self, topic: str) -> None:
        """Read the topic no longer; any time."""
        return self._hosted.unsubscribe(topic)

    def assign(
        self, queues: Collection[MessageQueue], *, tags: str = SUB_ALL, sql: str | None = None
    ) -> None:
        """Read exactly these queues; may be called again with others."""
        return self._assign(queues, tags=tags, sql=sql)

    def start(self) -> None:
        """Join the group and begin to pull; raises NoNameServer when none answers."""
        return self._start()

    def close(self, *, consumed: bool = True) -> None:
        """Store offsets (with `auto_commit`), leave the group. `consumed=False`: what was given last comes again."""
        return self._close(consumed=consumed)

    def poll(self, timeout_s: float = POLL_S, *, max_count: int | None = None) -> list[ReceivedMessage]:
        """The next messages, at most `max_count` (32); none when none came in time."""
        return self._poll(timeout_s, max_count=max_count)

    def queues(self, topic: str) -> list[MessageQueue]:
        """All queues of a topic; raises NoRoute when nobody has it."""
        return self._call(self._hosted.queues(topic))

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues in this member's hands now."""
        return self._do(lambda: self._hosted.assignment)

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on at this offset; raises ClientError for a queue that is not assigned to us."""
        return self._call(self._hosted.seek(queue, offset))

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go on at the oldest message that the broker still has."""
        return self._call(self._hosted.seek_to_begin(queue))

    def seek_to_end(self, queue: MessageQueue) -> None:
        """Go on at the message that comes next."""
        return self._call(self._hosted.seek_to_end(queue))

    def seek_to_time(self, queue: MessageQueue, time_ms: int) -> None:
        """Go on at the message stored nearest to that time."""
        return self._call(self._hosted.seek_to_time(queue, time_ms))

    def offset_at(self, queue: MessageQueue, time_ms: int) -> QueueOffset:
        """The offset of the message stored nearest to that time."""
        return self._call(self._hosted.offset_at(queue, time_ms))

    def position(self, queue: MessageQueue) -> QueueOffset | None:
        """The offset of the next message; None for a queue that is not ours."""
        return self._do(lambda: self._hosted.position(queue))

    def pause(self, *queues: MessageQueue) -> None:
        """Give no messages of these queues (of all) until `resume`."""
        return self._do(lambda: self._hosted.pause(*queues))

    def resume(self, *queues: MessageQueue) -> None:
        """Give messages of these queues (of all) again after `pause`."""
        return self._do(lambda: self._hosted.resume(*queues))

    def commit(self) -> None:
        """Store the offsets of everything given so far."""
        return self._call(self._hosted.commit())

    def committed(self, queue: MessageQueue) -> QueueOffset | None:
        """The group's stored offset; None when it has none."""
        return self._call(self._hosted.committed(queue))
