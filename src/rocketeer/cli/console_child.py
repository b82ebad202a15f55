"""The console beside `rocketeer up`: a process of its own, so that pages never cost the broker's loop."""

import asyncio
import importlib.util
import socket

from rocketeer.cli.child_process import ChildProcess

CONSOLE_PORT = 8080


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


class ConsoleChild(ChildProcess):
    """Starts and ends with the servers; should this process die, the end of its stdin tells the child."""

    STOP_S_MAX = 5.0

    def __init__(self, nameserver: str, port: int) -> None:
        super().__init__()
        self._arguments = ("console", "-n", nameserver, "--port", str(port), "--until-stdin-ends")

    async def start(self) -> None:
        """Start it, without waiting until it serves: brokers do not need it."""
        await self._spawn(*self._arguments, stdout=asyncio.subprocess.DEVNULL)
