"""Where the servers' log lines go: stderr, and rotated files when nobody looks at stderr."""

import atexit
import logging
import os
import sys
from contextlib import suppress
from enum import StrEnum
from logging.handlers import QueueHandler, QueueListener, RotatingFileHandler
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

from rocketeer.observe.log_lines import JsonFormat, LineFormat, RepeatingWarnings

FILE_BYTES: Final = 64 << 20
FILES_MAX: Final = 10
LINES_WAITING_MAX: Final = 8_192
"""For a disk that is slow; further ones are dropped, and counted."""
LINKS: Final = Path("logs") / "rocketmqlogs"
"""Under the home folder: where people who know RocketMQ look for logs."""


class LogLevel(StrEnum):
    """The least important lines that are still shown."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """For people, or for machines."""

    TEXT = "text"
    JSON = "json"


def show_logs(
    level: LogLevel,
    *,
    server: str = "",
    log_format: LogFormat = LogFormat.TEXT,
    file: Path | None = None,
) -> None:
    """Send lines of this level and above to stderr, and to a file that is rotated.

    `server` tells the lines of several processes apart. The file is written by a thread: no disk holds up the loop.
    """
    handlers: list[logging.Handler] = [logging.StreamHandler(sys.stderr)]
    handlers[0].setFormatter(
        JsonFormat(server) if log_format is LogFormat.JSON else LineFormat(f"{server} " if server else "")
    )
    if file is not None:
        handlers.append(_file_handler(file, JsonFormat(server) if log_format is LogFormat.JSON else None))
    root = logging.getLogger()
    root.handlers[:] = [RepeatingWarnings(handlers)]
    root.setLevel(level.upper())


def log_file(folder: Path | None, default: Path, name: str) -> Path | None:
    """The file to write: in `folder` if one is given, in `default` for a service, none for a person at a terminal."""
    if folder is None and not is_service():
        return None
    path = (folder or default).absolute() / name
    _link(path)
    return path


def is_service() -> bool:
    """Whether nobody sees stderr: systemd runs us, or it goes to /dev/null as with RocketMQ's own scripts."""
    if os.environ.get("INVOCATION_ID"):
        return True
    with suppress(OSError, ValueError):
        return os.path.samestat(os.fstat(sys.stderr.fileno()), os.stat(os.devnull))
    return False


def _file_handler(path: Path, formatter: logging.Formatter | None) -> logging.Handler:
    path.parent.mkdir(parents=True, exist_ok=True)
    file = RotatingFileHandler(path, maxBytes=FILE_BYTES, backupCount=FILES_MAX, encoding="utf-8", delay=True)
    file.setFormatter(formatter or LineFormat(with_date=True))
    queue: SimpleQueue[Any] = SimpleQueue()
    listener = QueueListener(queue, file)
    listener.start()
    atexit.register(listener.stop)
    return BoundedQueueHandler(queue)


class BoundedQueueHandler(QueueHandler):
    """Hands lines to the thread that writes them, as long as not too many wait for it."""

    def __init__(self, queue: SimpleQueue[Any]) -> None:
        super().__init__(queue)
        self._waiting = queue
        self._dropped = 0

    def enqueue(self, record: logging.LogRecord) -> None:
        if self._waiting.qsize() >= LINES_WAITING_MAX:
            self._dropped += 1
            return
        if self._dropped:
            count, self._dropped = self._dropped, 0
            text = f"log lines dropped count={count}: the disk did not take them in time"
            where = (record.pathname, record.lineno)
            self._waiting.put(logging.LogRecord(__name__, logging.WARNING, *where, text, None, None))
        self._waiting.put(record)


def _link(path: Path) -> None:
    """Lead those who look where RocketMQ writes its logs to ours; whatever stands there already stays."""
    link = Path.home() / LINKS / path.name
    with suppress(OSError):
        link.parent.mkdir(parents=True, exist_ok=True)
        if link.is_symlink() and not link.exists():
            link.unlink()
        if not os.path.lexists(link):
            link.symlink_to(path)
