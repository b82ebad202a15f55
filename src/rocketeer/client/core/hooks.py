"""What users may do around a send and around a listener: see it, measure it; a send also change and forbid."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, TypeVar, runtime_checkable

from rocketeer.client.core.encoding import Outgoing
from rocketeer.client.core.option_types import listed
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.core.send_result import SendResult
from rocketeer.errors import ConfigError
from rocketeer.model.queue import MessageQueue
from rocketeer.record.trace import ConsumeCode

log = logging.getLogger(__name__)


class SendMode(StrEnum):
    """How a send is made."""

    SYNC = "SYNC"
    """The caller waits for the answer."""
    ASYNC = "ASYNC"
    """The caller gets a future."""
    ONEWAY = "ONEWAY"
    """No answer is awaited."""


@dataclass(slots=True)
class SendContext:
    """One attempt to send: `outgoing.properties` may be added to before, `result` or `error` is set after it."""

    group: str
    """The producer's group."""
    mode: SendMode
    """How it is sent."""
    outgoing: Outgoing
    queue: MessageQueue
    """The queue it goes to."""
    address: str
    """Address of the queue's broker."""
    result: SendResult | None = None
    error: Exception | None = None
    notes: dict[str, Any] = field(default_factory=dict)
    """What a hook wants to know again after the attempt."""


class SendHook(Protocol):
    """Given to a producer as `hooks=[...]`; called in the thread or on the loop that sends, so be quick."""

    def before_send(self, context: SendContext) -> None:
        """Before every attempt; what it raises ends the send and reaches the sender."""

    def after_send(self, context: SendContext) -> None:
        """After every attempt (oneway: when it has left); what it raises is logged."""


AnyHook = TypeVar("AnyHook")


def checked_hooks(hooks: Iterable[AnyHook], *methods: str) -> tuple[AnyHook, ...]:
    """Raise ConfigError for what has not the methods of a hook."""
    for hook in (found := listed("hooks", hooks)):
        if isinstance(hook, type) or not all(callable(getattr(hook, each, None)) for each in methods):
            raise ConfigError(f"hooks has {hook!r:.80}: a hook is an object with {' and '.join(methods)}")
    return found


@dataclass(frozen=True, slots=True)
class TransactionContext:
    """How a transaction ended, and whether because a broker asked; `state` is RocketMQ's name for it."""

    group: str
    """The producer's group."""
    topic: str
    """Topic of the message."""
    message_id: str
    """The id its sender gave."""
    properties: Mapping[str, str]
    """Properties of the half message."""
    address: str
    """Address of the broker that is told."""
    transaction_id: str | None
    """The broker's id of it."""
    state: str
    from_check: bool
    """Whether a broker asked; else the send says so."""


@runtime_checkable
class TransactionHook(Protocol):
    """A hook of a transaction producer that also wants to know how transactions end."""

    def transaction_ended(self, context: TransactionContext) -> None:
        """When the broker is about to be told; what it raises is logged."""


def tell_transaction_hooks(hooks: Iterable[object], context: TransactionContext) -> None:
    for hook in hooks:
        if isinstance(hook, TransactionHook):
            try:
                hook.transaction_ended(context)
            except Exception:
                log.exception("hook failed hook=%r topic=%s", hook, context.topic)


@dataclass(slots=True)
class ConsumeContext:
    """One call of a listener; `success`, `code` and `error` are set after it."""

    group: str
    """The consumer's group."""
    queue: MessageQueue
    """The queue they came from."""
    messages: Sequence[ReceivedMessage]
    """What the listener is given."""
    success: bool = False
    code: ConsumeCode = ConsumeCode.FAILED
    error: BaseException | None = None
    notes: dict[str, Any] = field(default_factory=dict)
    """What a hook wants to know again after the call."""


class ConsumeHook(Protocol):
    """Given to a push consumer as `hooks=[...]`; called where the listener runs. What it raises is logged."""

    def before_consume(self, context: ConsumeContext) -> None:
        """Before the listener is called."""

    def after_consume(self, context: ConsumeContext) -> None:
        """After it returned or raised."""
