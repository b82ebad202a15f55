"""What the servers say while they run: one short line per event, on stderr."""

import logging
import sys
from enum import StrEnum


class LogLevel(StrEnum):
    """The least important lines that are still shown."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class _Line(logging.Formatter):
    """`12:30:01.250 WARNING store.retention disk nearly full used=88`, without our package's own name."""

    default_msec_format = "%s.%03d"
    default_time_format = "%H:%M:%S"

    def __init__(self, prefix: str) -> None:
        super().__init__(f"%(asctime)s %(levelname)-7s {prefix}%(name)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        record.name = record.name.removeprefix("rocketeer.")
        return super().format(record)


def show_logs(level: LogLevel, *, server: str = "") -> None:
    """Send lines of this level and above to stderr; `server` tells the lines of several processes apart."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Line(f"{server} " if server else ""))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
