"""A scripted name server and broker in one: it answers as the test says.

For what a real broker does only by accident: silence, refusals, odd answers. It keeps all it was asked.
"""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping

from rocketeer.model.route import BrokerData, QueueData, Route
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import Command, reply
from rocketeer.remoting.connection import Connection
from rocketeer.remoting.limits import RequestLimits
from rocketeer.remoting.router import Router
from rocketeer.remoting.server import RemotingServer
from support.bodies import encode_route

Play = Callable[[Command], Command | Awaitable[Command | None] | None]
"""While one is awaited, later requests are answered: as by a broker with many threads."""


def silence(command: Command) -> None:
    """Take the request and never answer."""


def stored(command: Command) -> Command:
    return reply(command, ext={"msgId": "0" * 32, "queueId": command.ext["e"], "queueOffset": "1"})


def done(command: Command) -> Command:
    return reply(command)


class ScriptedBroker:
    """Every topic leads here; `address` is the name server's and the broker's."""

    def __init__(self, plays: Mapping[int, Play]) -> None:
        self._plays: dict[int, Play] = {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self._route,
            RequestCode.SEND_MESSAGE_V2: stored,
            RequestCode.SEND_BATCH_MESSAGE: stored,
            RequestCode.HEART_BEAT: done,
            RequestCode.UNREGISTER_CLIENT: done,
            **plays,
        }
        self._asked: list[Command] = []
        self._changed = threading.Condition()
        self.address = ""
        self.connections: set[str] = set()

    def asked(self, code: int) -> list[Command]:
        with self._changed:
            return [command for command in self._asked if command.code == code]

    def wait_for(self, code: int, count: int = 1, timeout_s: float = 60) -> list[Command]:
        """Wait until it was asked so often."""
        with self._changed:
            arrived = self._changed.wait_for(
                lambda: sum(command.code == code for command in self._asked) >= count, timeout_s
            )
        assert arrived, f"{len(self.asked(code))} of {count} requests {code} within {timeout_s:g} s"
        return self.asked(code)

    def handle(self, command: Command, connection: Connection) -> Command | Awaitable[Command | None] | None:
        with self._changed:
            self._asked.append(command)
            self.connections.add(connection.remote)
            self._changed.notify_all()
        return self._plays[command.code](command)

    def _route(self, command: Command) -> Command:
        route = Route((QueueData("scripted", 4, 4, 6),), (BrokerData("c", "scripted", {0: self.address}),))
        return reply(command, body=encode_route(route, strict=True))


@contextlib.contextmanager
def scripted_broker(plays: Mapping[int, Play] | None = None) -> Iterator[ScriptedBroker]:
    """A scripted broker on a free port, served by a thread of its own."""
    broker = ScriptedBroker(plays or {})
    codes = {*broker._plays}
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start() -> RemotingServer:
        limits = RequestLimits(bulk=codes)  # messages of any size, as a broker takes them
        server = RemotingServer(Router(dict.fromkeys(codes, broker.handle), limits=limits).process)
        await server.start("127.0.0.1", [0])
        return server

    server = asyncio.run_coroutine_threadsafe(start(), loop).result(10)
    broker.address = f"127.0.0.1:{server.ports[0]}"
    try:
        yield broker
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
