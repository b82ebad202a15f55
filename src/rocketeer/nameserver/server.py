"""A running name server: the handlers on a port, and the scan that forgets brokers which went silent."""

import asyncio
import logging
import ssl
from collections.abc import Mapping

from rocketeer.clock import Clock, SystemClock
from rocketeer.config import NamesrvConfig
from rocketeer.nameserver.handlers import NameServerState, handlers
from rocketeer.nameserver.kv_table import KvTable
from rocketeer.nameserver.live_config import LiveConfig
from rocketeer.nameserver.route_table import RouteTable
from rocketeer.remoting.server import Connection, RemotingServer, Router, SocketSizes

log = logging.getLogger(__name__)


class NameServer:
    """Name servers do not know each other: every broker registers with all, a client asks any.

    server = NameServer(NamesrvConfig())
    await server.start()
    ...
    await server.stop()
    """

    def __init__(
        self,
        config: NamesrvConfig,
        clock: Clock | None = None,
        *,
        extras: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`extras`: keys of the configuration file that nothing here reads, for those who ask for them."""
        self.routes = RouteTable()
        self._config = config
        self._kv = KvTable(config.kv_config_path)
        self._desk = NameServerState(
            self.routes, self._kv, LiveConfig(config, extras), clock or SystemClock()
        )
        server = config.server
        self._remoting = RemotingServer(
            Router(handlers(self._desk)).process,
            on_close=self._connection_closed,
            idle_s=server.idle_s,
            tls=tls,
            sizes=SocketSizes(server.backlog, server.send_buffer_bytes, server.receive_buffer_bytes),
        )
        self._scanner: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """The port it listens on, also when 0 was asked for."""
        return self._remoting.ports[0]

    async def start(self) -> None:
        """Read what is on disk, then listen. ConfigError and PortInUse leave nothing behind."""
        self._kv.load()
        await self._remoting.start(self._config.server.bind_host, [self._config.server.listen_port])
        self._scanner = asyncio.create_task(self._scan_forever())
        log.info("name server started port=%d", self.port)

    async def stop(self) -> None:
        if self._scanner is not None:
            self._scanner.cancel()
            self._scanner = None
        await self._remoting.stop()

    def scan(self) -> None:
        """Forget the brokers whose last heartbeat is too old, and close their connections."""
        for address, connection in self.routes.evict(self._desk.now_ms(), self._config.broker_expiry_ms):
            log.warning("broker expired address=%s silent_ms=%d", address, self._config.broker_expiry_ms)
            assert isinstance(connection, Connection)
            connection.close("its broker sent no heartbeat")

    async def _scan_forever(self) -> None:
        interval_ms = self._config.scan_interval_ms
        while True:
            began_ms = self._desk.now_ms()
            await asyncio.sleep(interval_ms / 1000)
            # Had this process itself stood still, heartbeats would wait in the sockets: read them first.
            if self._desk.now_ms() - began_ms < 3 * interval_ms:
                self.scan()

    def _connection_closed(self, connection: Connection) -> None:
        for address in self.routes.connection_closed(connection):
            log.info("broker gone address=%s reason=its connection closed", address)
