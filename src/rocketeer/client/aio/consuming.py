"""What concurrent and ordered consumption share: listeners, their workers, and how a failed message goes back."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from rocketeer.client import discovery
from rocketeer.client.aio.instance import ClientInstance
from rocketeer.client.aio.offset_keeper import OffsetKeeper
from rocketeer.client.aio.workers import ListenerJob, TaskWorkers, ThreadWorkers, Workers
from rocketeer.client.core.config import ConsumerConfig, ProducerConfig
from rocketeer.client.core.depends import is_coroutine_function
from rocketeer.client.core.encoding import Encoder
from rocketeer.client.core.failure import Failure
from rocketeer.client.core.outcome import RETRY, Outcome
from rocketeer.client.core.process_queue import ProcessQueue
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.core.resending import INNER_GROUP, retry_copy
from rocketeer.client.core.retry_policy import DEFAULT_RETRY, RetryPolicy
from rocketeer.client.core.transient import OVERLOADED_CODES
from rocketeer.client.plans.brokers import ClusterRoutes
from rocketeer.client.plans.groups import send_back
from rocketeer.client.plans.send import Sender
from rocketeer.errors import BrokerRefused, ConnectFailed, RemotingError, RocketeerError
from rocketeer.model.queue import MessageQueue
from rocketeer.model.topic import RETRY_PREFIX
from rocketeer.record.ids import UniqKeys

log = logging.getLogger(__name__)

Returned: TypeAlias = Any
ListenerFunction: TypeAlias = Callable[..., Returned] | Callable[..., Awaitable[Returned]]
"""Takes a message, or a list of them when `consume_batch` is over 1, and what it asks for beside it."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A user's function, and whether it is a coroutine function."""

    call: Callable[[Any], Any]
    is_async: bool
    policy: RetryPolicy = DEFAULT_RETRY

    @classmethod
    def of(cls, function: ListenerFunction) -> "Listener":
        return cls(function, is_coroutine_function(function))


def _ignore(message: object) -> Outcome:
    """Log the message: the listener for retries of topics that are no longer subscribed."""
    log.warning("no listener message=%r", message)
    return RETRY


NOBODY = Listener(_ignore, False)


class DirectRun(Protocol):
    """What came of a message consumed because an operator asked for it."""

    outcome: Outcome
    error: BaseException | None


def is_ending(error: BaseException) -> bool:
    """Whether the task that runs a listener is cancelled; a CancelledError of what it awaits is its own failure."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


class ConsumerState:
    """State and collaborators that concurrent and ordered consumption share; one per started push consumer."""

    def __init__(
        self,
        config: ConsumerConfig,
        instance: ClientInstance,
        cluster: ClusterRoutes,
        offsets: OffsetKeeper,
        listeners: Mapping[str, Listener],
        finished: Callable[[ProcessQueue], None],
    ) -> None:
        self.config = config
        self.instance = instance
        self.cluster = cluster
        self.offsets = offsets
        self.listeners = listeners
        """By topic with its namespace; changes when subscriptions do."""
        self.finished = finished
        """Told when messages of a queue were finished: its pulling may go on."""
        self.consumed: dict[str, int] = {}
        self.failed: dict[str, int] = {}
        """Messages by topic, for the running info."""
        self._in_doubt: set[tuple[str, int]] = set()
        """By broker and log offset: no answer came when they were sent back."""

    def nothing_found(self, held: ProcessQueue) -> None:
        """Advance the offset to where the broker looked, unless messages are unfinished."""
        if not held.count:
            self.offsets.table.update(held.queue, held.next_offset)

    def listener_of(self, message: ReceivedMessage) -> Listener:
        return self.listeners.get(message.origin_topic, NOBODY)

    def runs(self, messages: Sequence[ReceivedMessage]) -> Iterable[tuple[Listener, list[ReceivedMessage]]]:
        """Neighbouring messages of one listener; only a retry topic holds messages of several."""
        queue = messages[0].queue
        if not queue.topic.startswith(RETRY_PREFIX):
            yield self.listeners.get(queue.topic, NOBODY), list(messages)
            return
        run: list[ReceivedMessage] = []
        for message in messages:
            if run and message.origin_topic != run[0].origin_topic:
                yield self.listener_of(run[0]), run
                run = []
            run.append(message)
        yield self.listener_of(run[0]), run

    async def send_back(
        self,
        message: ReceivedMessage,
        delay_level: int,
        retries_max: int,
        *,
        delay_s: float | None = None,
        failure: Failure | None = None,
    ) -> bool:
        """Send the message back, or store a copy in the retry topic; True when a broker took either.

        Without an answer the message may have gone back: its own broker is asked again later (ours does not take it
        twice), and nobody else is given a copy.
        """
        plan = send_back(
            self.cluster,
            self.config.full_group,
            message,
            delay_level=delay_level,
            retries_max=retries_max,
            delay_ms=None if delay_s is None else round(delay_s * 1000),
            failure=failure,
        )
        try:
            await self.instance.run(plan)
        except RocketeerError as error:
            log.warning("message not sent back message=%r reason=%s", message, error)
            self.cluster.routes.suspect(message.queue.topic)
            which = (message.broker_name, message.log_offset)
            if isinstance(error, RemotingError) and not isinstance(error, ConnectFailed):
                self._in_doubt.add(which)
            if which in self._in_doubt and not _is_final(error):
                return False
            return await self._resend(message, delay_level, retries_max, failure)
        self._in_doubt.discard((message.broker_name, message.log_offset))
        return True

    def failure_of(self, error: BaseException | None, outcome: object) -> Failure:
        """For the dead letters: what was raised, or else returned."""
        client = self.instance.client_id
        return Failure(f"returned {outcome}", client=client) if error is None else Failure.of(error, client)

    async def _resend(
        self, message: ReceivedMessage, delay_level: int, retries_max: int, failure: Failure | None
    ) -> bool:
        instance = self.instance
        config = ProducerConfig(INNER_GROUP, vip_channel=self.config.vip_channel)
        encoder = Encoder(config, UniqKeys(discovery.local_ip(), os.getpid(), instance.clock))
        sender = Sender(config, instance.routes, instance.nameservers, instance.clock)
        try:
            outgoing = retry_copy(
                encoder,
                message,
                self.config.full_group,
                delay_level=delay_level,
                retries_max=retries_max,
                failure=failure,
            )
            await instance.run(sender.send(outgoing))
        except RocketeerError as error:
            log.warning("message not sent to its retry topic message=%r reason=%s", message, error)
            return False
        return True


def _is_final(error: RocketeerError) -> bool:
    """Whether the broker has said no, and will say it again."""
    return isinstance(error, BrokerRefused) and error.code not in OVERLOADED_CODES


class ListenerPools:
    """Both kinds of workers, each made when the first listener of its kind has something to do."""

    def __init__(self, most: int, name: str, done: Callable[[list[Any]], None]) -> None:
        self._most = most
        self._name = name
        self._done = done
        self._workers: dict[bool, Workers] = {}
        self._paused = False

    def submit(self, is_async: bool, jobs: Iterable[ListenerJob]) -> None:
        workers = self._workers.get(is_async)
        if workers is None:
            kind = TaskWorkers if is_async else ThreadWorkers
            workers = self._workers[is_async] = kind(self._most, self._done, self._name)
            if self._paused:
                workers.pause()
        workers.submit(jobs)

    def pause(self) -> None:
        self._paused = True
        for workers in self._workers.values():
            workers.pause()

    def resume(self) -> None:
        self._paused = False
        for workers in self._workers.values():
            workers.resume()

    async def finish(self, timeout_s: float) -> bool:
        """Give back what has not begun and wait for the rest; False when a listener still runs."""
        self.pause()
        for workers in self._workers.values():
            if untouched := workers.clear():
                self._done(untouched)
        waits = [workers.wait_idle(timeout_s) for workers in self._workers.values()]
        return all(await asyncio.gather(*waits))

    def close(self) -> None:
        for workers in self._workers.values():
            workers.close()


class ConsumeService(Protocol):
    """One way of consuming, as the queues in hand need it."""

    def found(self, held: ProcessQueue, messages: Sequence[ReceivedMessage]) -> None:
        """Messages were put into the queue; without any, go on with those that are there."""

    def nothing_found(self, held: ProcessQueue) -> None:
        """The broker looked further than the last message that matched."""

    async def wait_idle(self, held: ProcessQueue) -> None:
        """The queue was dropped: wait until its offset does not change any more."""

    async def lock(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, float]:
        """Which of the queues may be taken up, and until when (monotonic seconds)."""

    async def unlock(self, queues: Collection[MessageQueue]) -> None:
        """Release the locks of queues that could not be taken up after all."""

    async def revoke(self, held: ProcessQueue) -> None:
        """The queue was dropped and its pulling stopped: store its offset, give back its lock."""


class DirectConsumer(Protocol):
    """A way of consuming that has listeners."""

    async def direct(self, message: ReceivedMessage) -> DirectRun:
        """Consume one message now, whatever queue it is from."""
