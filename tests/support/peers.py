"""Client programs nobody here wrote, each in a process of its own that says what it sees in JSON lines.

All take the same verbs and options (interop/cpp/peer.py lists them), so one test speaks to every one of them.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

INTEROP = Path(__file__).parents[2] / "interop"
Event = dict[str, Any]


class Running:
    """A peer at work; a thread collects its events."""

    def __init__(self, command: Sequence[str], home: Path) -> None:
        self._errors = home / f"peer-{time.monotonic_ns()}.err"
        self._changed = threading.Condition()
        self.events: list[Event] = []
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "HOME": str(home)},  # they write logs and offsets there
                cwd=home,
                text=True,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                with self._changed:
                    self.events.append(json.loads(line))
                    self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    @property
    def pid(self) -> int:
        return self._process.pid

    def of(self, name: str) -> list[Event]:
        """The events of one name so far."""
        with self._changed:
            return [event for event in self.events if event["event"] == name]

    def wait_for(self, condition: Callable[[], bool], *, timeout_s: float, what: str) -> None:
        """Wait until the events make the condition true."""
        give_up_s = time.monotonic() + timeout_s
        with self._changed:
            while not condition():
                left_s = give_up_s - time.monotonic()
                if left_s <= 0 or not self._changed.wait(min(left_s, 0.5)):
                    code = self._process.poll()
                    if code is not None and not self._reader.is_alive() and not condition():
                        raise AssertionError(f"the peer ended with {code} before {what}\n{self.story()}")
                    if left_s <= 0:
                        raise AssertionError(f"not within {timeout_s:g} s: {what}\n{self.story()}")

    def wait_ready(self) -> "Running":
        self.wait_for(lambda: any(e["event"] == "ready" for e in self.events), timeout_s=30, what="ready")
        return self

    def bodies(self, name: str = "message") -> list[str]:
        """The first words of the bodies: the names the sender gave."""
        return [event["body"].split(" ")[0] for event in self.of(name)]

    def finish(self, *, timeout_s: float = 60) -> list[Event]:
        """Wait for its last word, `done`. Some libraries crash or hang while they unload: that is not our matter."""
        self.wait_for(
            lambda: any(e["event"] == "done" for e in self.events), timeout_s=timeout_s, what="done"
        )
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(2)
        self.kill()
        return self.events

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._reader.join(5)
        if self._process.stdout is not None and not self._reader.is_alive():
            self._process.stdout.close()

    def story(self) -> str:
        """What it said, for a failing test."""
        said = "\n".join(json.dumps(event) for event in self.events[-20:])
        return f"{said}\n{self._errors.read_text(errors='replace')[-3000:]}"


class Peer:
    """One client library; `run` waits for the end, `start` leaves it running until the test is over."""

    def __init__(self, name: str, command: Sequence[str], home: Path) -> None:
        self.name = name
        self.command = tuple(command)
        self._home = home
        self._started: list[Running] = []

    def start(self, verb: str, **options: object) -> Running:
        words: list[str] = []
        for option, value in options.items():
            if value is not False:
                words += [f"--{option.replace('_', '-')}", *([] if value is True else [str(value)])]
        running = Running([*self.command, verb, *words], self._home)
        self._started.append(running)
        return running

    def run(self, verb: str, **options: object) -> list[Event]:
        return self.start(verb, **options).finish()

    def stop_all(self) -> None:
        for running in self._started:
            running.kill()


def cpp_peer(home: Path) -> Peer:
    """PyPI `rocketmq` 0.4.4."""
    return Peer("cpp", [sys.executable, str(INTEROP / "cpp" / "peer.py")], home)


def java_peer(home: Path, main: str = "interop.Peer") -> Peer:
    """Apache's own client; its jars and classes come from `mvn -f interop/java/pom.xml package`."""
    target = INTEROP / "java" / "target"
    if shutil.which("java") is None or not (target / "classes" / "interop" / "Peer.class").exists():
        pytest.skip("needs Java and: mvn -q -f interop/java/pom.xml package")
    classpath = f"{target}/classes:{target}/dependency/*"
    options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Duser.home={home}"]
    return Peer("java", ["java", *options, "-cp", classpath, main], home)


def node_peer(name: str, home: Path) -> Peer:
    """`ali_ons` or `rocketmq_nodejs`; the packages come from `npm ci` in interop/node."""
    if shutil.which("node") is None or not (INTEROP / "node" / "node_modules" / "ali-ons").exists():
        pytest.skip("needs Node.js and: npm ci --prefix interop/node")
    return Peer(name, ["node", str(INTEROP / "node" / f"{name}.js")], home)
