"""The asking side: calls to any number of addresses, multiplexed on one connection each.

A call is a future in a table, keyed by opaque; nothing else is made per call. What is asked during one turn
of the loop leaves in one write. Every wait has an end: a call is answered, or raises

- ConnectFailed: no connection; the peer has not seen the request
- CallTimeout: no answer in time; whether the peer did the work is unknown
- ConnectionLost: the connection closed while the call was waiting; equally unknown

and the next call to the same address connects again.
"""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from types import TracebackType

from rocketeer.errors import CallTimeout, ConnectFailed, RemotingClosed
from rocketeer.protocol.command import Command, Sign, signed
from rocketeer.remoting.address import split_address
from rocketeer.remoting.outgoing_connection import LINGER_S, OutgoingConnection, PushHandler

__all__ = ["PushHandler", "RemotingClient"]

CONNECT_TIMEOUT_S = 3.0
CALL_TIMEOUT_S = 3.0


class RemotingClient:
    """Calls peers by address; one connection per address, made by the first call that needs it.

    `handlers` answer what peers ask of us (notices of a changed group, transaction checks): request code to
    `callable(command, address)` that returns a reply, None, or an awaitable of either.

        async with RemotingClient() as client:
            answer = await client.invoke("127.0.0.1:9876", request, timeout_s=3)
    """

    def __init__(
        self,
        *,
        handlers: Mapping[int, PushHandler] | None = None,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        tls: ssl.SSLContext | None = None,
        sign: Sign | None = None,
    ) -> None:
        """`sign` adds to the header's fields what an account needs; asked for every request, also a repeated one."""
        self._sign = sign
        self._handlers = dict(handlers or {})
        self._connect_timeout_s = connect_timeout_s
        self._tls = tls
        self.on_close: list[Callable[[str], None]] = []
        """Called with the address of every connection that was lost."""
        self._connections: dict[str, OutgoingConnection] = {}
        self._connecting: dict[str, asyncio.Task[OutgoingConnection | str]] = {}
        self._leaving: set[OutgoingConnection] = set()
        """Closed by us, but what was written has not left yet."""
        self._closed = False

    async def invoke(self, address: str, command: Command, timeout_s: float = CALL_TIMEOUT_S) -> Command:
        """Send a request and wait for its answer; the opaque is chosen here, so a command can be reused."""
        deadline_s = asyncio.get_running_loop().time() + timeout_s
        connection = self._connections.get(address)
        if connection is None or not connection.writable:
            connection = await self._ready_connection(address, command, deadline_s, timeout_s)
        return await connection.call(self._signed(command), deadline_s, timeout_s)

    async def oneway(self, address: str, command: Command, timeout_s: float = CALL_TIMEOUT_S) -> None:
        """Send a request that gets no answer; returns when it has been handed to the connection.

        Waits only for the connection, and for a peer that reads too slowly: senders cannot fill the memory.
        """
        deadline_s = asyncio.get_running_loop().time() + timeout_s
        connection = self._connections.get(address)
        if connection is None or not connection.writable:
            connection = await self._ready_connection(address, command, deadline_s, timeout_s)
        connection.send_oneway(self._signed(command))

    def _signed(self, command: Command) -> Command:
        return command if self._sign is None else signed(command, self._sign)

    def handle(self, code: int, handler: PushHandler) -> None:
        """Answer requests with this code from now on, on every connection."""
        self._handlers[code] = handler

    def close(self) -> None:
        """Close every connection, after what was written; waiting calls get ConnectionLost."""
        self._closed = True
        for task in list(self._connecting.values()):
            task.cancel()
        for connection in list(self._connections.values()):
            self._retire(connection, "the client was closed")

    async def wait_closed(self, timeout_s: float = LINGER_S) -> None:
        """Wait until what was written before `close` has left, or its time is over."""
        if self._leaving:
            await asyncio.wait([connection.gone for connection in self._leaving], timeout=timeout_s)

    async def __aenter__(self) -> "RemotingClient":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        await self.wait_closed()

    # --- connections -------------------------------------------------------------------------

    async def _ready_connection(
        self, address: str, command: Command, deadline_s: float, timeout_s: float
    ) -> OutgoingConnection:
        """A connection that takes the next frame: made first, or waited on until the peer catches up."""
        while True:
            connection = self._connections.get(address)
            if connection is None:
                connection = await self._connect(address, deadline_s, timeout_s)
            if connection.writable:
                return connection
            if not await connection.wait_writable(deadline_s):
                raise CallTimeout(address, command.code, timeout_s)

    async def _connect(self, address: str, deadline_s: float, timeout_s: float) -> OutgoingConnection:
        """Join the attempt under way, or start one; it lives on if this caller gives up, for the others."""
        if self._closed:
            raise RemotingClosed(address)
        task = self._connecting.get(address)
        if task is None:
            split_address(address)  # a text that is no address is refused before anything is started
            task = asyncio.create_task(self._open(address))
            self._connecting[address] = task
            task.add_done_callback(lambda _: self._connecting.pop(address, None))
        left_s = deadline_s - asyncio.get_running_loop().time()
        done, _ = await asyncio.wait((task,), timeout=max(left_s, 0))
        if not done:
            raise ConnectFailed(address, f"no connection within {timeout_s:g} s")
        if task.cancelled():
            raise RemotingClosed(address)
        outcome = task.result()
        if isinstance(outcome, str):
            raise ConnectFailed(address, outcome)
        if outcome.closed:
            raise ConnectFailed(address, "the peer accepted the connection and closed it at once")
        return outcome

    async def _open(self, address: str) -> OutgoingConnection | str:
        """A connection, or why there is none: a value, since each waiting caller raises its own error."""
        host, port = split_address(address)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                _, connection = await loop.create_connection(
                    lambda: OutgoingConnection(address, self._handlers, self._forget),
                    host,
                    port,
                    ssl=self._tls,
                )
        except TimeoutError:
            return f"no connection within {self._connect_timeout_s:g} s"
        except (OSError, UnicodeError) as error:
            return str(error) or type(error).__name__
        if not connection.closed:
            self._connections[address] = connection
        return connection

    def _retire(self, connection: OutgoingConnection, why: str) -> None:
        self._connections.pop(connection.address, None)
        self._leaving.add(connection)
        connection.close(why)

    def _forget(self, connection: OutgoingConnection) -> None:
        """The connection is gone; it may already have been replaced by a newer one."""
        self._leaving.discard(connection)
        if self._connections.get(connection.address) is connection:
            del self._connections[connection.address]
            for lost in self.on_close:
                lost(connection.address)
