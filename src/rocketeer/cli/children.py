"""A broker in a process of its own, for `rocketeer up --brokers N`: one core each, never a shared log.

parent -> child, stdin:  one line of JSON (BrokerPlan), then the pipe stays open as long as the parent lives
child -> parent, stdout: one line of JSON, {"ready": true} or {"error": "..."}
"""

import asyncio
import contextlib
import json
import sys
from collections.abc import Callable

from rocketeer.cli.logs import LogFormat, LogLevel, log_file, show_logs
from rocketeer.cli.plan import BrokerPlan
from rocketeer.cli.serve import run_loop, serve
from rocketeer.errors import RocketeerError

STOP_S_MAX = 30.0
COMMAND = "broker-child"


class ChildBroker:
    """The parent's side: starts the process, waits until it serves, and reports when it dies."""

    def __init__(
        self, plan: BrokerPlan, level: LogLevel, log_format: LogFormat, on_crash: Callable[[str], None]
    ) -> None:
        self._plan = plan
        self._level = level
        self._log_format = log_format
        self._on_crash = on_crash
        self._process: asyncio.subprocess.Process | None = None
        self._watch: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *(
                sys.executable,
                "-m",
                "rocketeer",
                COMMAND,
                "--log-level",
                self._level,
                "--log-format",
                self._log_format,
            ),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            # Ctrl-C reaches the whole foreground group; the parent alone decides in which order we stop.
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(self._plan.to_json().encode() + b"\n")
        line = await self._process.stdout.readline()
        answer = json.loads(line) if line else {"error": "ended before it was ready"}
        if not answer.get("ready"):
            await self.stop()
            raise RocketeerError(f"{self._plan.name}: {answer['error']}")
        self._watch = asyncio.create_task(self._report_crash(), name=f"watch-{self._plan.name}")

    async def stop(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        process = self._process
        if process is None or process.returncode is not None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), STOP_S_MAX)
        except TimeoutError:
            self.kill()
            await process.wait()

    def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def _report_crash(self) -> None:
        assert self._process is not None
        code = await self._process.wait()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        self._on_crash(f"{self._plan.name} at {self._plan.address} ended ({how}); the others go on")


def run_child(level: LogLevel, log_format: LogFormat) -> int:
    """The child's side: serve until the parent closes the pipe, or is gone."""
    plan = BrokerPlan.from_json(sys.stdin.readline())
    file = log_file(None, plan.store_path / "logs", f"{plan.name}.log")
    show_logs(level, server=plan.name, log_format=log_format, file=file)

    def tell(answer: dict[str, object]) -> None:
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps(answer), flush=True)

    try:
        from rocketeer.broker.assemble import Broker
        from rocketeer.clock import SystemClock

        broker = Broker(plan.broker_config, plan.store_config, plan.server_config, SystemClock())
        run_loop(serve([broker], ready=lambda: tell({"ready": True}), stop_at_end_of_stdin=True))
    except (RocketeerError, OSError) as error:
        tell({"error": str(error)})
        return 1
    return 0
