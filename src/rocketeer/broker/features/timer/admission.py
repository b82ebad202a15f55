"""Which messages wait for a time of their own, and until when: RocketMQ 5's properties and its rules.

TIMER_DELAY_SEC, TIMER_DELAY_MS   so long after their arrival; the first of these two counts
TIMER_DELIVER_MS                  at that time, in milliseconds since 1970; __STARTDELIVERTIME means the same
a delay level beside them         the level counts, the others go
a time that has passed            delivered at once
"""

import re
from dataclasses import dataclass
from typing import Final

from rocketeer.broker.feature import Feature
from rocketeer.clock import Clock
from rocketeer.errors import RequestRefused
from rocketeer.model.property_names import (
    DELAY,
    START_DELIVER_TIME,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
)
from rocketeer.model.topic import TIMER_TOPIC
from rocketeer.protocol.codes import ResponseCode
from rocketeer.record.flags import TX_COMMIT, TX_MASK
from rocketeer.record.layout import PendingMessage
from rocketeer.record.properties import decode_properties, rejoin_properties, whole_number
from rocketeer.record.timers import wait_until

CLAIMS: Final = (TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS, START_DELIVER_TIME)
_MARKS: Final = (b"TIMER_DEL", START_DELIVER_TIME.encode())
assert all(claim.encode().startswith(_MARKS) for claim in CLAIMS)
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}")


@dataclass(frozen=True)
class TimerRules:
    """How far ahead a message may be timed, and how finely."""

    enabled: bool
    delay_ms_max: int
    precision_ms: int


class TimerAdmission:
    """The rewrite that makes messages wait."""

    def __init__(self, rules: TimerRules, clock: Clock) -> None:
        self._rules = rules
        self._clock = clock

    def rewrite(self, message: PendingMessage) -> None:
        """Raises RequestRefused for a time that cannot be read or is too far away."""
        if not any(mark in message.properties for mark in _MARKS):
            return
        if message.sys_flag & TX_MASK not in (0, TX_COMMIT):
            return
        properties = decode_properties(message.properties)
        if message.topic == TIMER_TOPIC or not any(claim in properties for claim in CLAIMS):
            return
        if whole_number(properties.get(DELAY, "").removeprefix("+")):
            message.properties = rejoin_properties(
                {name: value for name, value in properties.items() if name not in CLAIMS}
            )
            return
        if TIMER_OUT_MS in properties:  # it was timed once: a message that comes back is not timed again
            return
        if not self._rules.enabled:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR,
                "accurate timer message is not enabled, timerWheelEnable is false",
            )
        now_ms = self._clock.now_ms()
        due_ms = self._due_ms(properties, now_ms)
        if due_ms <= now_ms:
            return
        if due_ms - now_ms > self._rules.delay_ms_max:
            raise self._illegal()
        precision_ms = self._rules.precision_ms
        wait_until(message, -(-due_ms // precision_ms) * precision_ms)

    def _due_ms(self, properties: dict[str, str], now_ms: int) -> int:
        for name, unit_ms in ((TIMER_DELAY_SEC, 1_000), (TIMER_DELAY_MS, 1)):
            if name in properties:
                return now_ms + self._whole(properties[name]) * unit_ms
        name = TIMER_DELIVER_MS if TIMER_DELIVER_MS in properties else START_DELIVER_TIME
        return self._whole(properties[name])

    def _whole(self, text: str) -> int:
        if _WHOLE.fullmatch(text) is None or not -(1 << 63) <= int(text) < 1 << 63:
            raise self._illegal()
        return int(text)

    def _illegal(self) -> RequestRefused:
        return RequestRefused(
            ResponseCode.MESSAGE_ILLEGAL,
            "timer message illegal, the delay time should not be bigger than the max delay "
            f"{self._rules.delay_ms_max}ms; or if set del msg, the delay time should be bigger than the current time",
        )


def timer_admission_feature(rules: TimerRules, clock: Clock) -> Feature:
    """Made before the writer, which applies it."""
    return Feature("timed sends", claims=CLAIMS, rewrites=(TimerAdmission(rules, clock).rewrite,))
