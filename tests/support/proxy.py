"""Stands between clients and a real broker: counts what passes, loses replies and brings requests late when a test says so.

The broker names 127.0.0.2 as its address and listens on 127.0.0.1; the proxy takes the other one. Where the broker
listens everywhere, clients have to be told the proxy's `address` by a name server of the test's own.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import Command, decode_frame
from rocketeer.protocol.frame import FrameSplitter, pack_frame

HOST = "127.0.0.2"
SENDS = (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
LATE_S = 0.5


class Proxy:
    """`seen` holds every request that passed since it was last cleared."""

    def __init__(self) -> None:
        self.seen: list[Command] = []
        self.lossy: tuple[int, ...] = (*SENDS, RequestCode.PULL_MESSAGE)
        """Replies to these requests may be lost."""
        self.cuts = 0
        """So many of them are lost together with their connection."""
        self.silent = False
        """None of them comes through."""
        self.in_flight_bytes_max = 0
        """The most body bytes of sends that waited for replies at a time."""
        self.pulling = 0
        """Connections that pulled something."""
        self.late: Callable[[Command], bool] = lambda command: False
        """These requests reach the broker LATE_S late, or when a commit that was sent behind them is answered."""
        self.waiting: set[asyncio.Event] = set()
        """Late ones that were sent and have not reached it yet."""
        self.address = ""
        self._in_flight: dict[tuple[int, int], int] = {}

    def requests(self, *codes: int) -> list[Command]:
        return [command for command in list(self.seen) if command.code in codes]

    async def serve(
        self, broker_port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            behind, to_broker = await asyncio.open_connection("127.0.0.1", broker_port)
        except OSError:
            writer.close()
            return
        watched: set[int] = set()
        commits: dict[int, set[asyncio.Event]] = {}
        ways = [
            asyncio.create_task(self._up(reader, to_broker, watched, commits)),
            asyncio.create_task(self._down(behind, writer, watched, commits)),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        writer.close()
        to_broker.close()
        for key in [key for key in self._in_flight if key[0] == id(watched)]:
            del self._in_flight[key]

    async def _up(
        self,
        reader: asyncio.StreamReader,
        to: asyncio.StreamWriter,
        watched: set[int],
        commits: dict[int, set[asyncio.Event]],
    ) -> None:
        splitter = FrameSplitter()
        pulls = False
        late: list[asyncio.Task[None]] = []
        while data := await reader.read(1 << 16):
            for kind, header, body in splitter.feed(data):
                command = decode_frame(kind, header, body)
                self.seen.append(command)
                if command.code == RequestCode.PULL_MESSAGE and not pulls:
                    pulls = True
                    self.pulling += 1
                if command.code in self.lossy:
                    watched.add(command.opaque)
                if command.code in SENDS:
                    self._in_flight[id(watched), command.opaque] = len(body)
                    self.in_flight_bytes_max = max(self.in_flight_bytes_max, sum(self._in_flight.values()))
                if command.code == RequestCode.UPDATE_CONSUMER_OFFSET:
                    commits[command.opaque] = set(self.waiting)
                frame = pack_frame(kind, header, body)
                if self.late(command):
                    late.append(asyncio.create_task(self._bring_late(frame, to)))
                else:
                    to.write(frame)
            await to.drain()
        await asyncio.gather(*late)  # the client is gone, what it sent is not

    async def _bring_late(self, frame: bytes, to: asyncio.StreamWriter) -> None:
        due = asyncio.Event()
        self.waiting.add(due)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LATE_S):
                await due.wait()
        to.write(frame)
        await to.drain()
        self.waiting.remove(due)

    async def _down(
        self,
        behind: asyncio.StreamReader,
        to: asyncio.StreamWriter,
        watched: set[int],
        commits: dict[int, set[asyncio.Event]],
    ) -> None:
        splitter = FrameSplitter()
        while data := await behind.read(1 << 16):
            for kind, header, body in splitter.feed(data):
                opaque = decode_frame(kind, header, b"").opaque
                self._in_flight.pop((id(watched), opaque), None)
                for due in commits.pop(opaque, ()):
                    due.set()
                if opaque in watched:
                    if self.silent:
                        continue
                    if self.cuts:
                        self.cuts -= 1
                        return
                to.write(pack_frame(kind, header, body))
            await to.drain()


@contextlib.contextmanager
def proxy(broker_port: int, *, port: int | None = None) -> Iterator[Proxy]:
    """It listens on the broker's port at HOST, or on another one; 0: any."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="proxy", daemon=True)
    thread.start()
    between = Proxy()

    async def start() -> Any:
        return await asyncio.start_server(
            lambda reader, writer: between.serve(broker_port, reader, writer),
            HOST,
            broker_port if port is None else port,
        )

    async def stop() -> None:
        server.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    server = asyncio.run_coroutine_threadsafe(start(), loop).result(10)
    between.address = f"{HOST}:{server.sockets[0].getsockname()[1]}"
    try:
        yield between
    finally:
        asyncio.run_coroutine_threadsafe(stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
