"""Apache's mqadmin in one JVM: `run(...)` gives what a command printed."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from support.peers import java_peer

# What its output has when a command failed: it leaves with 0 all the same.
TROUBLE = ("Exception", "not supported", "\tat org.apache", "command failed")


_LOGBACK = """<configuration>
  <appender name="none" class="ch.qos.logback.core.helpers.NOPAppender"/>
  <root level="ERROR"><appender-ref ref="none"/></root>
</configuration>
"""


def tool_environment(home: Path) -> dict[str, str]:
    """Where the tool finds its logging configuration; without one it prints a stack trace first."""
    (home / "conf").mkdir(exist_ok=True)
    (home / "conf" / "logback_tools.xml").write_text(_LOGBACK)
    return {**os.environ, "ROCKETMQ_HOME": str(home)}


class JavaMqadmin:
    def __init__(self, home: Path, nameserver: str) -> None:
        self._nameserver = nameserver
        peer = java_peer(home, "interop.Mqadmin")
        self._process = subprocess.Popen(
            peer.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=home,
            env=tool_environment(home),
        )
        assert self._next()["event"] == "ready"

    def run(self, *words: object) -> str:
        """What it printed, whatever that is; without a command, its list of them."""
        assert self._process.stdin is not None
        line = "\t".join([*map(str, words), "-n", self._nameserver]) if words else ""
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        printed: str = self._next()["printed"]
        return printed

    def __call__(self, *words: object) -> str:
        """It must have worked, judged by what it printed."""
        printed = self.run(*words)
        assert not any(each in printed for each in TROUBLE), f"{words}: {printed[:2000]}"
        return printed

    def _next(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith('{"event"'):
                event: dict[str, Any] = json.loads(line)
                return event
        raise AssertionError(f"mqadmin ended with {self._process.wait(10)}")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)
