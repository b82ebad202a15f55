"""The master's HA port: lets slaves in, wakes their senders when the log grows, keeps house among them.

Who may come says `security.peer_socket`; where nothing is configured that is everybody, as in RocketMQ, and the port
belongs into a network of its own. What a stranger can cost is bounded: so many connections, a first word within the
housekeeping time, no memory for what it does not read.
"""

import asyncio
import errno
import logging
import socket
from typing import Final

from rocketeer.clock import Clock
from rocketeer.config import StoreConfig
from rocketeer.errors import PeerRefused, PortInUse
from rocketeer.remoting.connection import address_text
from rocketeer.replication.confirmations import Confirmations
from rocketeer.replication.sender import SentLog, SlaveLink
from rocketeer.replication.stream import PURPOSE
from rocketeer.security.addresses import plain_ip
from rocketeer.security.peer_socket import PeerSecurity

log = logging.getLogger(__name__)

SLAVES_MAX: Final = 64
BACKLOG: Final = 16
ACCEPTS_MAX: Final = 16
ACCEPT_PAUSE_S: Final = 1.0


class Master:
    """All slaves of this broker. Belongs to the loop thread; `grown` is called once for each run of appends."""

    def __init__(
        self,
        config: StoreConfig,
        sent_log: SentLog,
        clock: Clock,
        *,
        host: str,
        security: PeerSecurity | None = None,
    ) -> None:
        self._security = security or PeerSecurity()
        self._coming: set[asyncio.Task[None]] = set()
        self._config = config
        self._log = sent_log
        self._clock = clock
        self._host = host
        self._listener: socket.socket | None = None
        self._heartbeat_s = config.ha_heartbeat_ms / 1000
        self._silence_s_max = config.ha_housekeeping_ms / 1000
        self.slaves: list[SlaveLink] = []
        self.confirmations = Confirmations(
            self.slaves,
            clock,
            timeout_ms=config.slave_timeout_ms,
            behind_bytes_max=config.ha_fall_behind_bytes_max,
        )

    async def start(self) -> None:
        """Raises PortInUse."""
        try:
            self._listener = socket.create_server(
                (self._host.strip("[]"), self._config.ha_port),
                family=socket.AF_INET6 if ":" in self._host else socket.AF_INET,
                backlog=BACKLOG,
                dualstack_ipv6=self._host == "::",
            )
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise PortInUse(self._host, self._config.ha_port) from None
            raise
        self._listener.setblocking(False)
        asyncio.get_running_loop().add_reader(self._listener.fileno(), self._accept, self._listener)

    async def stop(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener.fileno())
            self._listener.close()
            self._listener = None
        for task in self._coming:
            task.cancel()
        for slave in list(self.slaves):
            slave.close("the master stops")
        self.confirmations.close()

    def behind(self) -> dict[str, int]:
        """How many bytes of the log each slave has not reported yet, by its address."""
        end = self._log.max_offset
        return {slave.remote: end - slave.acknowledged for slave in self.slaves if slave.acknowledged >= 0}

    def grown(self) -> None:
        """The log has more than before."""
        for slave in self.slaves:
            slave.wake()

    def tick(self) -> None:
        """Heartbeats, silent slaves, sends that waited too long; call it some times a second."""
        self.confirmations.expire()
        now_s = self._clock.monotonic_s()
        for slave in list(self.slaves):
            if now_s - slave.last_read_s > self._silence_s_max:
                slave.close(f"no report for {self._silence_s_max:g} s")
            elif now_s - slave.last_write_s >= self._heartbeat_s:
                slave.heartbeat()
            slave.wake()

    # --- letting in --------------------------------------------------------------------------

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(ACCEPTS_MAX):
            try:
                sock, address = listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                log.warning("slave not accepted error=%s: tried again in %g s", error, ACCEPT_PAUSE_S)
                self._pause(listener)
                return
            if len(self.slaves) + len(self._coming) >= SLAVES_MAX:
                log.warning("slave refused remote=%s limit=%d", address_text(address), SLAVES_MAX)
                sock.close()
                continue
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            task = asyncio.ensure_future(self._admit(sock, address_text(address)))
            self._coming.add(task)
            task.add_done_callback(self._coming.discard)

    async def _admit(self, sock: socket.socket, remote: str) -> None:
        try:
            peer = await self._security.admit(sock, plain_ip(remote), PURPOSE, silent_s=self._silence_s_max)
        except PeerRefused as error:
            log.warning("slave refused remote=%s reason=%s", remote, error)
            sock.close()
            return
        except BaseException:
            sock.close()
            raise
        self.slaves.append(
            SlaveLink(
                peer,
                remote,
                self._log,
                self._clock,
                piece_bytes=self._config.ha_transfer_bytes,
                on_report=self.confirmations.advanced,
                on_close=self.slaves.remove,
            )
        )

    def _pause(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(listener.fileno())

        def resume() -> None:
            if self._listener is listener:
                loop.add_reader(listener.fileno(), self._accept, listener)

        loop.call_later(ACCEPT_PAUSE_S, resume)
