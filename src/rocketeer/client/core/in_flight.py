"""How much may be under way at a time: the counts behind the back-pressure of async and one-way sends."""

from typing import TYPE_CHECKING

from rocketeer.client.core.config import ProducerConfig
from rocketeer.client.core.in_flight_plain import InFlight, SlotWaiter
from rocketeer.compiled import COMPILED

__all__ = ["InFlight", "SlotWaiter", "oneway_in_flight", "stalled_s"]

if COMPILED and not TYPE_CHECKING:
    from rocketeer.client.core._in_flight import InFlight


def stalled_s(config: ProducerConfig) -> float:
    """How long those who wait for a place do so while nobody is answered."""
    return config.send_timeout_s if config.place_timeout_s is None else config.place_timeout_s


def oneway_in_flight(config: ProducerConfig) -> InFlight:
    """Nobody answers a one-way send: it is under way until its connection has taken it."""
    return InFlight(config.oneway_in_flight_max, config.in_flight_bytes_max, "waiting for a broker to read")
