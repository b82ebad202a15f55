"""The console beside `rocketeer up`: a process of its own, so that pages never cost the broker's loop."""

import asyncio
import contextlib
import importlib.util
import socket
import sys

CONSOLE_PORT = 8080
STOP_S = 5.0


def why_no_console(port: int) -> str:
    """Why it cannot be started; empty if it can."""
    for module in ("argon2", "itsdangerous", "jinja2", "multipart", "starlette", "uvicorn"):
        if importlib.util.find_spec(module) is None:
            return "pip install 'rocketeer[console]'"
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return f"port {port} is in use, choose another with --console-port"
    return ""


class ConsoleChild:
    """Starts and ends with the servers; should this process die, the end of its stdin tells the child."""

    def __init__(self, nameserver: str, port: int) -> None:
        self._arguments = ("console", "-n", nameserver, "--port", str(port), "--until-stdin-ends")
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Does not wait until it serves: brokers do not need it."""
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "rocketeer", *self._arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )

    async def stop(self) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), STOP_S)
        except TimeoutError:
            self.kill()
            await process.wait()

    def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
