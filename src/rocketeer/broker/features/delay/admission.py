"""What becomes of a message with a delay level that is sent: it waits in its level's queue."""

from rocketeer.broker.feature import Feature
from rocketeer.errors import RequestRefused
from rocketeer.model.property_names import DELAY, REAL_QID, REAL_TOPIC
from rocketeer.model.topic import SCHEDULE_TOPIC
from rocketeer.protocol.codes import ResponseCode
from rocketeer.record.delay_levels import DelayLevels
from rocketeer.record.flags import TX_MASK
from rocketeer.record.layout import PendingMessage
from rocketeer.record.properties import decode_properties, find_property, rejoin_properties


class DelayAdmission:
    """The rewrite that makes messages wait."""

    def __init__(self, levels: DelayLevels) -> None:
        self._levels = levels

    def rewrite(self, message: PendingMessage) -> None:
        """Send a message with a delay level to the schedule topic, remembering where it belongs."""
        if message.sys_flag & TX_MASK not in (0, 0x8):
            return
        raw = find_property(message.properties, DELAY.encode())
        wanted = 0 if raw is None else _level(raw)
        if wanted <= 0:
            return
        level = self._levels.clamp(wanted)
        properties = decode_properties(message.properties)
        properties[DELAY] = str(level)
        properties[REAL_TOPIC] = message.topic
        properties[REAL_QID] = str(message.queue_id)
        message.properties = rejoin_properties(properties)
        message.topic = SCHEDULE_TOPIC
        message.queue_id = level - 1


def _level(raw: bytes) -> int:
    """RocketMQ's rule: any whole number of 32 bits, and without a delay from 0 down. RequestRefused for others."""
    text = raw.decode("utf-8", "replace")
    digits = text[1:] if text[:1] in ("-", "+") else text
    if (
        not digits.isascii()
        or not digits.isdigit()
        or len(digits) > 20
        or not -(1 << 31) <= int(text) < 1 << 31
    ):
        raise RequestRefused(
            ResponseCode.MESSAGE_ILLEGAL,
            f"{DELAY} is {text[:40]!r}: a delay level is a whole number, 1 for the first level",
        )
    return int(text)


def delay_admission_feature(levels: DelayLevels) -> Feature:
    """Made before the writer, which applies it."""
    return Feature("delayed sends", claims=(DELAY,), rewrites=(DelayAdmission(levels).rewrite,))
