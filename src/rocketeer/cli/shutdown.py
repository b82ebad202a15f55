"""Which processes of this user are our servers, and how they are asked to stop.

A process is ours if its command line says so: Python, with `-m rocketeer` or with a script that imports `rocketeer`,
and a name or a subcommand that runs one server. Nothing else is signalled: no Java broker, nothing of another user.
"""

import os
import select
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from rocketeer.errors import ConfigError

STOP_S: Final = 300.0
"""How long a server may take: it brings everything to disk first."""


class ServerKind(StrEnum):
    """What `mqshutdown` stops."""

    BROKER = "broker"
    NAMESRV = "namesrv"


class RunningServer(NamedTuple):
    """A server of ours that runs."""

    pid: int
    kind: ServerKind


def kind_of(words: Sequence[str]) -> ServerKind | None:
    """What a process with this command line runs, if it is a server of ours."""
    if not words or not Path(words[0]).name.startswith("python"):
        return None
    rest = list(words[1:])
    while rest and rest[0].startswith("-") and rest[0] != "-m":
        if rest.pop(0) in ("-c", "-W", "-X"):
            return None
    if rest[:2] == ["-m", "rocketeer"]:
        return _server_named(rest[2] if len(rest) > 2 else "")
    if rest and _is_our_script(Path(rest[0])):
        name = Path(rest[0]).name
        return _server_named((rest[1] if len(rest) > 1 else "") if name == "rocketeer" else name)
    return None


def _server_named(name: str) -> ServerKind | None:
    return {
        "broker": ServerKind.BROKER,
        "mqbroker": ServerKind.BROKER,
        "namesrv": ServerKind.NAMESRV,
        "mqnamesrv": ServerKind.NAMESRV,
    }.get(name)


def _is_our_script(path: Path) -> bool:
    """A console script as pip writes them: a few lines that import the program from here."""
    try:
        return path.is_absolute() and b"from rocketeer.__main__ import" in path.read_bytes()[:4096]
    except OSError:
        return False


def our_servers(kind: ServerKind) -> Iterator[RunningServer]:
    """Every server of this kind that runs under this user."""
    for name in sorted(filter(str.isdigit, os.listdir("/proc")), key=int):
        if _kind_of_process(int(name)) is kind:
            yield RunningServer(int(name), kind)


def _kind_of_process(pid: int) -> ServerKind | None:
    folder = Path("/proc", str(pid))
    try:
        if folder.stat().st_uid != os.getuid():
            return None
        words = (folder / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    except OSError:  # it has ended, or is not ours to look at
        return None
    return kind_of([os.fsdecode(word) for word in words])


def shut_down(kind: ServerKind, pids: Iterable[int] = ()) -> int:
    """Ask these servers, or all of this kind, to stop, and wait for them; an exit code."""
    chosen = [RunningServer(pid, kind) for pid in pids] or list(our_servers(kind))
    if not chosen:
        print(f"No mq{kind} running.")
        return 1
    waiting = []
    for server in chosen:
        ending = _ask(server)
        if ending is not None:
            waiting.append((server, ending))
    deadline_s = time.monotonic() + STOP_S
    try:
        late = [server for server, ending in waiting if not _has_ended(ending, deadline_s - time.monotonic())]
    finally:
        for _, ending in waiting:
            os.close(ending)
    for server in late:
        print(f"mq{kind}({server.pid}) has not ended after {STOP_S:.0f} s")
    return 1 if late else 0


def _ask(server: RunningServer) -> int | None:
    """Signal the process once (a second signal would end it at once); a descriptor that tells when it has ended."""
    try:
        handle = os.pidfd_open(server.pid)
    except (ProcessLookupError, OverflowError):
        raise ConfigError(f"there is no process {server.pid}") from None
    # The handle stays with this very process: looked at again now, a number that changed hands is noticed.
    if _kind_of_process(server.pid) is not server.kind:
        os.close(handle)
        raise ConfigError(f"process {server.pid} is no mq{server.kind} of this user: left alone")
    print(f"The mq{server.kind}({server.pid}) is running...", flush=True)
    try:
        signal.pidfd_send_signal(handle, signal.SIGTERM)
    except ProcessLookupError:
        os.close(handle)
        return None
    print(f"Send shutdown request to mq{server.kind}({server.pid}) OK", flush=True)
    return handle


def _has_ended(handle: int, wait_s: float) -> bool:
    return bool(select.select([handle], [], [], max(wait_s, 0.0))[0])
