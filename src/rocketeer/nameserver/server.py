"""A running name server: the handlers on a port, and the scan that forgets brokers which went silent."""

import asyncio
import logging
from collections.abc import Mapping

from rocketeer.clock import Clock, SystemClock
from rocketeer.config import NamesrvConfig
from rocketeer.nameserver.handlers import NameServerState, handlers
from rocketeer.nameserver.kv_table import KvTable
from rocketeer.nameserver.live_config import NameServerLiveConfig
from rocketeer.nameserver.metrics import metrics_server
from rocketeer.nameserver.route_table import RouteTable
from rocketeer.observe.counters import Counters
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import Command
from rocketeer.remoting.limits import RequestLimits
from rocketeer.remoting.router import Connection, Router
from rocketeer.remoting.server import RemotingServer, SocketSizes
from rocketeer.remoting.slices import in_slices, run_sliced
from rocketeer.security.access import AccessControl
from rocketeer.security.acl_files import AclFiles
from rocketeer.security.rules import NothingStored, check_complete, nameserver_rules
from rocketeer.security.tls import ReloadingContext, TlsMode, load_tls_properties, server_tls
from rocketeer.steps import Steps

log = logging.getLogger(__name__)

FILES_WATCH_S = 2.0


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
    ) -> None:
        """`extras`: keys of the configuration file that nothing here reads, for those who ask for them."""
        limits = config.limits
        self.routes = RouteTable(
            brokers_max=limits.brokers, routes_max=limits.routes, topics_max=limits.topics
        )
        self._config = config
        self._kv = KvTable(config.kv_config_path, limits)
        self._state = NameServerState(
            self.routes, self._kv, NameServerLiveConfig(config, extras), clock or SystemClock()
        )
        server = config.server
        answered = handlers(self._state)
        rules = nameserver_rules(open_routes=config.acl_open_routes)
        check_complete(answered, rules)
        self.handled_codes = frozenset(answered)
        """Every request code it answers."""
        self._access = AccessControl(
            rules,
            NothingStored(),
            now_ms=self._state.clock.now_ms,
            require_nonce=server.acl_require_nonce,
        )
        self._acl_files = AclFiles(server.acl_path, self._state.clock.now_ms) if config.acl_enable else None
        self._watcher: asyncio.Task[None] | None = None
        self._tls = ReloadingContext(
            server_tls(TlsMode(server.tls_mode), load_tls_properties(server.tls_file))
        )
        counters = Counters()
        guards = (self._let_in,) if config.acl_enable else ()
        router = Router(
            answered,
            guards,
            limits=RequestLimits(
                server.limits,
                bodies={
                    RequestCode.REGISTER_BROKER: ("limitRegistrationBytes", limits.registration_bytes),
                    RequestCode.UPDATE_NAMESRV_CONFIG: ("limitSettingsBytes", server.limits.settings_bytes),
                },
            ),
            on_answered=counters.answered_by_router,
        )
        self._metrics = metrics_server(config, self.routes, counters, self._tls)
        self._remoting = RemotingServer(
            router.process,
            on_close=self._connection_closed,
            idle_s=server.idle_s,
            tls=self._tls.context,
            plain=self._tls.takes_plain,
            sizes=SocketSizes(server.backlog, server.send_buffer_bytes, server.receive_buffer_bytes),
            limits=server.limits,
        )
        self._scanner: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """The port it listens on, also when 0 was asked for."""
        return self._remoting.ports[0]

    async def start(self) -> None:
        """Read what is on disk, then listen. ConfigError and PortInUse leave nothing behind."""
        self._kv.load()
        if self._acl_files is not None:
            self._access.accounts = self._acl_files.load()
        await self._remoting.start(self._config.server.bind_host, [self._config.server.listen_port])
        if self._metrics is not None:
            try:
                await self._metrics.start()
            except BaseException:
                await self._remoting.stop()
                raise
        if self._tls.has_files or self._acl_files is not None:
            self._watcher = asyncio.create_task(self._watch_files())
        self._scanner = asyncio.create_task(self._scan_forever())
        log.info("name server started port=%d", self.port)

    async def stop(self) -> None:
        for task in (self._scanner, self._watcher):
            if task is not None:
                task.cancel()
        self._scanner = self._watcher = None
        if self._metrics is not None:
            await self._metrics.stop()
        await self._remoting.stop()

    async def scan(self) -> None:
        """Forget the brokers whose last heartbeat is too old, and close their connections."""
        await in_slices(self._scanning())
        self._state.sweep()

    def _scanning(self) -> Steps[None]:
        for found in self.routes.evicting(self._state.now_ms(), self._config.broker_expiry_ms):
            if found is not None:
                address, connection = found
                log.warning("broker expired address=%s silent_ms=%d", address, self._config.broker_expiry_ms)
                assert isinstance(connection, Connection)
                connection.close("its broker sent no heartbeat")
            yield

    async def _scan_forever(self) -> None:
        interval_ms = self._config.scan_interval_ms
        while True:
            began_ms = self._state.now_ms()
            await asyncio.sleep(interval_ms / 1000)
            # Had this process itself stood still, heartbeats would wait in the sockets: read them first.
            if self._state.now_ms() - began_ms < 3 * interval_ms:
                await self.scan()

    def _let_in(self, command: Command, connection: Connection) -> Steps[None]:
        return self._access.checking(command, connection.remote)

    async def _watch_files(self) -> None:
        """Reload account and certificate files periodically."""
        while True:
            await asyncio.sleep(FILES_WATCH_S)
            await asyncio.to_thread(self._tls.refresh)
            if self._acl_files is not None:
                accounts = await asyncio.to_thread(self._acl_files.refresh)
                if accounts is not None:
                    self._access.accounts = accounts

    def _connection_closed(self, connection: Connection) -> None:
        run_sliced(self._forget_brokers(connection))

    def _forget_brokers(self, connection: Connection) -> Steps[None]:
        for address in (yield from self.routes.closing(connection)):
            log.info("broker gone address=%s reason=its connection closed", address)
            yield
        yield from self.routes.sweep()
