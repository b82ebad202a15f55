"""What users may do around a send: see it, add properties to it, forbid it, measure it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from rocketeer.client.core.encoding import Outgoing
from rocketeer.client.core.send_result import SendResult
from rocketeer.model.queue import MessageQueue


class SendMode(StrEnum):
    SYNC = "SYNC"
    ASYNC = "ASYNC"
    ONEWAY = "ONEWAY"


@dataclass(slots=True)
class SendContext:
    """One attempt to send: `outgoing.properties` may be added to before, `result` or `error` is set after it."""

    group: str
    mode: SendMode
    outgoing: Outgoing
    queue: MessageQueue
    address: str
    result: SendResult | None = None
    error: Exception | None = None


class SendHook(Protocol):
    """Given to a producer as `hooks=[...]`; called in the thread or on the loop that sends, so be quick."""

    def before_send(self, context: SendContext) -> None:
        """Before every attempt; what it raises ends the send and reaches the sender."""

    def after_send(self, context: SendContext) -> None:
        """After every attempt (oneway: when it has left); what it raises is logged."""
