"""One connection to a server, byte by byte: for requests no client library would send."""

import socket
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

from rocketeer.protocol.command import Command, decode_frame, encode
from rocketeer.protocol.frame import FrameSplitter
from rocketeer.remoting.address import split_address

ANSWER_S = 60.0


class RawConnection:
    """Sends bytes or commands, gives back commands in the order they come."""

    def __init__(self, address: str, *, timeout_s: float = ANSWER_S) -> None:
        self.socket = socket.create_connection(split_address(address), timeout_s)
        self._splitter = FrameSplitter()
        self._arrived: list[Command] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def send(self, data: bytes | Command) -> None:
        self.socket.sendall(encode(data) if isinstance(data, Command) else data)

    def receive(self) -> Command | None:
        """The next command; None when the peer has closed the connection."""
        while not self._arrived:
            try:
                data = self.socket.recv(1 << 18)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self._arrived += [decode_frame(*frame) for frame in self._splitter.feed(data)]
        return self._arrived.pop(0)

    def reply(self) -> Command:
        """The next command, which must come."""
        command = self.receive()
        assert command is not None, "the server closed the connection"
        return command

    def ask(self, command: Command) -> Command:
        """The reply to a command; pushes of the server that come before it are dropped."""
        self.send(command)
        while True:
            answer = self.reply()
            if answer.is_response and answer.opaque == command.opaque:
                return answer

    def ask_all(self, commands: Sequence[Command], *, window: int = 64) -> Iterator[Command]:
        """The replies in the order of the commands, of which `window` are on their way at a time."""
        replies: dict[int, Command] = {}
        sent = 0
        for command in commands:
            while sent < len(commands) and sent - len(replies) < window:
                self.send(commands[sent])
                sent += 1
            while command.opaque not in replies:
                answer = self.reply()
                replies[answer.opaque] = answer
            yield replies[command.opaque]

    def closed_by_peer(self) -> bool:
        """Whether the server ends the connection without another word."""
        return self.receive() is None
