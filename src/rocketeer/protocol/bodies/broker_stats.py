"""Figures a broker counts under a name and a key (315), as JSON: over the last minute, hour and day."""

from dataclasses import dataclass
from typing import Final

from rocketeer.protocol.bodies.wire import Wire, decoder, encode, load_as
from rocketeer.protocol.java_types import I64

# The names 4.9.8 counts under; the key is a topic, `topic@group` or `queueId@topic@group`.
TOPIC_PUT_NUMS: Final = "TOPIC_PUT_NUMS"
TOPIC_PUT_SIZE: Final = "TOPIC_PUT_SIZE"
GROUP_GET_NUMS: Final = "GROUP_GET_NUMS"
GROUP_GET_SIZE: Final = "GROUP_GET_SIZE"
GROUP_GET_LATENCY: Final = "GROUP_GET_LATENCY"
GROUP_GET_FROM_DISK_NUMS: Final = "GROUP_GET_FROM_DISK_NUMS"
GROUP_GET_FROM_DISK_SIZE: Final = "GROUP_GET_FROM_DISK_SIZE"
SNDBCK_PUT_NUMS: Final = "SNDBCK_PUT_NUMS"
BROKER_PUT_NUMS: Final = "BROKER_PUT_NUMS"
BROKER_GET_NUMS: Final = "BROKER_GET_NUMS"


@dataclass(frozen=True, slots=True)
class StatsFigure:
    """A count over a span of time: its sum, its rate a second, its mean for each event."""

    sum: int = 0
    tps: float = 0.0
    average: float = 0.0


@dataclass(frozen=True, slots=True)
class BrokerStats:
    """One name and key."""

    minute: StatsFigure
    hour: StatsFigure
    day: StatsFigure


class _FigureWire(Wire):
    avgpt: float = 0.0
    sum: I64 = 0
    tps: float = 0.0

    def value(self) -> StatsFigure:
        return StatsFigure(self.sum, self.tps, self.avgpt)


class _StatsWire(Wire):
    stats_day: _FigureWire | None = None
    stats_hour: _FigureWire | None = None
    stats_minute: _FigureWire | None = None


_decoder = decoder(_StatsWire)
_NOTHING = _FigureWire()


def encode_broker_stats(stats: BrokerStats) -> bytes:
    days, hours, minutes = (
        _FigureWire(each.average, each.sum, each.tps) for each in (stats.day, stats.hour, stats.minute)
    )
    return encode(_StatsWire(days, hours, minutes))


def decode_broker_stats(data: bytes) -> BrokerStats:
    wire = load_as(_decoder, data)
    minute, hour, day = (
        (each or _NOTHING).value() for each in (wire.stats_minute, wire.stats_hour, wire.stats_day)
    )
    return BrokerStats(minute, hour, day)
