"""What a listener returns, sent to a topic: `@app.publish("parcels")`."""

import asyncio
import functools
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

from rocketeer.client.core.codecs import Codec, typed_message
from rocketeer.client.core.depends import is_coroutine_function
from rocketeer.client.core.outcome import Ordered, Retry
from rocketeer.client.sync.producer import Producer
from rocketeer.model.message import Message

F = TypeVar("F", bound=Callable[..., Any])

_MARK: Final = "__rocketeer_publishes__"


class Publisher(Protocol):
    """What is asked of an app."""

    @property
    def producer(self) -> Producer: ...

    @property
    def codec(self) -> Codec: ...


def publishing_to(app: Publisher, topic: str, function: F) -> F:
    """The function; what it returns is sent before it returns. None and outcomes (RETRY ...) are not sent."""

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        returned = function(*arguments, **named)
        if (message := _message(app, topic, returned)) is not None:
            app.producer.send(message)
        return returned

    @functools.wraps(function)
    async def call_async(*arguments: Any, **named: Any) -> Any:
        returned = await function(*arguments, **named)
        if (message := _message(app, topic, returned)) is not None:
            await asyncio.wrap_future(app.producer.send_async(message))
        return returned

    made: Any = call_async if is_coroutine_function(function) else call
    setattr(made, _MARK, True)
    return made  # type: ignore[no-any-return]


def publishes(function: object) -> bool:
    """Whether what it returns is sent somewhere."""
    return bool(getattr(function, _MARK, False))


def as_listener(function: Callable[..., Any]) -> Callable[..., Any]:
    """A publishing function as a listener: what it returned is sent, and says nothing about the message."""

    def outcome(returned: Any) -> Any:
        return returned if isinstance(returned, Retry | Ordered) else None

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        return outcome(function(*arguments, **named))

    @functools.wraps(function)
    async def call_async(*arguments: Any, **named: Any) -> Any:
        return outcome(await function(*arguments, **named))

    return call_async if is_coroutine_function(function) else call


def _message(app: Publisher, topic: str, returned: Any) -> Message | None:
    if returned is None or isinstance(returned, Retry | Ordered):
        return None
    return returned if isinstance(returned, Message) else typed_message(topic, returned, app.codec)
