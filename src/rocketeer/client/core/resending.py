"""A failed message made anew for its group's retry topic, when the broker that has it does not take it back. Pure."""

from typing import Final

from rocketeer.client.core.encoding import Encoder, Outgoing
from rocketeer.client.core.failure import Failure
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.model import property_names as names
from rocketeer.model.topic import retry_topic

INNER_GROUP: Final = "CLIENT_INNER_PRODUCER"
FIRST_LEVEL: Final = 3
_ITS_OWN: Final = (
    # Those of the first sending: they would make the new message a half message, a timer or a repetition.
    names.TRAN_MSG, *names.FIRST_SENDING, names.TIMER_DELIVER_MS,
    names.TIMER_DELAY_MS, names.TIMER_DELAY_SEC, names.START_DELIVER_TIME, names.MIN_OFFSET, names.MAX_OFFSET,
)  # fmt: skip


def retry_copy(
    encoder: Encoder,
    message: ReceivedMessage,
    full_group: str,
    *,
    delay_level: int,
    retries_max: int,
    failure: Failure | None = None,
) -> Outgoing:
    """What the broker would have stored on send-back; past the limit, or with a level below 0, a dead letter."""
    properties = {name: value for name, value in message.properties.items() if name not in _ITS_OWN}
    properties.setdefault(names.ORIGIN_MESSAGE_ID, message.offset_message_id)
    properties[names.RETRY_TOPIC] = message.origin_topic
    tries = message.reconsume_times + 1
    if delay_level < 0:
        tries = max(tries, retries_max)
    if failure is not None and tries >= retries_max:
        properties |= failure.properties()
    properties[names.RECONSUME_TIME] = str(tries)
    properties[names.MAX_RECONSUME_TIMES] = str(retries_max)
    properties[names.DELAY] = str(delay_level if delay_level > 0 else FIRST_LEVEL + message.reconsume_times)
    return encoder.raw(retry_topic(full_group), message.body, properties, message.flag)
