"""A listener that is given values instead of messages."""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rocketeer.client.aio.consuming import Listener
from rocketeer.client.core.outcome import TO_DEAD_LETTERS, Retry
from rocketeer.client.core.received import ReceivedMessage

log = logging.getLogger(__name__)

UNREADABLE = Retry(delay_level=TO_DEAD_LETTERS)
"""A body that does not decode will not do so later: it goes to the dead letters at once."""


def typed(listener: Listener, decode: Callable[[ReceivedMessage], Any]) -> Listener:
    """The listener, with every message decoded before it."""
    function = listener.call

    def decoded(message: ReceivedMessage) -> tuple[Any, bool]:
        try:
            return decode(message), True
        except Exception as error:  # whatever a codec raises for bytes it cannot read
            log.error("message does not decode, to the dead letters message=%r reason=%s", message, error)
            return None, False

    def call(message: ReceivedMessage) -> Any:
        value, good = decoded(message)
        return function(value) if good else UNREADABLE

    async def call_async(message: ReceivedMessage) -> Any:
        value, good = decoded(message)
        return await function(value) if good else UNREADABLE

    return replace(listener, call=call_async if listener.is_async else call)
