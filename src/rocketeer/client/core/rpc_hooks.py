"""What users may do around every request of a client, whatever it asks: see it, add to it, forbid it."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from rocketeer.errors import RocketeerError
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import Command
from rocketeer.protocol.headers.base import Header, decode_header
from rocketeer.protocol.headers.tables import REPLY_HEADERS, REQUEST_HEADERS

log = logging.getLogger(__name__)


@dataclass(slots=True)
class RpcContext:
    """One request: `fields` may be added to before it leaves; `reply` or `error` is set after it."""

    address: str
    """Address of the broker or name server that is asked."""
    command: Command
    """The request: its code, header fields and body."""
    oneway: bool = False
    """Whether no reply is expected."""
    reply: Command | None = None
    error: Exception | None = None
    notes: dict[str, Any] = field(default_factory=dict)
    """What a hook wants to know again after the reply."""

    @property
    def code(self) -> RequestCode | int:
        """The request code."""
        try:
            return RequestCode(self.command.code)
        except ValueError:
            return self.command.code

    @property
    def fields(self) -> dict[str, str]:
        """The header's fields as they travel."""
        return self.command.ext

    @property
    def header(self) -> Header | None:
        """The header's fields as typed values; None when its code has none, or they do not fit."""
        return _typed(REQUEST_HEADERS.get(self.command.code), self.command)

    @property
    def reply_header(self) -> Header | None:
        """The reply's header as typed values; None before the reply, when its code has none, or they do not fit."""
        return _typed(REPLY_HEADERS.get(self.command.code), self.reply)


def _typed(kind: type[Header] | None, command: Command | None) -> Header | None:
    try:
        return None if kind is None or command is None else decode_header(kind, command.ext)
    except RocketeerError:
        return None


@runtime_checkable
class RpcHook(Protocol):
    """Given to any client as `rpc_hooks=[...]`; called in the thread or on the loop that asks, so be quick."""

    def before_request(self, context: RpcContext) -> None:
        """Before every request, a repeated one too; what it raises ends the call and reaches the caller."""

    def after_reply(self, context: RpcContext) -> None:
        """When the reply is there, or none came (oneway: when it has left); what it raises is logged."""


def before(hooks: Sequence[RpcHook], address: str, command: Command, *, oneway: bool = False) -> RpcContext:
    context = RpcContext(address, command, oneway)
    for hook in hooks:
        hook.before_request(context)
    return context


def after(
    hooks: Sequence[RpcHook], context: RpcContext, reply: Command | None, error: Exception | None
) -> None:
    context.reply, context.error = reply, error
    for hook in hooks:
        try:
            hook.after_reply(context)
        except Exception:
            log.exception(
                "hook failed hook=%r code=%d address=%s", hook, context.command.code, context.address
            )
