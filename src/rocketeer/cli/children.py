"""A broker in a process of its own, for `rocketeer up --brokers N`: one core each, never a shared log.

parent -> child, stdin:  one line of JSON (BrokerSpec), then the pipe stays open as long as the parent lives
child -> parent, stdout: one line of JSON, {"ready": true} or {"error": "..."}
"""

import asyncio
import contextlib
import json
import sys
from collections.abc import Callable

from rocketeer.cli.child_process import ChildProcess
from rocketeer.cli.logs import LogFormat, LogLevel, log_file, show_logs
from rocketeer.cli.serve import run_loop, serve
from rocketeer.cli.up_spec import BrokerSpec
from rocketeer.errors import RocketeerError

COMMAND = "broker-child"


class ChildBroker(ChildProcess):
    """The parent's side: starts the process, waits until it serves, and reports when it dies."""

    def __init__(
        self, spec: BrokerSpec, level: LogLevel, log_format: LogFormat, on_crash: Callable[[str], None]
    ) -> None:
        super().__init__()
        self._spec = spec
        self._level = level
        self._log_format = log_format
        self._on_crash = on_crash

    async def start(self) -> None:
        process = await self._spawn(
            *(COMMAND, "--log-level", self._level, "--log-format", self._log_format),
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(self._spec.to_json().encode() + b"\n")
        line = await process.stdout.readline()
        answer = json.loads(line) if line else {"error": "ended before it was ready"}
        if not answer.get("ready"):
            await self.stop()
            raise RocketeerError(f"{self._spec.name}: {answer['error']}")
        self._report_end(self._crashed)

    def _crashed(self, code: int) -> None:
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        self._on_crash(f"{self._spec.name} at {self._spec.address} ended ({how}); the others go on")


def run_child(level: LogLevel, log_format: LogFormat) -> int:
    """The child's side: serve until the parent closes the pipe, or is gone."""
    spec = BrokerSpec.from_json(sys.stdin.readline())
    file = log_file(None, spec.store_path / "logs", f"{spec.name}.log")
    show_logs(level, server=spec.name, log_format=log_format, file=file)

    def tell(answer: dict[str, object]) -> None:
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps(answer), flush=True)

    try:
        from rocketeer.broker.assemble import Broker
        from rocketeer.broker.group.member import ReplicaGroupMember
        from rocketeer.clock import SystemClock

        kind = Broker if spec.group_etcd is None else ReplicaGroupMember
        broker = kind(spec.broker_config, spec.store_config, spec.server_config, SystemClock())
        run_loop(serve([broker], ready=lambda: tell({"ready": True}), stop_at_end_of_stdin=True))
    except (RocketeerError, OSError) as error:
        tell({"error": str(error)})
        return 1
    return 0
