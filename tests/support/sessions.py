"""Programs with processes of their own, JVMs and Python workers among them: none outlives the test that began it."""

import os
import signal
import time
from pathlib import Path


def processes_of(session: int) -> list[int]:
    """All that live in a session (`start_new_session=True`), also those whose parent is gone or whose group is another."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            after_name = (path / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(after_name[3]) == session and after_name[0] != "Z":
            found.append(int(path.name))
    return found


def signal_session(session: int, number: signal.Signals) -> None:
    for pid in processes_of(session):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def kill_session(session: int) -> None:
    """kill -9 of all of them, also of those that were born meanwhile."""
    while processes_of(session):
        signal_session(session, signal.SIGKILL)
        time.sleep(0.02)
