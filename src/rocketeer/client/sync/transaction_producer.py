# Written by tools/make_sync.py from client/aio/transaction_producer.py: change that, then `make sync`.
"""The transaction producer for threads: a message reaches its consumers if, and only if, something else succeeds.

def check(message):                      # asked when a broker was not told
    return COMMIT if db.has_order(message.message_id) else ROLLBACK

with TransactionProducer("shop", check=check) as producer:

    def pay(transaction):
        db.save_order(transaction.id, ...)
        return COMMIT

    result = producer.send_in_transaction(Message("orders", b"..."), pay)
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Unpack

from rocketeer.client.aio import transaction_producer as aio
from rocketeer.client.aio.transaction_producer import CHECK_CONCURRENCY
from rocketeer.client.core.codecs import JSON, Codec
from rocketeer.client.core.config import ProducerOptions
from rocketeer.client.core.hooks import SendHook
from rocketeer.client.core.middleware import Middleware
from rocketeer.client.core.selectors import Selector
from rocketeer.client.core.transactions import (
    Check,
    Local,
    TransactionResult,
)
from rocketeer.client.sync.transaction_producer_base import TransactionProducerBase
from rocketeer.clock import Clock
from rocketeer.model.message import Message
from rocketeer.model.queue import MessageQueue


class TransactionProducer(TransactionProducerBase):
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
        self._set_up(
            partial(
                aio.TransactionProducer,
                group,
                check=check,
                check_concurrency=check_concurrency,
                topics=topics,
                hooks=hooks,
                middlewares=middlewares,
                codec=codec,
                clock=clock,
                **options,
            )
        )

    def start(self) -> None:
        """Get ready to send and to be asked; raises NoNameServer when no address is known."""
        return self._start()

    def close(self) -> None:
        """Answer what is in hand, let unanswered sends finish, leave the group, close."""
        return self._close()

    def send_in_transaction(
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
        return self._send_in_transaction(
            message, local, arg=arg, queue=queue, selector=selector, timeout_s=timeout_s, immune_s=immune_s
        )
