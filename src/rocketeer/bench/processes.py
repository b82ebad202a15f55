"""A server as a real process: started, watched until it answers, measured through /proc, stopped by its pid.

The bottom of the benchmark, and of every test that wants a broker it can kill.
"""

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Final, Protocol

from rocketeer.errors import RocketeerError

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_POLL_S = 0.02
ENDING_WITH_PARENT: Final = (
    () if shutil.which("setpriv") is None else ("setpriv", "--pdeathsig", "KILL", "--")
)
"""In front of a command: it ends when the thread that started it does, where util-linux is installed."""


class ServerFailed(RocketeerError):
    """A server that did not start, did not answer in time or ended by itself; the text ends with its last lines."""


def wait_for(ready: Callable[[], bool], timeout_s: float, *, poll_s: float = _POLL_S) -> bool:
    """Poll until it is so; False when it was not in time."""
    give_up_s = time.monotonic() + timeout_s
    while not ready():
        if time.monotonic() > give_up_s:
            return False
        time.sleep(poll_s)
    return True


@contextmanager
def _termination_waits() -> Iterator[None]:
    """SIGTERM comes when the block has ended: an exception of our handler in the middle would leave a server behind
    that nobody knows. Handlers run in the main thread only, so there is nothing to do in others.
    """
    before = signal.getsignal(signal.SIGTERM)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    came: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        if came:
            signal.raise_signal(signal.SIGTERM)


@contextmanager
def _on_cores(cores: frozenset[int] | None) -> Iterator[None]:
    """Processes that this thread starts meanwhile run on these cores."""
    if cores is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Running(Protocol):
    """A process that was started, as `subprocess.Popen` tells of it."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def terminate(self) -> None: ...


class ServerProcess:
    """One started process; its output goes to `log`, which is appended to across restarts.

    It does not outlive the process that started it, unless a thread did that may end before.
    """

    launch: ClassVar[Callable[[Sequence[str], Mapping[str, str], Path], Running | None] | None] = None
    """Another way to start one, from command, environment and log: of tests (tests/support/forked_servers.py)."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cores: frozenset[int] | None = None,
        files_max: int | None = None,
    ) -> None:
        self.command = tuple(command)
        self.log = log

        launch = type(self).launch
        env = {**os.environ, **(env or {})}
        started: Running | None = None
        if launch is not None and cores is None and files_max is None:
            log.touch()
            started = launch(self.command, env, log)
        self._process = started or self._start(env, cores, files_max)

    def _start(
        self, env: Mapping[str, str], cores: frozenset[int] | None, files_max: int | None
    ) -> "subprocess.Popen[bytes]":
        # No preexec_fn: it would run Python in a copy of this process, where what other threads have ends. py4j's
        # connections do so with a shutdown of sockets that are ours as well: Spark would lose its threads.
        limited = () if files_max is None else ("sh", "-c", 'ulimit -n "$0" && exec "$@"', str(files_max))
        by_main_thread = threading.current_thread() is threading.main_thread()
        ending = ENDING_WITH_PARENT if by_main_thread else ()
        with self.log.open("ab") as out, _termination_waits(), _on_cores(cores):
            return subprocess.Popen(
                [*ending, *limited, *self.command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=env,
                start_new_session=True,  # a Ctrl-C in the terminal is ours to handle
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """Exit code of the process; None while it runs."""
        return self._process.poll()

    def wait_until(self, ready: Callable[[], bool], *, timeout_s: float, what: str) -> None:
        """Poll `ready` until it is true; a process that ends or stays silent is an error with its last words."""

        def is_ready() -> bool:
            if ready():
                return True
            if not self.running:
                raise ServerFailed(f"{what} ended with exit code {self.exit_code}\n{self.last_lines()}")
            return False

        if not wait_for(is_ready, timeout_s):
            raise ServerFailed(f"{what} was not ready after {timeout_s:g} s\n{self.last_lines()}")

    def stop(self, *, timeout_s: float = 60) -> int:
        """SIGTERM, as an operator would; SIGKILL when it does not obey. Returns the exit code."""
        if self.running:
            self._process.terminate()
            try:
                return self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.kill()
                raise ServerFailed(
                    f"pid {self.pid} ignored SIGTERM for {timeout_s:g} s\n{self.last_lines()}"
                ) from None
        return self._process.wait()

    def kill(self) -> None:
        """SIGKILL: the process gets no chance to write anything."""
        if self.running:
            os.kill(self.pid, signal.SIGKILL)
        self._process.wait()

    def last_lines(self, count: int = 15) -> str:
        """The end of its log, for error texts."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(f"  | {line}" for line in lines[-count:]) or f"  (nothing in {self.log})"


# --- /proc -----------------------------------------------------------------------------------


def cpu_seconds(pid: int) -> float:
    """User and system time the process has used, all threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def anonymous_bytes(pid: int) -> int:
    """Memory that belongs to the process alone; mapped log files are page cache and do not count."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) * 1024
    raise ServerFailed(f"/proc/{pid}/smaps_rollup has no line 'Anonymous:'")


def unwritten_bytes() -> int:
    """What the machine's memory holds for its disks and they do not have yet."""
    with open("/proc/meminfo", encoding="ascii") as lines:
        sizes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
    return (sizes["Dirty"] + sizes["Writeback"]) * 1024
