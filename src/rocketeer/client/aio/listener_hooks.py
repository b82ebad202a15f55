"""A listener with hooks around it: who consumes does not notice, and without hooks nothing is added."""

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rocketeer.client.aio.consuming import Listener, is_ending
from rocketeer.client.core.config import ConsumerConfig
from rocketeer.client.core.hooks import ConsumeContext, ConsumeHook
from rocketeer.client.core.outcome import COMMIT, as_outcome
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.record.trace import ConsumeCode

log = logging.getLogger(__name__)


def with_hooks(listener: Listener, config: ConsumerConfig, hooks: Sequence[ConsumeHook]) -> Listener:
    """The listener, with every hook called before and after it; `hooks` may be added to later."""
    function = listener.call

    def call(given: Any) -> Any:
        context, began_s = _before(config, hooks, given)
        try:
            returned = function(given)
            as_outcome(returned)
        except BaseException as error:
            _after(config, hooks, context, began_s, None, error)
            raise
        _after(config, hooks, context, began_s, returned, None)
        return returned

    async def call_async(given: Any) -> Any:
        context, began_s = _before(config, hooks, given)
        try:
            returned = await function(given)
            as_outcome(returned)
        except BaseException as error:
            if is_ending(error):
                raise
            _after(config, hooks, context, began_s, None, error)
            raise
        _after(config, hooks, context, began_s, returned, None)
        return returned

    return replace(listener, call=call_async if listener.is_async else call)


def _before(config: ConsumerConfig, hooks: Sequence[ConsumeHook], given: Any) -> tuple[ConsumeContext, float]:
    messages: Sequence[ReceivedMessage] = given if isinstance(given, list) else [given]
    context = ConsumeContext(config.full_group, messages[0].queue, messages)
    for hook in hooks:
        try:
            hook.before_consume(context)
        except Exception:
            log.exception("hook failed hook=%r group=%s", hook, config.group)
    return context, time.monotonic()


def _after(
    config: ConsumerConfig,
    hooks: Sequence[ConsumeHook],
    context: ConsumeContext,
    began_s: float,
    returned: object,
    error: BaseException | None,
) -> None:
    outcome = as_outcome(returned)
    context.error = error
    context.success = error is None and (outcome is None or outcome is COMMIT)
    if error is not None:
        context.code = ConsumeCode.EXCEPTION
    elif time.monotonic() - began_s >= config.consume_timeout_s:
        context.code = ConsumeCode.TIME_OUT
    else:
        context.code = ConsumeCode.SUCCESS if context.success else ConsumeCode.FAILED
    for hook in hooks:
        try:
            hook.after_consume(context)
        except Exception:
            log.exception("hook failed hook=%r group=%s", hook, config.group)
