"""Who changed what: a line of JSON for every action, before and after it is done."""

import json
import logging
import time
from pathlib import Path

log = logging.getLogger(__name__)


class AuditLog:
    """Appends to a file, or to the program's log. Values of fields that hold secrets are left out."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def record(self, *, user: str, cluster: str, action: str, fields: dict[str, str], outcome: str) -> None:
        shown = {
            name: "***" if "secret" in name.lower() or "password" in name.lower() else value[:200]
            for name, value in fields.items()
        }
        entry = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "user": user,
            "cluster": cluster,
            "action": action,
            "fields": shown,
            "outcome": outcome[:500],
        }
        line = json.dumps(entry, ensure_ascii=False)
        if self._path is None:
            log.info("console action %s", line)
            return
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
