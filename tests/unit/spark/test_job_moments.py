"""Times as people type them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from rocketeer.errors import ConfigError
from rocketeer.spark.jobs.moments import is_ago, parse_duration_ms, parse_moment, parse_span

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90m", NOON - timedelta(minutes=90)),
        (" 2 d ", NOON - timedelta(days=2)),
        ("2026-11-15", datetime(2026, 11, 15, tzinfo=UTC)),
        ("2026-11-15T13:00:01.5", datetime(2026, 11, 15, 13, 0, 1, 500_000, tzinfo=UTC)),
        ("2026-11-15 13:00+02:00", datetime(2026, 11, 15, 13, tzinfo=timezone(timedelta(hours=2)))),
        ("1700000000123", datetime.fromtimestamp(1_700_000_000.123, UTC)),
    ],
)
def test_a_time_is_what_it_says(text: str, expected: datetime) -> None:
    assert parse_moment("--since", text, NOON) == expected


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "12", "-3h", "1.5h"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--until"):
        parse_span(None, text, NOON)


def test_a_span_holds_something() -> None:
    assert parse_span(None, None, NOON) == (None, None)
    assert parse_span("2h", "1h", NOON) == (NOON - timedelta(hours=2), NOON - timedelta(hours=1))
    with pytest.raises(ConfigError, match="nothing lies between"):
        parse_span("1h", "1h", NOON)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("500ms", 500),
        ("10s", 10000),
        ("10 seconds", 10000),
        ("1 Minute", 60000),
        ("5m", 300000),
        ("2 hours", 7200000),
        ("1d", 86400000),
        ("3 days", 259200000),
        ("7 milliseconds", 7),
        ("0s", 0),
    ],
)
def test_a_span_is_said_short_or_in_words(text: str, ms: int) -> None:
    assert parse_duration_ms("--interval", text) == ms


@pytest.mark.parametrize("text", ["", "10", "ten seconds", "-1s", "1.5h", "1 month", "10 s s"])
def test_what_is_no_span_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--interval .* is no time: write 500ms"):
        parse_duration_ms("--interval", text)


def test_how_long_ago_is_told_from_a_moment() -> None:
    assert [is_ago(text) for text in ("2h", " 90m ", "2026-11-15", "1700000000000")] == [
        True,
        True,
        False,
        False,
    ]
