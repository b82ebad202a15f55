"""`rocketeer spark JOB` as tests call it: in this process with its session, or as a process that can be stopped anywhere."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import pytest

from rocketeer.cli.main import main
from support.sessions import kill_session, signal_session

WAIT_S = 400
"""So long may a driver take on a machine with much else to do; some 15 s on one without."""
MASTER = ("--master", "local[2]", "--conf", "spark.driver.memory=1g")
NOISE = re.compile(r"Traceback|\.scala:|\.java:|\tat |Exception|py4j|WARN|ERROR")
"""What a person must never be shown."""
PROGRESS = re.compile(r" rows  [\d,]+ rows/s  ")
"""What a person is shown every few seconds, when it takes so long."""


class Said(NamedTuple):
    """What a command ended with."""

    code: int
    out: str
    err: str

    def fine(self) -> Self:
        assert self.code == 0, self.err
        assert not NOISE.search(self.out + self.err), self
        return self

    def line(self) -> str:
        """Of a command that was refused: the one line it said."""
        (line,) = self.lines()
        return line

    def lines(self) -> list[str]:
        """Of a command that failed on the way: what it said."""
        assert self.code == 1, self
        assert not NOISE.search(self.out + self.err), self
        lines = [line for line in self.err.splitlines() if not PROGRESS.search(line)]
        assert all(line.startswith("rocketeer: ") for line in lines), self
        return [line.removeprefix("rocketeer: ") for line in lines]


class Commands:
    """Runs `rocketeer spark ...` here, with the session that is there: a second each, not the start of a JVM."""

    def __init__(
        self, capsys: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch, nameserver: str
    ) -> None:
        self._capsys = capsys
        self._patch = patch
        self._patch.setenv("NAMESRV_ADDR", nameserver)
        self._patch.setenv("COLUMNS", "200")

    def __call__(self, *words: object) -> Said:
        self._capsys.readouterr()
        self._patch.setattr(sys, "argv", ["rocketeer", "spark", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        code = ended.value.code
        return Said(code if isinstance(code, int) else int(code is not None), *self._capsys.readouterr())


class Driver:
    """`rocketeer spark ...` as a process with a terminal's process group: `with Driver("archive", ...) as driver`."""

    def __init__(self, *words: object, cwd: Path | None = None) -> None:
        command = [sys.executable, "-m", "rocketeer.cli.main", "spark", *map(str, words), *MASTER]
        self.process = subprocess.Popen(
            command,
            cwd=cwd,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def signal_all(self, number: signal.Signals) -> None:
        """The driver, its JVM and Python workers."""
        signal_session(self.process.pid, number)

    def freeze_when(self, true: Callable[[], bool]) -> None:
        """Stop all its processes at a moment where it is true, also after they have stopped."""
        end_s = time.monotonic() + WAIT_S
        while True:
            assert self.process.poll() is None, "\n".join(self.process.communicate())
            assert time.monotonic() < end_s, "it never came to that"
            if true():
                for _ in range(3):  # some may have been born meanwhile
                    self.signal_all(signal.SIGSTOP)
                if true():
                    return
                self.signal_all(signal.SIGCONT)
            time.sleep(0.01)

    def kill(self) -> None:
        """kill -9 of all of them."""
        kill_session(self.process.pid)
        self.process.wait(30)

    def kill_driver(self) -> None:
        """kill -9 of the driver alone: its JVM finds out by itself."""
        self.process.kill()
        self.signal_all(signal.SIGCONT)
        self.process.wait(30)

    def stop(self, number: signal.Signals) -> Said:
        """As a terminal (Ctrl-C: to the group) or an operator (SIGTERM) would; then it goes on to its end."""
        self.signal_all(signal.SIGCONT)
        if number == signal.SIGINT:
            os.killpg(self.process.pid, number)
        else:
            self.process.send_signal(number)
        return self.end()

    def end(self) -> Said:
        out, err = self.process.communicate(timeout=WAIT_S)
        return Said(self.process.returncode, out, err)


def to_its_end(*words: object) -> Said:
    """A whole run. Spark gives its Python processes 10 s to come up, which a busy machine may miss: then once more."""
    for _ in range(3):
        with Driver(*words) as driver:
            said = driver.end()
        if said.code == 0 or "did not come up in time" not in said.err:
            break
    return said
