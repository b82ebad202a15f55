"""Concurrent consumption: messages of a queue go to any free worker, and may finish in any order.

A message that fails goes back to its broker, which delivers it again after a while through the group's retry
topic, and puts it with the dead letters when it has failed too often.
"""

import asyncio
import logging
import time
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

import msgspec

from rocketeer.client.aio.consuming import ConsumerState, ListenerPools, is_ending
from rocketeer.client.core.failure import Failure
from rocketeer.client.core.outcome import RETRY, Outcome, Retry, as_outcome
from rocketeer.client.core.process_queue import ProcessQueue
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.core.retry_policy import RetryPolicy, level_for
from rocketeer.model.queue import MessageQueue
from rocketeer.model.subscription import MessageModel

log = logging.getLogger(__name__)

RETRIES_MAX: Final = 16
OVERDUE_LEVEL: Final = 3
RETRY_HERE_S: Final = 5.0
"""A message the broker did not take back is tried again here after this."""
FOREVER_S: Final = float("inf")


class ConsumeJob(msgspec.Struct, gc=False, eq=False):
    """One call of a listener with the messages it is given, and what came of it."""

    held: ProcessQueue
    messages: list[ReceivedMessage]
    call: Any
    single: bool
    policy: RetryPolicy
    direct: Any = None
    """A future when an operator waits for the outcome: nothing else is done with the messages then."""
    outcome: Outcome = None
    error: BaseException | None = None
    begun: bool = False

    def _begin(self) -> Any:
        """The listener's argument."""
        self.begun = True
        messages = self.messages
        now_s = time.monotonic()
        if self.single:
            messages[0].started_s = now_s
            return messages[0]
        for message in messages:
            message.started_s = now_s
        return list(messages)

    def _raised(self, error: BaseException) -> None:
        self.outcome = self.policy.outcome(error, self.messages[0].reconsume_times + 1)
        self.error = error

    def run(self) -> None:
        if self.held.dropped:
            return  # taken away while the job waited
        try:
            returned = self.call(self._begin())
            if returned is not None:
                self.outcome = as_outcome(returned)
        except BaseException as error:
            self._raised(error)

    async def run_async(self) -> None:
        if self.held.dropped:
            return  # taken away while the job waited
        try:
            returned = await self.call(self._begin())
            if returned is not None:
                self.outcome = as_outcome(returned)
        except BaseException as error:
            if is_ending(error):
                raise
            self._raised(error)


class ConcurrentService:
    """Gives messages to free workers, and sends back those that fail; a `consuming.ConsumeService`."""

    def __init__(self, state: ConsumerState) -> None:
        self._state = state
        config = state.config
        self._batch = config.consume_batch
        self._retries = config.retries if config.retries >= 0 else RETRIES_MAX
        self._broadcasting = config.message_model is MessageModel.BROADCASTING
        self._pools = ListenerPools(config.concurrency, f"rocketeer-{config.group}", self._settle)
        self._going_back: set[asyncio.Task[None]] = set()
        self._later: set[asyncio.TimerHandle] = set()

    # --- in ----------------------------------------------------------------------------------

    def found(self, held: ProcessQueue, messages: Sequence[ReceivedMessage]) -> None:
        if not messages:
            return
        batch = self._batch
        for listener, run in self._state.runs(messages):
            call, policy = listener.call, listener.policy
            if batch == 1:
                jobs = [ConsumeJob(held, [message], call, True, policy) for message in run]
            else:
                jobs = [
                    ConsumeJob(held, run[at : at + batch], call, False, policy)
                    for at in range(0, len(run), batch)
                ]
            self._pools.submit(listener.is_async, jobs)

    def nothing_found(self, held: ProcessQueue) -> None:
        self._state.nothing_found(held)

    async def direct(self, message: ReceivedMessage) -> ConsumeJob:
        listener = self._state.listener_of(message)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        nowhere = ProcessQueue(message.queue, message.queue_offset)
        job = ConsumeJob(nowhere, [message], listener.call, self._batch == 1, listener.policy, done)
        self._pools.submit(listener.is_async, [job])
        await done
        return job

    # --- out ---------------------------------------------------------------------------------

    def _settle(self, jobs: list[ConsumeJob]) -> None:
        finished: dict[ProcessQueue, list[ReceivedMessage]] = {}
        for job in jobs:
            held = job.held
            if job.outcome is None and job.direct is None:
                if not held.dropped and job.begun:
                    done = finished.get(held)
                    if done is None:
                        finished[held] = list(job.messages)
                    else:
                        done += job.messages
            elif job.direct is not None:
                if not job.direct.done():
                    job.direct.set_result(None)
            elif not held.dropped:
                self._failed(job)
        consumed = self._state.consumed
        for held, messages in finished.items():
            consumed[held.queue.topic] = consumed.get(held.queue.topic, 0) + len(messages)
            self._finish(held, messages)

    def _finish(self, held: ProcessQueue, messages: Iterable[ReceivedMessage]) -> None:
        offset = held.finish(messages)
        if held.dropped:
            return
        held.consumed_ms = self._state.instance.clock.now_ms()
        self._state.offsets.table.update(held.queue, offset)
        self._state.finished(held)

    def _failed(self, job: ConsumeJob) -> None:
        how = job.outcome if isinstance(job.outcome, Retry) else RETRY
        good, bad = job.messages[: how.from_index], job.messages[how.from_index :]
        # A listener that came back after its time was over: the broker has the message already.
        bad = [message for message in bad if job.held.holds(message)]
        if good:
            self._finish(job.held, good)
        if not bad:
            return
        topic = bad[0].origin_topic
        self._state.failed[topic] = self._state.failed.get(topic, 0) + len(bad)
        log.warning(
            "listener failed group=%s topic=%s offset=%d id=%s tries=%d reason=%r",
            self._state.config.group, topic, bad[0].queue_offset, bad[0].message_id, bad[0].reconsume_times + 1,
            job.error or "RETRY", exc_info=job.error,
        )  # fmt: skip
        if self._broadcasting:
            self._finish(job.held, bad)  # nobody else gets it; trying again would be this member's matter
            return
        self._spawn(self._send_back(job.held, bad, how, self._state.failure_of(job.error, how), job))

    async def _send_back(
        self,
        held: ProcessQueue,
        messages: list[ReceivedMessage],
        how: Retry,
        failure: Failure,
        job: ConsumeJob | None,
    ) -> None:
        level, delay_s = how.delay_level, how.delay_s
        if level == 0 and delay_s is not None:
            level = level_for(delay_s)
        taken = await asyncio.gather(
            *(
                self._state.send_back(each, level, self._retries, delay_s=delay_s, failure=failure)
                for each in messages
            )
        )
        self._finish(held, [message for message, ok in zip(messages, taken, strict=True) if ok])
        left = [message for message, ok in zip(messages, taken, strict=True) if not ok]
        if left and job is not None and not held.dropped:
            for message in left:
                message.retried += 1
            self._try_here_later(held, left)

    def _try_here_later(self, held: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        def again() -> None:
            self._later.discard(timer)
            if not held.dropped:
                self.found(held, messages)

        timer = asyncio.get_running_loop().call_later(RETRY_HERE_S, again)
        self._later.add(timer)

    async def send_back_overdue(self, held: Iterable[ProcessQueue]) -> None:
        """Send back messages whose listener hangs (`consume_timeout_s`): others try them, the offset advances."""
        timeout_s = self._state.config.consume_timeout_s
        for each in held:
            overdue = each.overdue(time.monotonic(), timeout_s)
            if overdue:
                log.warning(
                    "listener hangs group=%s queue=%s offsets=%s timeout_s=%g",
                    self._state.config.group, each.queue, [m.queue_offset for m in overdue], timeout_s,
                )  # fmt: skip
                why = Failure(
                    f"the listener ran longer than consume_timeout_s={timeout_s:g}",
                    client=self._state.instance.client_id,
                )
                await self._send_back(each, overdue, Retry(delay_level=OVERDUE_LEVEL), why, None)

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._going_back.add(task)
        task.add_done_callback(self._going_back.discard)

    # --- the rest of a service ---------------------------------------------------------------

    async def lock(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, float]:
        return dict.fromkeys(queues, FOREVER_S)

    async def unlock(self, queues: Collection[MessageQueue]) -> None:
        return

    async def wait_idle(self, held: ProcessQueue) -> None:
        return  # what is in hand may go on: it does not commit any more

    async def revoke(self, held: ProcessQueue) -> None:
        await self._state.offsets.store({held.queue})

    def pause(self) -> None:
        self._pools.pause()

    def resume(self) -> None:
        self._pools.resume()

    async def finish(self, timeout_s: float) -> None:
        for timer in self._later:
            timer.cancel()
        if not await self._pools.finish(timeout_s):
            log.warning("listeners still run after %g s group=%s", timeout_s, self._state.config.group)
        if self._going_back:
            await asyncio.wait(self._going_back, timeout=timeout_s)

    async def close(self, held: Iterable[ProcessQueue]) -> None:
        self._pools.close()
