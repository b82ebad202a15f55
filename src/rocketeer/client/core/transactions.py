"""A transactional send as values: what the user's functions are given, what they may say, what comes of it."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, TypeAlias

import msgspec

from rocketeer.client.core.config import ProducerConfig
from rocketeer.client.core.encoding import Encoder, Outgoing
from rocketeer.client.core.outcome import Ordered
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.core.send_result import SendResult
from rocketeer.errors import ClientError, ConfigError
from rocketeer.model import property_names as names
from rocketeer.model.message import InvalidMessage, Message
from rocketeer.record.flags import TX_COMMIT, TX_ROLLBACK

log = logging.getLogger(__name__)

_LATER: Final = (
    names.DELAY,
    "TIMER_DELIVER_MS",
    "TIMER_DELAY_MS",
    "TIMER_DELAY_SEC",
    names.START_DELIVER_TIME,
)


class TransactionState(IntEnum):
    """How a local transaction ended; the numbers are the ones brokers are told."""

    COMMIT = TX_COMMIT
    """The message is delivered."""
    ROLLBACK = TX_ROLLBACK
    """The message is not delivered."""
    UNKNOWN = 0
    """The broker will ask again."""


UNKNOWN: Final = TransactionState.UNKNOWN
"""Nobody knows yet how the transaction ends: the broker will ask again."""

Verdict: TypeAlias = TransactionState | Ordered | None
"""What a local transaction and a check return: COMMIT, ROLLBACK or UNKNOWN; nothing is UNKNOWN."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """What the local transaction is given. Keep `id` with what it writes: a check has it as `message.message_id`."""

    id: str
    message: Message
    arg: Any = None
    """What was given to `send_in_transaction` as `arg`."""


class TransactionResult(SendResult, frozen=True):
    """Where the message is, and how the local transaction ended; `queue_offset` counts half messages."""

    state: TransactionState = TransactionState.UNKNOWN
    """What the broker was told."""


Local: TypeAlias = Callable[[Transaction], Verdict] | Callable[[Transaction], Awaitable[Verdict]]
Check: TypeAlias = Callable[[ReceivedMessage], Verdict] | Callable[[ReceivedMessage], Awaitable[Verdict]]

_MEANS: Final = {
    Ordered.COMMIT: TransactionState.COMMIT,
    Ordered.ROLLBACK: TransactionState.ROLLBACK,
    None: TransactionState.UNKNOWN,
}


def as_state(returned: object) -> TransactionState:
    """What a user's function said; anything else but a verdict leaves the transaction open, and is logged."""
    if isinstance(returned, TransactionState):
        return returned
    state = _MEANS.get(returned) if returned is None or isinstance(returned, Ordered) else None
    if state is None:
        log.error("no verdict on a transaction: COMMIT, ROLLBACK or UNKNOWN was wanted returned=%r", returned)
        return TransactionState.UNKNOWN
    return state


def encode_half(encoder: Encoder, message: Message, group: str, immune_s: int | None) -> Outgoing:
    """The request for a half message of a producer group; raises InvalidMessage for what cannot be one."""
    if not isinstance(message, Message):
        raise InvalidMessage(f"one Message can be sent in a transaction, not {type(message).__name__}")
    properties = message.all_properties()
    if any(name in properties for name in _LATER):
        raise InvalidMessage(
            "a message sent in a transaction cannot be delayed as well: brokers drop the delay"
        )
    if names.DEDUP_ID in properties:
        raise InvalidMessage(
            f"a message sent in a transaction cannot have a {names.DEDUP_ID}: after a rollback the id would be "
            "taken, and the message never delivered; idempotent=True numbers it instead"
        )
    if immune_s is not None:
        if immune_s < 0:
            raise InvalidMessage(f"immune_s is {immune_s}: seconds in which nobody is asked, 0 or more")
        properties[names.CHECK_IMMUNITY_TIME_IN_SECONDS] = str(immune_s)
    properties[names.TRAN_MSG] = "true"
    properties[names.PGROUP] = group
    return encoder.raw(message.topic, message.body, properties, message.flag)


def with_state(sent: SendResult, state: TransactionState) -> TransactionResult:
    fields = msgspec.structs.asdict(sent)
    fields["transaction_id"] = sent.transaction_id or sent.message_id
    return TransactionResult(**fields, state=state)


def required(check: Check | None, config: ProducerConfig, concurrency: int) -> Check:
    """The check, when everything is there that transactions need."""
    if check is None:
        raise ClientError(
            f"producer {config.group!r} has no check: give check=, a function that tells how a transaction ended; "
            "brokers ask it when they were not told"
        )
    if concurrency < 1:
        raise ConfigError(f"check_concurrency is {concurrency}: at least 1")
    return check
