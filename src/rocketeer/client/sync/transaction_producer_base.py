"""The transaction producer for threads, all but its public methods: the local transaction runs in the calling thread.

It hosts the producer of `rocketeer.aio` on the loop thread, which answers brokers that ask.
"""

import inspect
from collections.abc import Sequence
from typing import Any, cast

from rocketeer.client.core.publishing import send_with_middlewares
from rocketeer.client.core.selectors import Selector
from rocketeer.client.core.transactions import (
    Local,
    Transaction,
    TransactionResult,
    TransactionState,
    as_state,
    encode_half,
)
from rocketeer.client.plans.send import Choose, chooser
from rocketeer.client.plans.transactions import finish
from rocketeer.client.sync.producer import Producer
from rocketeer.client.sync.producer_base import StartedProducer
from rocketeer.model.message import Message
from rocketeer.model.queue import MessageQueue


class TransactionProducerBase(Producer):
    """A producer that also sends in transactions."""

    def _send_in_transaction(
        self,
        message: Message,
        local: Local,
        *,
        timeout_s: float | None,
        immune_s: int | None,
        queue: MessageQueue | None,
        selector: Selector | None,
        arg: Any,
    ) -> TransactionResult:
        started = self._running or self._started()
        choose = chooser(message, queue, selector, arg if selector else None)  # `local` gets it, too

        def send(ready: Message | Sequence[Message]) -> TransactionResult:
            return self._in_transaction(
                started, cast(Message, ready), local, choose, arg, timeout_s, immune_s
            )

        if started.hosted.around:
            return send_with_middlewares(started.hosted.around, self.config.group, message, send)
        return send(message)

    def _in_transaction(
        self,
        started: StartedProducer,
        message: Message,
        local: Local,
        choose: Choose | None,
        arg: Any,
        timeout_s: float | None,
        immune_s: int | None,
    ) -> TransactionResult:
        outgoing = encode_half(started.encoder, message, self.config.full_group, immune_s)
        if self.config.idempotent:  # the sequences of numbers are kept on the loop
            sent = started.thread.call(started.work.deliver(outgoing, choose, timeout_s))
        else:
            sent = started.send(outgoing, choose, timeout_s)

        def end(state: TransactionState, error: BaseException | None = None) -> TransactionResult:
            return started.driver.run(finish(started.sender, sent, state, error, outgoing=outgoing))

        if not sent.ok:
            return end(TransactionState.ROLLBACK)
        try:
            state = as_state(self._run_local(local, Transaction(sent.message_id, message, arg)))
        except BaseException as error:
            end(TransactionState.UNKNOWN, error)
            raise
        return end(state)

    def _run_local(self, local: Local, transaction: Transaction) -> object:
        async def awaited(returned: Any) -> object:
            return await returned

        returned = local(transaction)
        return self._call(awaited(returned)) if inspect.isawaitable(returned) else returned
