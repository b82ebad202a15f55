"""A send with middlewares around it, for threads and for asyncio."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, TypeVar

from rocketeer.client.core.hooks import SendMode
from rocketeer.client.core.middleware import Around, PublishContext, run_through, run_through_async
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.core.send_result import SendResult
from rocketeer.errors import ClientError
from rocketeer.model.message import Message

R = TypeVar("R")
Sent: TypeAlias = Message | Sequence[Message]


def send_with_middlewares(
    around: Sequence[Around],
    group: str,
    message: Sent,
    send: Callable[[Sent], R],
    mode: SendMode = SendMode.SYNC,
) -> R:
    """Run `send` inside the publish middlewares and return its result; they may replace the messages."""
    context = _context(group, message, mode)
    result = run_through(around, context, lambda: send(_ready(context, message)))
    return _checked(result, mode)


async def send_with_middlewares_async(
    around: Sequence[Around],
    group: str,
    message: Sent,
    send: Callable[[Sent], Awaitable[R]],
    mode: SendMode = SendMode.ASYNC,
) -> R:
    """Like `send_with_middlewares`, with an awaited `send`."""
    context = _context(group, message, mode)
    result = await run_through_async(around, context, lambda: send(_ready(context, message)))
    return _checked(result, mode)


def _context(group: str, message: Sent, mode: SendMode) -> PublishContext:
    return PublishContext(group, mode, [message] if isinstance(message, Message) else list(message))


def _ready(context: PublishContext, first: Sent) -> Sent:
    """One message stays one: a batch of one has other rules."""
    return (
        context.messages[0] if isinstance(first, Message) and len(context.messages) == 1 else context.messages
    )


def _checked(result: R, mode: SendMode) -> R:
    if mode is SendMode.ONEWAY or isinstance(result, SendResult | ReceivedMessage):
        return result
    if result is None:
        raise ClientError(
            "a middleware neither sent the message nor raised: its publish must yield, raise, or return a SendResult"
        )
    raise ClientError(f"a middleware's publish returned {result!r:.80}: it returns a SendResult, or nothing")
