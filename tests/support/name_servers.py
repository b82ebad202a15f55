"""A name server that writes down what it hears and answers as told: `async with Listener() as heard`."""

from rocketeer.protocol.command import Command, reply
from rocketeer.remoting.router import Connection, Router
from rocketeer.remoting.server import RemotingServer


class Listener:
    """A name server that writes down what it hears and answers as told."""

    def __init__(self) -> None:
        self.heard: list[Command] = []
        self.answers: dict[int, tuple[dict[str, str], bytes]] = {}
        self._server = RemotingServer(Router(dict.fromkeys((103, 104, 106, 322), self._hear)).process)

    def _hear(self, command: Command, connection: Connection) -> Command:
        self.heard.append(command)
        ext, body = self.answers.get(command.code, ({}, b""))
        return reply(command, ext=ext, body=body)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.ports[0]}"

    def codes(self) -> list[int]:
        return [command.code for command in self.heard]

    async def __aenter__(self) -> "Listener":
        await self._server.start("127.0.0.1", [0])
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop()
