"""Numbers, times and foreign texts as a person reads them, in tables and in the HTML report. Pure."""

import re
from datetime import UTC, datetime
from html import escape
from typing import Final

NO_TAG: Final = "(none)"
_UNSEEN: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def safe(text: str) -> str:
    """Any text for HTML and SVG, in an element or an attribute: escaped, and nothing in it that is no character.

    >>> safe("<b>\\x00&")
    '&lt;b&gt;\\ufffd&amp;'
    """
    return escape(plain(text), quote=True)


def plain(text: str) -> str:
    """Without control characters, which could do something to a terminal or break a page."""
    return _UNSEEN.sub("\ufffd", text).replace("\n", "\ufffd").replace("\t", " ")


def shortened(text: str, chars_max: int) -> str:
    return text if len(text) <= chars_max else f"{text[: chars_max - 1]}…"


def counted(count: int, word: str) -> str:
    """
    >>> counted(1, "message"), counted(2000, "message")
    ('1 message', '2,000 messages')
    """
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def count_text(value: float) -> str:
    """Exact below a hundred thousand, then with three digits.

    >>> count_text(99_999), count_text(1_234_567), count_text(0.25), count_text(2.5e9)
    ('99,999', '1.23M', '0.25', '2.5G')
    """
    if abs(value) < 100_000:
        return f"{value:,.0f}" if value == int(value) else f"{value:,.3g}"
    return _scaled(value, ("", "k", "M", "G", "T", "P"))


def bytes_text(value: float) -> str:
    """
    >>> bytes_text(0), bytes_text(1536), bytes_text(5_000_000_000)
    ('0 B', '1.54 kB', '5 GB')
    """
    return _scaled(value, (" B", " kB", " MB", " GB", " TB", " PB"))


def ms_text(value: float) -> str:
    """
    >>> ms_text(7), ms_text(1500), ms_text(90_000), ms_text(7_200_000), ms_text(-3)
    ('7 ms', '1.5 s', '1.5 min', '2 h', '-3 ms')
    """
    for limit, unit, name in (
        (1000, 1, "ms"),
        (60_000, 1000, "s"),
        (3_600_000, 60_000, "min"),
        (172_800_000, 3_600_000, "h"),
    ):
        if abs(value) < limit:
            return f"{value / unit:,.3g} {name}"
    return f"{value / 86_400_000:,.3g} d"


def _scaled(value: float, units: tuple[str, ...]) -> str:
    at = 0
    while abs(value) >= 999.5 and at < len(units) - 1:
        value, at = value / 1000, at + 1
    return f"{value:.3g}{units[at]}" if abs(value) < 999.5 else f"{value:,.0f}{units[at]}"


def time_text(ms: int) -> str:
    """`2026-11-15 13:10:25`, UTC; milliseconds if there are any."""
    shown = datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"{shown}.{ms % 1000:03d}" if ms % 1000 else shown


def second_text(ms: int) -> str:
    return time_text(ms // 1000 * 1000)


def tick_text(ms: int, step_ms: int) -> str:
    """A time on an axis whose ticks are so far apart: as little as tells them apart."""
    when = datetime.fromtimestamp(ms / 1000, UTC)
    if step_ms >= 86_400_000 or (when.hour, when.minute, when.second) == (0, 0, 0):
        return when.strftime("%b %-d")
    return when.strftime("%H:%M:%S" if step_ms < 60_000 else "%H:%M")
