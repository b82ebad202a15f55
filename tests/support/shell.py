"""`rocketeer` run for real, as a person in a shell would: `from support.shell import Shell`."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

WAIT_S = 90


class Shell:
    """Runs `rocketeer ...` as a person would, in a home folder of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._running: list[subprocess.Popen[str]] = []
        self._env = {**os.environ, "HOME": str(home), "PYTHONUNBUFFERED": "1"}
        for name in ("NAMESRV_ADDR", "JAVA_OPT", "JAVA_OPT_EXT", "ROCKETMQ_HOME"):
            self._env.pop(name, None)

    def run(self, *arguments: object, **env: str) -> subprocess.CompletedProcess[str]:
        return self._run(self._command(arguments), env)

    def run_program(self, *words: object, **env: str) -> subprocess.CompletedProcess[str]:
        """Another program than `rocketeer`."""
        return self._run([str(word) for word in words], env)

    def _run(self, command: list[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            env={**self._env, **env},
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
        )

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        return self._start(self._command(arguments))

    def start_program(self, *words: object) -> subprocess.Popen[str]:
        """Another program than `rocketeer`."""
        return self._start([str(word) for word in words])

    def _start(self, command: list[str]) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command,
            env=self._env,
            cwd=self.home,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._running.append(process)
        return process

    def end_all(self) -> None:
        for process in self._running:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.communicate()

    @staticmethod
    def _command(arguments: tuple[object, ...]) -> list[str]:
        return [sys.executable, "-m", "rocketeer", *map(str, arguments)]


def read_until(process: subprocess.Popen[str], text: str) -> str:
    """The output up to and with the line that holds `text`; fails when it ends before."""
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if text in line:
            return seen
    raise AssertionError(f"ended without {text!r}: {seen}{process.stderr and process.stderr.read()}")


def stop(process: subprocess.Popen[str], how: signal.Signals = signal.SIGTERM) -> tuple[int, str, str]:
    """Stop the program: its exit code, the rest of stdout, and of stderr but for warnings that the machine was busy."""
    process.send_signal(how)
    out, err = process.communicate(timeout=WAIT_S)
    said = [line for line in err.splitlines(keepends=True) if "loop stalled" not in line]
    return process.returncode, out, "".join(said)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
