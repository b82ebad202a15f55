"""From a user's function to a Listener: middlewares around it, its body decoded, its other parameters filled.

hooks -> middlewares -> decoding -> dependencies -> the function. What a function does not ask for is not there: one
that takes the message alone is called as it is.
"""

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rocketeer.client.aio.consuming import Listener
from rocketeer.client.core.codecs import Codec, decoder_of
from rocketeer.client.core.config import ConsumerConfig
from rocketeer.client.core.depends import (
    Overrides,
    call_with,
    call_with_async,
    is_coroutine_function,
    name_of,
    needs_of,
    signature_of,
)
from rocketeer.client.core.middleware import Context, Middleware, consuming, run_through, run_through_async
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.core.retry_policy import RetryPolicy, checked_retry
from rocketeer.errors import ConfigError, UndecodableBody

log = logging.getLogger(__name__)

NO_OVERRIDES: Mapping[Callable[..., Any], Callable[..., Any]] = {}


def check_listener(topic: str, function: object, overrides: Overrides = NO_OVERRIDES) -> None:
    """Raise ConfigError for what cannot be called with a message and what it asks for beside it."""
    if not callable(function):
        raise ConfigError(f"the listener of topic {topic!r} is {function!r}: it must be a function")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigError(
            f"the listener of topic {topic!r} is {name_of(function)}, a generator, which calling does not run: "
            "a listener has no `yield`"
        )
    signature = signature_of(function)
    if signature is None:
        return
    needs = needs_of(function, skip=1, is_async=is_coroutine_function(function), overrides=overrides)
    try:
        signature.bind(None, **dict(needs))
    except TypeError:
        raise ConfigError(
            f"the listener of topic {topic!r} is {name_of(function)}{signature}: it is called with one argument, a "
            "message (with consume_batch over 1 a list of them), and what Depends and Context stand for"
        ) from None


def make_listener(
    topic: str,
    function: Callable[..., Any],
    config: ConsumerConfig,
    *,
    codec: Codec,
    retry: RetryPolicy,
    middlewares: Sequence[Middleware] = (),
    overrides: Overrides = NO_OVERRIDES,
) -> Listener:
    """The function, ready to be called with a message or a list of them; raises ConfigError."""
    check_listener(topic, function, overrides)
    checked_retry(topic, retry)
    is_async = is_coroutine_function(function)
    decode = decoder_of(topic, function, codec, batches=config.consume_batch > 1)
    if decode is not None and config.consume_batch > 1:
        raise ConfigError(
            f"the listener of topic {topic!r} asks for decoded values, which come one by one: "
            f"consume_batch is {config.consume_batch}, it must be 1"
        )
    name = name_of(function)
    around = consuming(middlewares, name, is_async=is_async)
    needs = needs_of(function, skip=1, is_async=is_async, overrides=overrides)
    if not around and not needs:
        call = function if decode is None else _decoding(function, decode, is_async)
        return Listener(call, is_async, retry)

    def context_of(given: Any) -> Context:
        return Context(config.group, topic, name, given if isinstance(given, list) else [given])

    def call_plain(given: Any) -> Any:
        context = context_of(given)
        return run_through(
            around, context, lambda: call_with(function, _decoded(decode, given), needs, context)
        )

    async def call_async(given: Any) -> Any:
        context = context_of(given)

        async def inner() -> Any:
            return await call_with_async(function, _decoded(decode, given), needs, context)

        return await run_through_async(around, context, inner)

    return Listener(call_async if is_async else call_plain, is_async, retry)


def _decoding(
    function: Callable[..., Any], decode: Callable[[ReceivedMessage], Any], is_async: bool
) -> Callable[..., Any]:
    def call_plain(message: ReceivedMessage) -> Any:
        return function(_decoded(decode, message))

    async def call_async(message: ReceivedMessage) -> Any:
        return await function(_decoded(decode, message))

    return call_async if is_async else call_plain


def _decoded(decode: Callable[[ReceivedMessage], Any] | None, given: Any) -> Any:
    if decode is None:
        return given
    try:
        return decode(given)
    except UndecodableBody as error:
        log.error("message does not decode, to the dead letters message=%r reason=%s", given, error)
        raise
