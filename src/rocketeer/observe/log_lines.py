"""Log lines: one an event, for people or as JSON for machines; a condition that lasts is said ever more seldom."""

import json
import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

FIRST_S: Final = 60.0
LONGEST_S: Final = 3_600.0
REMEMBERED_MAX: Final = 1_000
KEY_CHARS_MAX: Final = 200
"""Longest value in what is remembered of a condition."""
VALUE_CHARS_MAX: Final = 500
"""Longest value in a line: peers choose many of them."""
LINE_CHARS_MAX: Final = 4_000
TRACE_CHARS_MAX: Final = 16_000

FIGURES: Final = frozenset(
    {
        "ahead_s", "bytes", "count", "end", "flushed", "ms", "pending", "pending_bytes", "refused", "silent_ms",
        "used_percent", "waited_ms", "waiters",
    }
)  # fmt: skip
"""Fields that tell how much, not what: lines that differ in these alone are about the same condition."""

_FIELD = re.compile(r"(\w+)=%[^a-zA-Z%]*[a-zA-Z]|%[^a-zA-Z%]*[a-zA-Z]")


class LineFormat(logging.Formatter):
    """`12:30:01.250 WARNING store.retention disk nearly full used=88`, without our package's own name."""

    default_msec_format = "%s.%03d"

    def __init__(self, prefix: str = "", *, with_date: bool = False) -> None:
        super().__init__(f"%(asctime)s %(levelname)-7s {prefix}%(short_name)s %(message)s")
        self.default_time_format = "%Y-%m-%d %H:%M:%S" if with_date else "%H:%M:%S"

    def format(self, record: logging.LogRecord) -> str:
        record.short_name = record.name.removeprefix("rocketeer.")
        # A traceback has many lines; an event has one.
        return super().format(record).replace("\n", " | ")


class JsonFormat(logging.Formatter):
    """One object a line: time, level, logger, message, and the trace of an error."""

    def __init__(self, server: str = "") -> None:
        super().__init__()
        self._server = server

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        told: dict[str, object] = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if self._server:
            told["server"] = self._server
        if record.exc_info:
            told["trace"] = record.exc_text or self.formatException(record.exc_info)
        return json.dumps(told, ensure_ascii=False, default=str)


def set_log_level(level: str | None) -> None:
    """Which lines are said from now on; None changes nothing."""
    if level is not None:
        logging.getLogger().setLevel(level.upper())


@dataclass(slots=True)
class _Condition:
    said_s: float
    interval_s: float
    seen_s: float
    unsaid: int = 0


class RepeatLimit:
    """Decides whether a line is said: the first of a condition is, then one a minute, two minutes, four ... an hour.

    A condition that was not seen for as long as its last interval is over; the next line of it is a first one. Pure:
    the time is an argument.
    """

    def __init__(self) -> None:
        self._conditions: dict[tuple[object, ...], _Condition] = {}

    def suffix_if_due(self, key: tuple[object, ...], now_s: float) -> str | None:
        """None if the line is to be suppressed, else the text to append: how often it was suppressed before."""
        known = self._conditions.get(key)
        if known is None or now_s - known.seen_s > known.interval_s:
            self._conditions.pop(key, None)
            while len(self._conditions) >= REMEMBERED_MAX:
                del self._conditions[next(iter(self._conditions))]
            self._conditions[key] = _Condition(now_s, FIRST_S, now_s)
            return ""
        known.seen_s = now_s
        passed_s = now_s - known.said_s
        if passed_s < known.interval_s:
            known.unsaid += 1
            return None
        text = f" (again: {known.unsaid + 1} times in {passed_s:.0f} s)"
        known.said_s, known.unsaid = now_s, 0
        known.interval_s = min(2 * known.interval_s, LONGEST_S)
        return text


def condition_of(record: logging.LogRecord) -> tuple[object, ...]:
    """What the line is about: its template and those of its values that are not mere figures."""
    template = str(record.msg)
    values = record.args if isinstance(record.args, tuple) else ()
    names = [match.group(1) for match in _FIELD.finditer(template.replace("%%", ""))]
    if len(names) != len(values):
        return record.name, record.levelno, record.getMessage()[:KEY_CHARS_MAX]
    kept = [
        str(value)[:KEY_CHARS_MAX] for name, value in zip(names, values, strict=True) if name not in FIGURES
    ]
    return record.name, record.levelno, template, *kept


def shorten(record: logging.LogRecord) -> None:
    """Shorten a record's arguments, message and trace, which a peer may have made long."""
    if isinstance(record.args, tuple):
        record.args = tuple(map(_short, record.args))
    message = record.msg if isinstance(record.msg, str) and not record.args else record.getMessage()
    if len(message) > LINE_CHARS_MAX:
        record.msg, record.args = _cut(message, LINE_CHARS_MAX), None
    if record.exc_info:
        record.exc_text = _cut(_TRACES.formatException(record.exc_info), TRACE_CHARS_MAX)


_TRACES: Final = logging.Formatter()


def _short(value: object) -> object:
    if value is None or isinstance(value, (int, float)):
        return value
    text = value if isinstance(value, str) else str(value)
    return value if len(text) <= VALUE_CHARS_MAX else _cut(text, VALUE_CHARS_MAX)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"


class RepeatingWarnings(logging.Handler):
    """Passes records on to the handlers that write them; warnings of a lasting condition only now and then."""

    def __init__(self, handlers: list[logging.Handler], now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._handlers = handlers
        self._now_s = now_s
        self._repeats = RepeatLimit()

    def emit(self, record: logging.LogRecord) -> None:
        shorten(record)
        if record.levelno >= logging.WARNING:
            said = self._repeats.suffix_if_due(condition_of(record), self._now_s())
            if said is None:
                return
            if said:
                record.msg, record.args = record.getMessage() + said, None
        for handler in self._handlers:
            if record.levelno >= handler.level:
                handler.handle(record)

    def close(self) -> None:
        for handler in self._handlers:
            handler.close()
        super().close()
