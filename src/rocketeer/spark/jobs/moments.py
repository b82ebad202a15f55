"""Times as people type them after --since and --until, and how long after --interval, --within and --window.

Pure: what "now" is is an argument.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from rocketeer.errors import ConfigError

_AGO: Final = re.compile(r"([0-9]+)\s*(s|m|h|d)")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION: Final = re.compile(r"([0-9]+)\s*(ms|s|m|h|d|(milli)?seconds?|min|minutes?|hours?|days?)")
_UNIT_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_VERSION: Final = re.compile(r"[0-9]{1,11}")
_MS: Final = re.compile(r"[0-9]{12,14}")
HELP: Final = (
    "2026-11-15, 2026-11-15T13:00 (UTC unless it names a zone), ms since 1970, or how long ago: 90m, 2d."
)


def parse_moment(option: str, text: str, now: datetime) -> datetime:
    """A time with its zone; ConfigError for what is none.

    >>> noon = datetime(2026, 11, 15, 12, tzinfo=UTC)
    >>> parse_moment("--since", "2h", noon).isoformat(), parse_moment("--since", "2026-11-01", noon).isoformat()
    ('2026-11-15T10:00:00+00:00', '2026-11-01T00:00:00+00:00')
    """
    word = text.strip()
    if ago := _AGO.fullmatch(word):
        return now - timedelta(seconds=int(ago[1]) * _SECONDS[ago[2]])
    if _MS.fullmatch(word):
        return datetime.fromtimestamp(int(word) / 1000, UTC)
    try:
        found = datetime.fromisoformat(word)
    except ValueError:
        raise ConfigError(f"{option} {text!r} is no time: write {HELP}") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def is_ago(text: str) -> bool:
    """Whether it says how long ago: another moment whenever it is read."""
    return _AGO.fullmatch(text.strip()) is not None


def parse_span(
    since: str | None, until: str | None, now: datetime
) -> tuple[datetime | None, datetime | None]:
    """[since, until); ConfigError when nothing lies between."""
    begin = None if since is None else parse_moment("--since", since, now)
    end = None if until is None else parse_moment("--until", until, now)
    if begin is not None and end is not None and begin >= end:
        raise ConfigError(f"--since {since} is not before --until {until}: nothing lies between")
    return begin, end


def parse_duration_ms(option: str, text: str) -> int:
    """How long; ConfigError for what is none.

    >>> [parse_duration_ms("--interval", text) for text in ("500ms", "10 s", "1 minute", "2 hours", "1d")]
    [500, 10000, 60000, 7200000, 86400000]
    """
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None:
        raise ConfigError(f"{option} {text!r} is no time: write 500ms, 10s, 5m, 1h, 2d, or '10 minutes'")
    unit = found[2]
    if unit == "ms" or unit.startswith("milli"):
        return int(found[1])
    return int(found[1]) * _UNIT_MS[unit[0]]


def parse_version(option: str, text: str, now: datetime) -> int | datetime:
    """A version of a lake: a number of few digits, or a time.

    >>> parse_version("--as-of", "17", datetime(2026, 11, 15, tzinfo=UTC))
    17
    """
    word = text.strip()
    return int(word) if _VERSION.fullmatch(word) else parse_moment(option, text, now)
