"""Servers of tests are forked from a process that has imported them already: the imports cost more than most tests.

What runs is the command line of `rocketeer`, in a process of its own. A server that needs another beginning (a library
that is loaded before all others, settings that are read while modules are imported) is started by `ServerProcess` as
it starts all other programs.

    tests -- orders, one line each --> this module as a program -- forks --> servers
             pids and exit codes   <--
"""

import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from rocketeer.parent import end_with_parent

PROGRAM: Final = (sys.executable, "-m", "rocketeer.cli.main")
SERVERS: Final = ("broker", "namesrv")
IMPORTED: Final = (
    "rocketeer.cli.main",
    "rocketeer.broker.assemble",
    "rocketeer.broker.group.member",
    "rocketeer.nameserver.server",
    "typer._adapters",
    "uvloop",
    "httpx2",
)
READ_EARLY: Final = ("LD_", "PYTHON", "ROCKETEER_", "MALLOC_")
"""Variables that count before the first line of a server runs."""


class Forks:
    """The process from which servers are forked; started when the first one is."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._number = 0
        self._early = _read_early(os.environ)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.forked_servers"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
            start_new_session=True,  # it ends with its input, after the servers
        )

    def fit(self, env: Mapping[str, str]) -> bool:
        return _read_early(env) == self._early

    def order(self, **order: Any) -> Any:
        """What it answers. A test that was interrupted may have left an answer unread."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._number += 1
            os.write(self._process.stdin.fileno(), json.dumps([self._number, order]).encode() + b"\n")
            while True:
                number, answer = json.loads(self._process.stdout.readline())
                if number == self._number:
                    return answer


class Forked:
    """One server, with what `ServerProcess` asks of a `subprocess.Popen`."""

    def __init__(self, forks: Forks, **order: Any) -> None:
        self._forks = forks
        self._exit_code: int | None = None
        self.pid: int = forks.order(**order)

    def poll(self) -> int | None:
        if self._exit_code is None:
            self._exit_code = self._forks.order(poll=self.pid)
        return self._exit_code

    def wait(self, timeout: float | None = None) -> int:
        give_up_s = float("inf") if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > give_up_s:
                raise subprocess.TimeoutExpired("a forked server", timeout or 0)
            time.sleep(0.005)
        return code

    def terminate(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGTERM)


_forks: list[Forks] = []


def launch(command: Sequence[str], env: Mapping[str, str], log: Path) -> Forked | None:
    """For `ServerProcess.launch`: None if it has to start it as it does."""
    program, words = tuple(command[: len(PROGRAM)]), command[len(PROGRAM) :]
    if program != PROGRAM or words[0] not in SERVERS:
        return None
    if not _forks:
        _forks.append(Forks())
    if not _forks[0].fit(env):
        return None
    return Forked(_forks[0], words=list(words), env=dict(env), cwd=os.getcwd(), log=str(log))


def _read_early(env: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in env.items()
        if name.startswith(READ_EARLY) and name != "PYTHONUNBUFFERED"
    }


# --- the process that forks ------------------------------------------------------------------


def main() -> None:
    """Until its input ends; in a server, until that ends."""
    for module in IMPORTED:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # what all servers share is not looked at again: pages that are not written to stay shared
    while line := sys.stdin.buffer.readline():
        number, order = json.loads(line)
        if "poll" in order:
            pid, status = os.waitpid(order["poll"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        else:
            answer = os.fork()
            if not answer:
                _serve(**order)
        print(json.dumps([number, answer]), flush=True)


def _serve(words: list[str], env: dict[str, str], cwd: str, log: str) -> NoReturn:
    from rocketeer.cli import main as program

    end_with_parent(signal.SIGKILL)
    os.setsid()
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    for path, flags, descriptors in (
        ("/dev/null", os.O_RDONLY, (0,)),
        (log, os.O_WRONLY | os.O_APPEND, (1, 2)),
    ):
        opened = os.open(path, flags)
        for descriptor in descriptors:
            os.dup2(opened, descriptor)
        os.close(opened)
    sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr] # as with PYTHONUNBUFFERED
    sys.argv = ["rocketeer", *words]
    program.main()


if __name__ == "__main__":
    main()
