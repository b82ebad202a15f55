"""Liveness and readiness over HTTP, for Kubernetes and load balancers: two small pages on the app's own loop.

GET /live       200 while the loop answers (of several workers: while each of them does), 503 else
GET /ready      200 while messages are consumed; 503 at the start, while it stops, and while no broker is reached
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final

from rocketeer.errors import PortInUse

log = logging.getLogger(__name__)

REQUEST_BYTES_MAX: Final = 8 << 10
REQUEST_S_MAX: Final = 5.0
_REASONS: Final = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}


@dataclass(frozen=True, slots=True)
class Health:
    """What the two pages say."""

    live: bool
    ready: bool


@contextlib.asynccontextmanager
async def health_pages(host: str, port: int, health: Callable[[], Health]) -> AsyncIterator[int]:
    """Serve them for as long as the block runs; brings the port (of 0, a free one). Raises PortInUse."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Whoever asks for something else, or too slowly, is told or left: it is no matter of the app's.
        with contextlib.suppress(OSError, TimeoutError, ValueError, asyncio.IncompleteReadError):
            async with asyncio.timeout(REQUEST_S_MAX):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(response(head, health()))
                await writer.drain()
        writer.close()

    try:
        server = await asyncio.start_server(answer, host, port, limit=REQUEST_BYTES_MAX)
    except OSError as error:
        raise PortInUse(host, port) from error
    async with server:
        bound: int = server.sockets[0].getsockname()[1]
        log.info("health pages host=%s port=%d", host, bound)
        yield bound


def response(head: bytes, health: Health) -> bytes:
    """The answer to a request's head; pure."""
    method, _, rest = head.partition(b" ")
    path = rest.split(b" ", 1)[0].split(b"?", 1)[0].rstrip(b"/")
    known = {b"/live": health.live, b"/ready": health.ready}
    if path not in known:
        status, said = 404, {"error": "there are /live and /ready"}
    elif method not in (b"GET", b"HEAD"):
        status, said = 405, {"error": "only GET and HEAD"}
    else:
        status = 200 if known[path] else 503
        said = {path[1:].decode(): known[path]}  # type: ignore[dict-item]
    body = json.dumps(said).encode()
    lines = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return lines.encode() + (b"" if method == b"HEAD" else body)
