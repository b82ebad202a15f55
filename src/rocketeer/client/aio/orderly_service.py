"""Ordered consumption: one message after the other per queue, by the one member that holds the broker's lock.

A message that fails is tried again after a pause, and nothing behind it before; when it has had its tries it
goes to the dead letters. Taking a queue away waits for the listener, then stores the offset, then gives the
lock back: so the next owner begins behind the last message.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from rocketeer.client.aio.consuming import ConsumerState, Listener, ListenerPools, is_ending
from rocketeer.client.aio.queue_locks import QueueLocks
from rocketeer.client.core.outcome import COMMIT, ROLLBACK, TO_DEAD_LETTERS, Outcome, Retry, as_outcome
from rocketeer.client.core.process_queue import ProcessQueue
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.core.retry_policy import RetryPolicy
from rocketeer.model.queue import MessageQueue
from rocketeer.model.subscription import MessageModel

log = logging.getLogger(__name__)

RUN_MESSAGES: Final = 64
RUN_S: Final = 0.05
"""Limits of one worker's run over a queue, so that offsets are committed in between."""
PAUSE_S_MIN: Final = 0.01
PAUSE_S_MAX: Final = 30.0
FOREVER_S: Final = float("inf")


class OrderedConsumeJob(msgspec.Struct, gc=False, eq=False):
    """The listener over some messages of one queue, until one fails, the queue is lost or the time is over."""

    held: ProcessQueue
    messages: list[ReceivedMessage]
    call: Any
    batch: int
    stopped: Callable[[], bool]
    policy: RetryPolicy
    direct: Any = None
    consumed: int = 0
    """How many messages succeeded; the next `failed` ones ended with `outcome`."""
    failed: int = 0
    outcome: Outcome = None
    error: BaseException | None = None

    def _next(self, until_s: float) -> list[ReceivedMessage] | None:
        held = self.held
        now_s = time.monotonic()
        if self.consumed >= len(self.messages) or held.dropped or not held.lock_held(now_s):
            return None
        if (now_s > until_s and self.consumed) or self.stopped():
            return None
        messages = self.messages[self.consumed : self.consumed + self.batch]
        for message in messages:
            message.started_s = now_s
        return messages

    def _take(self, messages: list[ReceivedMessage], returned: object) -> bool:
        """Apply a listener's return value; True to go on with the next messages, ClientError for an invalid one."""
        outcome = None if returned is None else as_outcome(returned)
        if outcome is None:
            self.consumed += len(messages)
            return True
        self.outcome = outcome
        self.failed = len(messages)
        return False

    def _raised(self, messages: list[ReceivedMessage], error: BaseException) -> None:
        """Apply the retry policy; an error that it ignores ends this run, and the next one starts behind it."""
        self._take(messages, self.policy.outcome(error, messages[0].reconsume_times + 1))
        self.error = error

    def run(self) -> None:
        until_s = time.monotonic() + RUN_S
        while (messages := self._next(until_s)) is not None:
            try:
                if not self._take(messages, self.call(messages[0] if self.batch == 1 else messages)):
                    return
            except BaseException as error:
                self._raised(messages, error)
                return

    async def run_async(self) -> None:
        until_s = time.monotonic() + RUN_S
        while (messages := self._next(until_s)) is not None:
            try:
                if not self._take(messages, await self.call(messages[0] if self.batch == 1 else messages)):
                    return
            except BaseException as error:
                if is_ending(error):
                    raise
                self._raised(messages, error)
                return


class Renewed(NamedTuple):
    """Result of renewing the queue locks."""

    lost: list[ProcessQueue]
    """Queues whose lock another member has now."""
    unanswered: int
    """How many queues' brokers said nothing."""


class OrderlyService:
    """Runs each locked queue's messages one by one; a `consuming.ConsumeService`."""

    def __init__(self, state: ConsumerState, *, auto_commit: bool) -> None:
        self._state = state
        config = state.config
        self._auto_commit = auto_commit
        self._locks: QueueLocks | None = None
        """None when broadcasting: every member has all queues."""
        if config.message_model is MessageModel.CLUSTERING:
            self._locks = QueueLocks(config, state.instance, state.cluster)
        self._batch = config.consume_batch
        self._pools = ListenerPools(config.concurrency, f"rocketeer-{config.group}", self._settle)
        self._paused = False
        self._closing = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._free: dict[ProcessQueue, asyncio.Future[None]] = {}
        self._pauses: dict[ProcessQueue, asyncio.TimerHandle] = {}

    # --- running listeners -------------------------------------------------------------------

    def found(self, held: ProcessQueue, messages: Sequence[ReceivedMessage]) -> None:
        self.go_on(held)

    def go_on(self, held: ProcessQueue) -> None:
        """Start a run on the queue's waiting messages unless one is running."""
        if held.busy or held.dropped or self._paused or self._closing or not held.waiting:
            return
        if not held.lock_held(time.monotonic()):
            return  # the next renewal of the lock comes back here
        messages = held.take(RUN_MESSAGES)
        listener, run = next(iter(self._state.runs(messages)))
        held.give_back(len(messages) - len(run))
        held.busy = True
        self._submit(
            listener, OrderedConsumeJob(held, run, listener.call, self._batch, self._stopped, listener.policy)
        )

    def _stopped(self) -> bool:
        return self._paused or self._closing

    def _submit(self, listener: Listener, job: OrderedConsumeJob) -> None:
        self._pools.submit(listener.is_async, [job])

    def nothing_found(self, held: ProcessQueue) -> None:
        self._state.nothing_found(held)

    async def direct(self, message: ReceivedMessage) -> OrderedConsumeJob:
        listener = self._state.listener_of(message)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        nowhere = ProcessQueue(message.queue, message.queue_offset)
        job = OrderedConsumeJob(
            nowhere, [message], listener.call, self._batch, lambda: False, listener.policy, done
        )
        self._submit(listener, job)
        await done
        return job

    # --- what came of it ---------------------------------------------------------------------

    def _settle(self, jobs: list[OrderedConsumeJob]) -> None:
        for job in jobs:
            if job.direct is not None:
                if not job.direct.done():
                    job.direct.set_result(None)
                continue
            held = job.held
            done = job.consumed + (job.failed if job.outcome is COMMIT else 0)
            held.give_back(len(job.messages) - done)
            self._count(job, done)
            if self._auto_commit or job.outcome is COMMIT:
                self._commit(held)
            if job.outcome is None or job.outcome is COMMIT:
                self._released(held)
            else:
                self._spawn(self._failed(job))

    def _commit(self, held: ProcessQueue) -> None:
        offset = held.commit()
        held.consumed_ms = self._state.instance.clock.now_ms()
        # Also for a queue that is being let go: its lock is still ours, nobody else consumes it. Not for one
        # that was lost: its offset is somebody else's by now.
        if not held.dropped or held.lock_held(time.monotonic()):
            self._state.offsets.table.update(held.queue, offset)
        self._state.finished(held)

    def _count(self, job: OrderedConsumeJob, done: int) -> None:
        topic = job.messages[0].origin_topic
        self._state.consumed[topic] = self._state.consumed.get(topic, 0) + done
        if job.failed and job.outcome is not COMMIT:
            self._state.failed[topic] = self._state.failed.get(topic, 0) + job.failed
            message = job.messages[job.consumed]
            log.warning(
                "listener failed group=%s topic=%s offset=%d id=%s tries=%d reason=%r",
                self._state.config.group, topic, message.queue_offset, message.message_id,
                message.reconsume_times + 1, job.error or job.outcome, exc_info=job.error,
            )  # fmt: skip

    async def _failed(self, job: OrderedConsumeJob) -> None:
        """Pause the queue before the next try, or move the message to the dead letters after its last one."""
        held, outcome = job.held, job.outcome
        bad = job.messages[job.consumed : job.consumed + job.failed]
        if outcome is ROLLBACK:
            held.rollback()
        elif await self._sent_to_dead_letters(bad, outcome, job.error):
            held.take(len(bad))
            if self._auto_commit:
                self._commit(held)
            self._released(held)
            return
        else:
            for message in bad:
                message.retried += 1
        pause_s = self._state.config.suspend_s
        if isinstance(outcome, Retry):
            asked_s = outcome.delay_s if outcome.suspend_s is None else outcome.suspend_s
            pause_s = pause_s if asked_s is None else asked_s
        if held.dropped or self._closing:
            self._released(held)
            return
        pause_s = min(max(pause_s, PAUSE_S_MIN), PAUSE_S_MAX)
        self._pauses[held] = asyncio.get_running_loop().call_later(pause_s, self._end_pause, held)

    def _end_pause(self, held: ProcessQueue) -> None:
        timer = self._pauses.pop(held, None)
        if timer is not None:
            timer.cancel()
            self._released(held)

    async def _sent_to_dead_letters(
        self, messages: list[ReceivedMessage], outcome: Outcome, error: BaseException | None
    ) -> bool:
        """Send messages to the dead letters; True when all were taken."""
        most = self._state.config.retries
        given_up = isinstance(outcome, Retry) and outcome.delay_level == TO_DEAD_LETTERS
        if not given_up and (most < 0 or any(message.reconsume_times < most for message in messages)):
            return False
        if self._locks is None:
            log.warning("message dropped after %d tries message=%r", most, messages[0])
            return True  # broadcasting knows no dead letters
        failure = self._state.failure_of(error, outcome)
        back = (
            self._state.send_back(each, TO_DEAD_LETTERS, max(most, 0), failure=failure) for each in messages
        )
        return all(await asyncio.gather(*back))

    def _released(self, held: ProcessQueue) -> None:
        """Mark the queue as having no running listener."""
        held.busy = False
        free = self._free.pop(held, None)
        if free is not None and not free.done():
            free.set_result(None)
        self.go_on(held)

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- locks -------------------------------------------------------------------------------

    async def lock(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, float]:
        """Take the locks of queues; returns those whose lock is ours, and until when for sure."""
        if self._locks is None:
            return dict.fromkeys(queues, FOREVER_S)
        return {queue: until_s for queue, until_s in (await self._locks.take(queues)).items() if until_s}

    async def unlock(self, queues: Collection[MessageQueue]) -> None:
        if self._locks is not None and queues:
            await self._locks.give_back(queues)

    async def renew(self, held: Sequence[ProcessQueue]) -> Renewed:
        """Renew the locks; one whose broker does not answer expires unless a later renewal succeeds."""
        lost: list[ProcessQueue] = []
        unanswered = 0
        if self._locks is None or not held:
            return Renewed(lost, unanswered)
        answers = await self._locks.take(each.queue for each in held if not each.dropped)
        for each in held:
            until_s = answers.get(each.queue)
            if each.dropped:
                continue
            if until_s is None:
                unanswered += 1
                continue
            each.lock_until_s = until_s
            if until_s:
                self.go_on(each)
            else:
                log.warning("lock lost group=%s queue=%s", self._state.config.full_group, each.queue)
                lost.append(each)
        return Renewed(lost, unanswered)

    async def wait_idle(self, held: ProcessQueue) -> None:
        self._end_pause(held)
        if held.busy:
            free = self._free.setdefault(held, asyncio.get_running_loop().create_future())
            await asyncio.shield(free)

    async def revoke(self, held: ProcessQueue) -> None:
        await self.wait_idle(held)
        await self._state.offsets.store({held.queue})
        await self.unlock([held.queue])

    # --- the rest of a service ---------------------------------------------------------------

    def pause(self) -> None:
        self._paused = True  # runs end behind the message they are at

    def resume(self) -> None:
        self._paused = False

    async def finish(self, timeout_s: float) -> None:
        self._closing = True
        for held in list(self._pauses):
            self._end_pause(held)
        if not await self._pools.finish(timeout_s):
            log.warning("listeners still run after %g s group=%s", timeout_s, self._state.config.full_group)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)

    async def close(self, held: Iterable[ProcessQueue]) -> None:
        """Release all locks; that of a queue whose listener still runs expires, so that nobody starts beside it."""
        if self._locks is not None:
            await self._locks.give_back_all(but=[each.queue for each in held if each.busy])
        self._pools.close()
