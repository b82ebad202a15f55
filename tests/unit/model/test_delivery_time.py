"""When a message is to come: what users may say, and what is refused before it is sent."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from rocketeer.model.message import InvalidMessage, Message

NEW_YEAR_MS = 1_893_456_000_000


@pytest.mark.parametrize(
    ("timing", "properties"),
    [
        ({"deliver_at": datetime(2030, 1, 1, tzinfo=UTC)}, {"TIMER_DELIVER_MS": str(NEW_YEAR_MS)}),
        (
            {"deliver_at": datetime(2030, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))},
            {"TIMER_DELIVER_MS": str(NEW_YEAR_MS)},
        ),
        ({"deliver_at": NEW_YEAR_MS}, {"TIMER_DELIVER_MS": str(NEW_YEAR_MS)}),
        ({"deliver_at": 1}, {"TIMER_DELIVER_MS": "1"}),
        ({"delay": timedelta(days=40)}, {"TIMER_DELAY_MS": str(40 * 86_400_000)}),
        ({"delay": timedelta(microseconds=1)}, {"TIMER_DELAY_MS": "1"}),
        ({"delay": 2}, {"TIMER_DELAY_MS": "2000"}),
        ({"delay": 0.0015}, {"TIMER_DELAY_MS": "2"}),
        ({"delay": 0.1}, {"TIMER_DELAY_MS": "100"}),
        ({"delay": 0}, {"TIMER_DELAY_MS": "0"}),
    ],
)
def test_times_become_rocketmqs_properties(timing: dict[str, Any], properties: dict[str, str]) -> None:
    message = Message("T", b"x", **timing)
    assert message.is_timed
    assert message.all_properties() == {**properties, "WAIT": "true"}


@pytest.mark.parametrize(
    ("timing", "words"),
    [
        ({"deliver_at": datetime(2030, 1, 1)}, "has no time zone"),
        ({"deliver_at": 1_893_456_000}, "milliseconds"),
        ({"deliver_at": 0}, "no time"),
        ({"deliver_at": -1}, "no time"),
        ({"deliver_at": 1 << 63}, "no time"),
        ({"deliver_at": "2030"}, "must be a datetime"),
        ({"deliver_at": 1.5}, "must be a datetime"),
        ({"deliver_at": True}, "must be a datetime"),
        ({"delay": -1}, "0 or more"),
        ({"delay": timedelta(seconds=-1)}, "0 or more"),
        ({"delay": float("nan")}, "must be a timedelta"),
        ({"delay": float("inf")}, "must be a timedelta"),
        ({"delay": "5s"}, "must be a timedelta"),
        ({"delay": 1e300}, "not possible"),
        ({"delay": 1, "deliver_at": 5}, "contradict"),
        ({"delay": 1, "delay_level": 3}, "contradict"),
        ({"properties": {"TIMER_DELAY_SEC": "5"}}, "use the argument delay="),
        ({"properties": {"TIMER_OUT_MS": "5"}}, "choose another name"),
    ],
)
def test_what_cannot_be_is_refused_with_its_reason(timing: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidMessage, match=words):
        Message("T", b"x", **timing)
