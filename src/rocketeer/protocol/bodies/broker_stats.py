"""Figures a broker counts under a name and a key (315), as JSON: over the last minute, hour and day."""

from typing import Final

from rocketeer.model.java_types import I64, JavaValue, java
from rocketeer.protocol.bodies.wire import decoder, encode, load_as

# Two of the names 4.9.8 counts under; the key is a topic, `topic@group` or `queueId@topic@group`.
TOPIC_PUT_NUMS: Final = "TOPIC_PUT_NUMS"
GROUP_GET_NUMS: Final = "GROUP_GET_NUMS"


class StatsFigure(JavaValue, frozen=True):
    """A count over a span of time: its sum, its rate a second, its mean for each event."""

    sum: I64 = 0
    tps: float = 0.0
    average: float = java("avgpt", 0.0)


class BrokerStats(JavaValue, frozen=True):
    """One name and key."""

    minute: StatsFigure = java("statsMinute", StatsFigure())
    hour: StatsFigure = java("statsHour", StatsFigure())
    day: StatsFigure = java("statsDay", StatsFigure())


_decoder = decoder(BrokerStats)


def encode_broker_stats(stats: BrokerStats) -> bytes:
    return encode(stats)


def decode_broker_stats(data: bytes) -> BrokerStats:
    return load_as(_decoder, data)
