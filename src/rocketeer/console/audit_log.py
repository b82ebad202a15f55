"""Who changed what, signed in or was refused: lines of JSON; an action has one before it is done and one after."""

import json
import logging
import os
import time
from pathlib import Path

log = logging.getLogger(__name__)


class AuditLog:
    """Appends to a file that only its owner reads, or to the program's log. What cannot be noted is not done."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def record(
        self,
        event: str,
        *,
        user: str,
        address: str,
        cluster: str = "",
        action: str = "",
        fields: dict[str, str] | None = None,
        outcome: str = "",
    ) -> None:
        """Raises OSError when the line could not be written."""
        entry: dict[str, object] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "event": event,
            "user": user[:200],
            "address": address,
        }
        if action:
            entry |= {"cluster": cluster, "action": action, "fields": _shown(fields or {})}
        if outcome:
            entry["outcome"] = outcome[:500]
        line = json.dumps(entry, ensure_ascii=False)
        if self._path is None:
            log.info("console %s", line)
            return
        fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            data = line.encode(errors="backslashreplace") + b"\n"
            if os.write(fd, data) != len(data):  # one write: lines of two threads never mix
                raise OSError(f"{self._path}: only a part of a line could be written")
        finally:
            os.close(fd)


def _shown(fields: dict[str, str]) -> dict[str, str]:
    return {name: value[:200] for name, value in fields.items()}
