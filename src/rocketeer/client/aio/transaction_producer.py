"""The transaction producer on asyncio: a message reaches its consumers if, and only if, something else succeeds.

async def check(message):                      # asked when a broker was not told
    return COMMIT if await db.has_order(message.message_id) else ROLLBACK

async with TransactionProducer("shop", check=check) as producer:

    async def pay(transaction):
        await db.save_order(transaction.id, ...)
        return COMMIT

    result = await producer.send_in_transaction(Message("orders", b"..."), pay)
"""

import asyncio
import inspect
from collections.abc import Coroutine, Sequence
from typing import Any, Final, Unpack, cast

from rocketeer.client.aio.check_backs import CheckBacks
from rocketeer.client.aio.instance import ClientInstance
from rocketeer.client.aio.producer import Producer
from rocketeer.client.aio.producer_work import ProducerWork
from rocketeer.client.core.codecs import JSON, Codec
from rocketeer.client.core.config import ProducerOptions
from rocketeer.client.core.hooks import SendHook
from rocketeer.client.core.middleware import Middleware
from rocketeer.client.core.publishing import send_with_middlewares_async
from rocketeer.client.core.selectors import Selector
from rocketeer.client.core.transactions import (
    Check,
    Local,
    Transaction,
    TransactionResult,
    TransactionState,
    as_state,
    encode_half,
    required,
)
from rocketeer.client.plans.send import Choose, chooser
from rocketeer.client.plans.transactions import finish
from rocketeer.clock import Clock
from rocketeer.errors import RocketeerError
from rocketeer.model.message import Message
from rocketeer.model.queue import MessageQueue

CHECK_CONCURRENCY: Final = 1


class TransactionProducer(Producer):
    """A producer that also sends in transactions. Options are the fields of `ProducerConfig`.

    `check(message)` says how an earlier transaction ended, when a broker asks: COMMIT, ROLLBACK or UNKNOWN. It may be
    asked for what another member of the group sent, which may be gone. A coroutine function runs on the loop, any
    other in threads, `check_concurrency` at a time. A member that does not send itself names the `topics` whose
    brokers shall know it.
    """

    def __init__(
        self,
        group: str,
        *,
        check: Check | None = None,
        check_concurrency: int = CHECK_CONCURRENCY,
        topics: Sequence[str] = (),
        hooks: Sequence[SendHook] = (),
        middlewares: Sequence[Middleware] = (),
        codec: Codec = JSON,
        clock: Clock | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        super().__init__(group, hooks=hooks, middlewares=middlewares, codec=codec, clock=clock, **options)
        self._check = required(check, self.config, check_concurrency)
        self._check_concurrency = check_concurrency
        self._topics = tuple(topics)
        self._check_backs: CheckBacks | None = None
        self._introducing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Get ready to send and to be asked; raises NoNameServer when no address is known."""
        await super().start()
        if self._check_backs is None:
            work = self.working
            self._check_backs = CheckBacks(
                self.config, work.instance, self._check, self._check_concurrency, work.sender.hooks
            )
            self._introducing = asyncio.create_task(self._introduce(work.instance))

    async def close(self) -> None:
        """Answer what is in hand, let unanswered sends finish, leave the group, close."""
        introducing, self._introducing = self._introducing, None
        check_backs, self._check_backs = self._check_backs, None
        if introducing is not None:
            introducing.cancel()
            await asyncio.wait([introducing])
        if check_backs is not None:
            await check_backs.close(self.config.close_timeout_s)
        await super().close()

    async def send_in_transaction(
        self,
        message: Message,
        local: Local,
        *,
        arg: Any = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_s: float | None = None,
        immune_s: int | None = None,
    ) -> TransactionResult:
        """Send a half message, run the local transaction, tell the broker how it ended.

        `local(transaction)` returns COMMIT (the message is delivered), ROLLBACK (never) or UNKNOWN (the broker will
        ask `check`). When it raises, the transaction is UNKNOWN and the error is raised here. It is not run at all,
        and the message rolled back, when the broker could not store the half message safely. `immune_s` is how long
        nobody is asked. Raises what `send` raises.
        """
        work = await self._ready()
        choose = chooser(message, queue, selector, arg if selector else None)  # `local` gets it, too

        async def send(ready: Message | Sequence[Message]) -> TransactionResult:
            half = cast(Message, ready)
            return await self._in_transaction(work, half, local, choose, arg, timeout_s, immune_s)

        if self.around:
            return await send_with_middlewares_async(self.around, self.config.group, message, send)
        return await send(message)

    async def _in_transaction(
        self,
        work: ProducerWork,
        message: Message,
        local: Local,
        choose: Choose | None,
        arg: Any,
        timeout_s: float | None,
        immune_s: int | None,
    ) -> TransactionResult:
        outgoing = encode_half(work.encoder, message, self.config.full_group, immune_s)
        async with work.send_limit.place(outgoing.size):
            sent = await work.deliver(outgoing, choose, timeout_s)

            def end(
                state: TransactionState, error: BaseException | None = None
            ) -> Coroutine[Any, Any, TransactionResult]:
                return work.run_plan(finish(work.sender, sent, state, error, outgoing=outgoing))

            if not sent.ok:
                return await end(TransactionState.ROLLBACK)
            try:
                state = as_state(await _run(local, Transaction(sent.message_id, message, arg)))
            except BaseException as error:
                await end(TransactionState.UNKNOWN, error)
                raise
            return await end(state)

    async def _introduce(self, instance: ClientInstance) -> None:
        """Let brokers know the group before the first send: they may have questions from an earlier life."""
        while True:
            unknown = False
            for topic in (self.config.create_topic_key, *map(self.config.full_topic, self._topics)):
                if instance.routes.get(topic) is None:
                    try:
                        await instance.route(topic)
                    except RocketeerError:
                        unknown = True
            await instance.heartbeat_now()
            if not unknown or not self._topics:
                return
            await asyncio.sleep(self.config.route_poll_s)


async def _run(local: Local, transaction: Transaction) -> object:
    if inspect.iscoroutinefunction(local):
        return await local(transaction)
    returned = await asyncio.to_thread(local, transaction)
    return await returned if inspect.isawaitable(returned) else returned
