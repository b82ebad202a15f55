"""Handlers of dead letters: a consumer of `%DLQ%GROUP` that gives each message to the handler of its first topic."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rocketeer.client.aio.consuming import Listener
from rocketeer.client.aio.listener_factory import make_listener
from rocketeer.client.aio.push_consumer import PushConsumer
from rocketeer.client.apps.declared import Declared
from rocketeer.client.core.codecs import Codec
from rocketeer.client.core.depends import Overrides
from rocketeer.client.core.middleware import Middleware
from rocketeer.client.core.outcome import Outcome, as_outcome
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.model.property_names import RETRY_TOPIC
from rocketeer.model.subscription import ConsumeFromWhere
from rocketeer.model.topic import dlq_topic

log = logging.getLogger(__name__)

GROUP_SUFFIX: Final = "-dead-letters"
"""Suffix of the group that consumes a group's dead letters."""


def dead_letter_consumer(
    group: str,
    handlers: Mapping[str, Declared],
    options: Mapping[str, Any],
    *,
    codec: Codec,
    middlewares: Sequence[Middleware],
    overrides: Overrides,
) -> PushConsumer:
    """The consumer, not started; it begins with the oldest dead letter there is."""
    first = {"consume_from": ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, "consume_batch": 1}
    consumer = PushConsumer(f"{group}{GROUP_SUFFIX}", codec=codec, **{**options, **first})
    config = consumer.config
    table: dict[str, tuple[Declared, Listener]] = {}
    for topic, declared in handlers.items():
        listener = make_listener(
            topic,
            declared.function,
            config,
            codec=codec,
            retry=declared.retry,
            middlewares=(*middlewares, *declared.middlewares),
            overrides=overrides,
        )
        table[config.full_topic(topic)] = declared, listener

    async def dispatch(message: ReceivedMessage) -> Outcome:
        declared, listener = table.get(message.properties.get(RETRY_TOPIC, ""), (None, None))
        if declared is None or listener is None:
            return None  # of a topic without a handler: it stays where it is, among the dead letters
        try:
            if listener.is_async:
                return as_outcome(await listener.call(message))
            return as_outcome(await asyncio.to_thread(listener.call, message))
        except Exception as error:
            log.warning("dead letter not handled message=%r reason=%r", message, error, exc_info=error)
            return declared.retry.outcome(error, message.reconsume_times + 1)

    stored = dlq_topic(group)
    consumer.subscribe(stored, dispatch)
    for topic in handlers:
        consumer.share_listener(stored, topic)  # a retry of a dead letter names the first topic
    return consumer
