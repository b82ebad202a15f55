"""Answers brokers that ask how a transaction ended (39): the user's `check`, then END_TRANSACTION.

Questions name no group in their header, so one router per client instance deals them out by the message's PGROUP.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import ClassVar, Final
from weakref import WeakKeyDictionary

from rocketeer.client.aio.consuming import Listener, ListenerPools, is_ending
from rocketeer.client.aio.instance import ClientInstance
from rocketeer.client.core.config import ProducerConfig
from rocketeer.client.core.hooks import SendHook, TransactionContext, tell_transaction_hooks
from rocketeer.client.core.received import ReceivedMessage, split_messages
from rocketeer.client.core.transactions import Check, TransactionState, as_state
from rocketeer.client.plans.transactions import STATE_NAMES, answer_check
from rocketeer.errors import RocketeerError
from rocketeer.model.property_names import PGROUP, REAL_TOPIC
from rocketeer.model.queue import MessageQueue
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import Command
from rocketeer.protocol.headers.base import decode_header
from rocketeer.protocol.headers.transaction import CheckTransactionStateHeader

log = logging.getLogger(__name__)

WAITING_MAX: Final = 2000
"""Questions in hand at a time; the broker asks again for those beyond."""


class CheckJob:
    """One run of the user's check."""

    __slots__ = ("address", "asked", "began", "check", "error", "message", "state")

    def __init__(
        self, check: Listener, message: ReceivedMessage, asked: CheckTransactionStateHeader, address: str
    ) -> None:
        self.check = check
        self.message = message
        self.asked = asked
        self.address = address
        self.began = False
        self.state = TransactionState.UNKNOWN
        self.error: BaseException | None = None

    def run(self) -> None:
        self.began = True
        try:
            self.state = as_state(self.check.call(self.message))
        except BaseException as error:
            self._failed(error)

    async def run_async(self) -> None:
        self.began = True
        try:
            self.state = as_state(await self.check.call(self.message))
        except BaseException as error:
            if is_ending(error):
                raise
            self._failed(error)

    def _failed(self, error: BaseException) -> None:
        """As with RocketMQ's client: the broker is told that it is unknown, and why."""
        log.error("check failed message=%r", self.message, exc_info=error)
        self.error = error


class CheckBacks:
    """What one transaction producer needs to answer; open while it is started."""

    def __init__(
        self,
        config: ProducerConfig,
        instance: ClientInstance,
        check: Check,
        concurrency: int,
        hooks: Sequence[SendHook] = (),
    ) -> None:
        self._hooks = tuple(hooks)
        self._config = config
        self._instance = instance
        self._check = Listener.of(check)
        self._pools = ListenerPools(concurrency, f"{config.group}-check", self._done)
        self._waiting = 0
        self._answers: set[asyncio.Task[None]] = set()
        _CheckRouter.of(instance).producers[config.full_group] = self

    async def close(self, timeout_s: float) -> None:
        """Start no more checks and wait for those that run; the broker asks another member for the rest."""
        router = _CheckRouter.of(self._instance)
        if router.producers.get(self._config.full_group) is self:
            del router.producers[self._config.full_group]
        await self._pools.finish(timeout_s)
        self._pools.close()
        if self._answers:
            await asyncio.wait(self._answers, timeout=timeout_s)

    def asked(self, message: ReceivedMessage, header: CheckTransactionStateHeader, address: str) -> None:
        if self._waiting >= WAITING_MAX:
            log.warning("check left to a later time: %d wait already message=%r", self._waiting, message)
            return
        self._waiting += 1
        self._pools.submit(self._check.is_async, [CheckJob(self._check, message, header, address)])

    def _done(self, jobs: list[CheckJob]) -> None:
        self._waiting -= len(jobs)
        for job in jobs:
            if job.began:
                task = asyncio.get_running_loop().create_task(self._answer(job))
                self._answers.add(task)
                task.add_done_callback(self._answers.discard)

    async def _answer(self, job: CheckJob) -> None:
        message = job.message
        ended = TransactionContext(
            self._config.full_group, message.properties.get(REAL_TOPIC, message.origin_topic), message.message_id,
            message.properties, job.address, job.asked.transaction_id, STATE_NAMES[job.state], from_check=True,
        )  # fmt: skip
        tell_transaction_hooks(self._hooks, ended)
        plan = answer_check(
            job.address,
            self._config.full_group,
            job.asked,
            job.message.message_id,
            job.state,
            job.error,
            self._config.call_timeout_s,
        )
        try:
            await self._instance.run(plan)
        except RocketeerError as error:  # it will ask again
            log.warning("check not answered message=%r broker=%s reason=%s", job.message, job.address, error)


class _CheckRouter:
    """Gives each question that reaches one client instance to the producer it is for."""

    _by_instance: ClassVar[WeakKeyDictionary[ClientInstance, "_CheckRouter"]] = WeakKeyDictionary()

    def __init__(self, instance: ClientInstance) -> None:
        self.producers: dict[str, CheckBacks] = {}
        self._routes = instance.routes
        self._namespace = instance.config.namespace
        instance.handle_push(RequestCode.CHECK_TRANSACTION_STATE, self._asked)

    @classmethod
    def of(cls, instance: ClientInstance) -> "_CheckRouter":
        router = cls._by_instance.get(instance)
        if router is None:
            router = cls._by_instance[instance] = cls(instance)
        return router

    def _asked(self, command: Command, address: str) -> None:
        header = decode_header(CheckTransactionStateHeader, command.ext)
        queue = MessageQueue("", self._broker_at(address), 0)
        messages = split_messages(command.body, queue, namespace=self._namespace)
        if len(messages) != 1:
            raise RocketeerError(f"{len(messages)} messages in a question about one")
        message = messages[0]
        message.queue = MessageQueue(message.stored_topic, queue.broker_name, message.stored_queue_id)
        group = message.properties.get(PGROUP)
        producer = self.producers.get(group or "")
        if producer is None:
            log.warning(
                "asked about a transaction of a group that is not here group=%s broker=%s", group, address
            )
            return
        producer.asked(message, header, address)

    def _broker_at(self, address: str) -> str:
        return next((name for name, known in self._routes.brokers().items() if address in known.values()), "")
