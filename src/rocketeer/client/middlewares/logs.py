"""Log lines that say which message they are about."""

import logging
import time
from contextvars import ContextVar
from typing import Final

from rocketeer.client.core.middleware import Consuming, Context, Middleware, PublishContext, Publishing

_current: ContextVar[Context | None] = ContextVar("rocketeer_message", default=None)
_NOTHING: Final = "-"


class Logging(Middleware):
    """One line for every message consumed or sent, at `level`, and one with the error for each that failed.

    While a listener runs, `MessageFields` gives all log lines the message's id, whoever writes them.
    """

    def __init__(self, logger: logging.Logger | str = "rocketeer.app", level: int = logging.INFO) -> None:
        self._log = logging.getLogger(logger) if isinstance(logger, str) else logger
        self._level = level

    def consume(self, context: Context) -> Consuming:
        message = context.message
        token = _current.set(context)
        began_s = time.monotonic()
        try:
            outcome = yield
            self._log.log(
                self._level,
                "consumed topic=%s group=%s id=%s count=%d tries=%d ms=%.1f outcome=%s",
                context.topic, context.group, message.message_id, len(context.messages), context.tries,
                (time.monotonic() - began_s) * 1000, outcome or "success",
            )  # fmt: skip
            return outcome
        except Exception as error:
            self._log.error(
                "not consumed topic=%s group=%s id=%s tries=%d reason=%r",
                context.topic, context.group, message.message_id, context.tries, error,
            )  # fmt: skip
            raise
        finally:
            _current.reset(token)

    def publish(self, context: PublishContext) -> Publishing:
        topic = context.message.topic
        try:
            result = yield
        except Exception as error:
            self._log.error("not sent topic=%s group=%s reason=%r", topic, context.group, error)
            raise
        self._log.log(
            self._level, "sent topic=%s group=%s id=%s", topic, context.group, getattr(result, "message_id", _NOTHING)
        )  # fmt: skip
        return result


class MessageFields(logging.Filter):
    """Gives every log record `message_id`, `topic` and `group` of the message being consumed; "-" outside.

    handler.addFilter(MessageFields())
    handler.setFormatter(logging.Formatter("%(levelname)s %(message_id)s %(message)s"))
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Adds the fields; lets everything pass."""
        context = _current.get()
        record.message_id = _NOTHING if context is None else context.message.message_id
        record.topic = _NOTHING if context is None else context.topic
        record.group = _NOTHING if context is None else context.group
        return True
