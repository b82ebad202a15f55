"""The transaction producer for threads.

    def check(message):                            # asked when a broker was not told
        return COMMIT if db.has_order(message.message_id) else ROLLBACK

    with TransactionProducer("shop", nameserver="127.0.0.1:9876", check=check) as producer:

        def pay(transaction):
            db.save_order(transaction.id, ...)
            return COMMIT

        result = producer.send_in_transaction(Message("orders", b"..."), pay)

The local transaction runs in the calling thread; it hosts the producer of `rocketeer.aio` on the loop thread, which
answers brokers that ask.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Unpack

from rocketeer.client.aio import transaction_producer as aio
from rocketeer.client.core.config import ProducerOptions
from rocketeer.client.core.hooks import SendHook
from rocketeer.client.core.selectors import Selector
from rocketeer.client.core.transactions import (
    Check,
    Transaction,
    TransactionResult,
    TransactionState,
    Verdict,
    as_state,
    encode_half,
    required,
)
from rocketeer.client.plans.send import chooser
from rocketeer.client.plans.transactions import finish
from rocketeer.client.sync.producer import Producer
from rocketeer.clock import Clock
from rocketeer.model.message import Message
from rocketeer.model.queue import MessageQueue


class TransactionProducer(Producer):
    """A producer that also sends in transactions; threads share it. Options are the fields of `ProducerConfig`.

    `check(message)` says how an earlier transaction ended, when a broker asks: COMMIT, ROLLBACK or UNKNOWN. It may be
    asked for what another member of the group sent, which may be gone. It runs in threads of its own,
    `check_concurrency` at a time (a coroutine function on the loop). A member that does not send itself names the
    `topics` whose brokers shall know it.
    """

    def __init__(
        self,
        group: str,
        *,
        check: Check | None = None,
        check_concurrency: int = aio.CHECK_CONCURRENCY,
        topics: Sequence[str] = (),
        hooks: Sequence[SendHook] = (),
        clock: Clock | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        super().__init__(group, hooks=hooks, clock=clock, **options)
        self._make = partial(
            aio.TransactionProducer,
            group,
            check=required(check, self.config, check_concurrency),
            check_concurrency=check_concurrency,
            topics=tuple(topics),
            hooks=tuple(hooks),
            clock=clock,
            **options,
        )

    def send_in_transaction(
        self,
        message: Message,
        local: Callable[[Transaction], Verdict],
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
        link = self._link or self._started()
        outgoing = encode_half(link.encoder, message, self.config.full_group, immune_s)
        choose = chooser(message, queue, selector, arg)
        if self.config.idempotent:  # the sequences of numbers are kept on the loop
            sent = link.thread.call(link.hosted.store(outgoing, choose, timeout_s))
        else:
            result = link.driver.run(link.sender.send(outgoing, choose=choose, timeout_s=timeout_s))
            assert result is not None, "only oneway sends have no result"
            sent = result
        if not sent.ok:
            return link.driver.run(finish(link.sender, sent, TransactionState.ROLLBACK, outgoing=outgoing))
        try:
            state = as_state(local(Transaction(sent.message_id, message, arg)))
        except BaseException as error:
            link.driver.run(finish(link.sender, sent, TransactionState.UNKNOWN, error, outgoing=outgoing))
            raise
        return link.driver.run(finish(link.sender, sent, state, outgoing=outgoing))
