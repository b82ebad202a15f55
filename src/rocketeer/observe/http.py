"""Serves pages to Prometheus: a thread speaks HTTP, the loop makes the pages, in slices.

Whoever scrapes while a page is being made gets that one: a hundred scrapers cost as much as one.
What strangers can cost is bounded: so many connections, a request of so many bytes within so much time, and a pause
behind each, for the threads that read them share the interpreter with the loop.
"""

import asyncio
import io
import logging
import select
import socket
import ssl
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TookTooLong
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from rocketeer.errors import PortInUse
from rocketeer.observe.exposition import CONTENT_TYPE, MetricsBody
from rocketeer.remoting.server import TlsContext

log = logging.getLogger(__name__)

PAGE_S: Final = 30.0
"""Time limit for making a page: the loop is busy with better things."""
REQUEST_S: Final = 10.0
ANSWER_S: Final = 60.0
"""Time limit for a scraper to read one page, which stays in memory until then."""
CONNECTIONS_MAX: Final = 32
"""At a time; further ones are closed: each costs a thread."""
HEAD_BYTES_MAX: Final = 16 << 10
"""Largest head of a request: its line and its fields."""
REQUEST_PAUSE_S: Final = 0.05
"""After each request of a connection."""
ACCEPT_PAUSE_S: Final = 0.003

TLS_HELLO: Final = 0x16

MakePage = Callable[[], Awaitable[MetricsBody]]


def _no_tls() -> ssl.SSLContext | None:
    return None


class MetricsServer:
    """Listens from `start` to `stop`; `pages` are made on the loop that started it."""

    def __init__(
        self,
        host: str,
        port: int,
        pages: Mapping[str, MakePage],
        *,
        tls: TlsContext = _no_tls,
        plain: bool = True,
    ) -> None:
        """With `tls` whoever begins with a TLS hello gets it; with `plain=False` nobody comes without."""
        self._tls = tls
        self._plain = plain
        self._host = host.strip("[]")
        self._port = port
        self._pages = pages
        self._server: ThreadingHTTPServer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._being_made: dict[str, asyncio.Task[MetricsBody]] = {}
        self.answering = threading.Lock()
        """Held while a piece of an answer is made or sent: of many threads that do so at once the loop would have to
        wait for each."""

    @property
    def port(self) -> int:
        """The port it listens on, also when 0 was asked for."""
        assert self._server is not None
        return int(self._server.server_address[1])

    async def start(self) -> None:
        """Start to serve pages. Raises PortInUse."""
        self._loop = asyncio.get_running_loop()
        server = self

        class Handler(_Handler):
            metrics = server

        try:
            self._server = _Server((self._host, self._port), Handler, self._tls, self._plain)
        except OSError as error:
            raise PortInUse(self._host, self._port) from error
        threading.Thread(target=self._server.serve_forever, name="rocketeer-metrics", daemon=True).start()
        log.info("metrics served host=%s port=%d paths=%s", self._host, self.port, " ".join(self._pages))

    async def stop(self) -> None:
        if self._server is not None:
            await asyncio.to_thread(self._server.shutdown)
            self._server.server_close()
            self._server = None

    def page(self, path: str) -> "Future[MetricsBody] | None":
        """Called in the server's threads; None for a path there is nothing at."""
        if path not in self._pages or self._loop is None:
            return None
        return asyncio.run_coroutine_threadsafe(self._shared(path), self._loop)

    async def _shared(self, path: str) -> MetricsBody:
        task = self._being_made.get(path)
        if task is None:
            task = self._being_made[path] = asyncio.ensure_future(self._make(path))
            task.add_done_callback(lambda done: self._being_made.pop(path, None))
        return await asyncio.shield(task)

    async def _make(self, path: str) -> MetricsBody:
        return await self._pages[path]()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 16

    def __init__(
        self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler], tls: TlsContext, plain: bool
    ) -> None:
        self._tls = tls
        self._plain = plain
        self._slots = threading.BoundedSemaphore(CONNECTIONS_MAX)
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        time.sleep(ACCEPT_PAUSE_S)  # a thread for each: nobody begins more than some hundred in a second
        if self._slots.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            encrypted = self._greeted(request)
            if encrypted is None:
                self.shutdown_request(request)
            else:
                super().process_request_thread(encrypted, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log an error of a connection; a scraper that closed early is logged at debug level only."""
        error = sys.exception()
        if isinstance(error, OSError):
            log.debug("scraper gone by=%s error=%s", client_address[0], error)
        else:
            log.error("scrape failed by=%s", client_address[0], exc_info=error)

    def _greeted(self, request: socket.socket) -> socket.socket | None:
        """The connection with TLS if it begins with that; None if it may not go on as it begins."""
        try:
            request.settimeout(REQUEST_S)
            first = request.recv(1, socket.MSG_PEEK)
            if first[:1] != bytes([TLS_HELLO]):
                return request if self._plain else None
            context = self._tls()
            return None if context is None else context.wrap_socket(request, server_side=True)
        except OSError:  # it went away, or speaks no TLS that we know
            return None


class _Handler(BaseHTTPRequestHandler):
    metrics: MetricsServer
    _behind = b""
    """What came behind the request that is served."""
    _headers_buffer: list[bytes]
    """The library's: the lines of the answer's head that are not sent yet."""
    protocol_version = "HTTP/1.1"
    timeout = REQUEST_S

    def handle_one_request(self) -> None:
        """As the library's, for a head that is small and comes in time."""
        head = self._head()
        if head is None:
            self.close_connection = True
            return
        self.rfile = io.BufferedReader(io.BytesIO(head))
        try:
            super().handle_one_request()
            time.sleep(REQUEST_PAUSE_S)
        finally:
            self.rfile.close()

    def _head(self) -> bytes | None:
        """Up to the empty line; None if it does not come, or is too long."""
        ends_s = time.monotonic() + REQUEST_S
        data = self._behind
        while (end := data.find(b"\r\n\r\n")) < 0:
            left_s = ends_s - time.monotonic()
            if len(data) > HEAD_BYTES_MAX or left_s <= 0:
                return None
            try:
                self.connection.settimeout(left_s)
                more = self.connection.recv(4096)
            except OSError:
                return None
            if not more:
                return None
            data += more
        self.connection.settimeout(REQUEST_S)
        self._behind = data[end + 4 :]
        return data[: end + 4] if end <= HEAD_BYTES_MAX else None

    def do_GET(self) -> None:
        path = self.path.split("?")[0].rstrip("/") or "/metrics"
        future = self.metrics.page(path)
        if future is None:
            self._answer(
                HTTPStatus.NOT_FOUND, MetricsBody.of(b"metrics are at /metrics and /metrics/exporter\n")
            )
            return
        try:
            body = future.result(PAGE_S)
        except TookTooLong:
            future.cancel()
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, MetricsBody.of(b"the server is too busy\n"))
        except Exception:
            log.exception("metrics page failed path=%s", path)
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, MetricsBody.of(b"see the server's log\n"))
        else:
            self._answer(HTTPStatus.OK, body)

    def _answer(self, status: HTTPStatus, body: MetricsBody) -> None:
        with self.metrics.answering:
            head, pieces = self._made(status, body)
        ends_s = time.monotonic() + ANSWER_S
        self._send(head, ends_s)
        rest = iter(pieces)
        while True:
            with self.metrics.answering:
                piece = next(rest, None)
            if piece is None:
                break
            self._send(piece, ends_s)

    def _send(self, data: bytes, ends_s: float) -> None:
        """TimeoutError if the reader takes nothing for REQUEST_S, or is not done at `ends_s`."""
        left = memoryview(data)
        while left:
            wait_s = max(0.001, min(REQUEST_S, ends_s - time.monotonic()))
            self.connection.settimeout(wait_s)
            if isinstance(self.connection, ssl.SSLSocket):
                self.connection.sendall(left)
                return
            # One thread at a time sends, and it does not wait meanwhile: see `answering`.
            writable = select.poll()
            writable.register(self.connection, select.POLLOUT)
            if not writable.poll(wait_s * 1000):
                raise TimeoutError("the scraper does not read")
            with self.metrics.answering:
                left = left[self.connection.send(left) :]

    def _made(self, status: HTTPStatus, body: MetricsBody) -> tuple[bytes, Iterable[bytes]]:
        """Head and body as they are to be sent: not here, for the reader may be slow."""
        self.send_response(status)
        self.send_header("Content-Type", CONTENT_TYPE)
        # Packing costs more than the way to a scraper on the same machine.
        is_near = str(self.client_address[0]).startswith("127.")
        if not is_near and "gzip" in self.headers.get("Accept-Encoding", ""):
            packed = body.packed()
            pieces: Iterable[bytes] = packed
            size = sum(map(len, packed))
            self.send_header("Content-Encoding", "gzip")
        else:
            pieces, size = body.plain(), body.size
        self.send_header("Content-Length", str(size))
        if self.request_version == "HTTP/0.9":  # knows no heads
            return b"", pieces
        head, self._headers_buffer = b"".join(self._headers_buffer), []
        return head + b"\r\n", pieces

    def log_message(self, format: str, *args: object) -> None:
        log.debug("scraped by=%s %s", self.client_address[0], format % args)
