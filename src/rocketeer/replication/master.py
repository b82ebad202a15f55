"""The master's HA port: lets slaves in, wakes their senders when the log grows, keeps house among them.

Who may come says `security.peer_socket`; where nothing is configured that is everybody, as in RocketMQ, and the port
belongs into a network of its own. What a stranger can cost is bounded: so many connections, a first word within the
housekeeping time, no memory for what it does not read.
"""

import asyncio
import logging
from typing import Final

from rocketeer.clock import Clock
from rocketeer.config import StoreConfig
from rocketeer.replication.confirmations import Confirmations
from rocketeer.replication.log_sender import SentLog
from rocketeer.replication.peer_port import PeerPort
from rocketeer.replication.sender import SlaveLink
from rocketeer.replication.stream import PURPOSE
from rocketeer.security.peer_socket import PeerSecurity, PeerSocket

log = logging.getLogger(__name__)

SLAVES_MAX: Final = 64


class Master:
    """All slaves of this broker. Belongs to the loop thread; `log_grew` is called once for each run of appends."""

    def __init__(
        self,
        config: StoreConfig,
        sent_log: SentLog,
        clock: Clock,
        *,
        host: str,
        security: PeerSecurity | None = None,
    ) -> None:
        self._config = config
        self._log = sent_log
        self._clock = clock
        self._heartbeat_s = config.ha_heartbeat_ms / 1000
        self._silence_s_max = config.ha_housekeeping_ms / 1000
        self.slaves: list[SlaveLink] = []
        self._port = PeerPort(
            host,
            config.ha_port,
            security=security or PeerSecurity(),
            peer="slave",
            purpose=PURPOSE,
            silence_s_max=self._silence_s_max,
            has_room=self._has_room,
            make_room=self._make_room,
            on_peer=self._add,
        )
        self.confirmations = Confirmations(
            self.slaves,
            clock,
            timeout_ms=config.slave_timeout_ms,
            behind_bytes_max=config.ha_fall_behind_bytes_max,
            schedule=lambda run: asyncio.get_running_loop().call_soon(run),
        )

    async def start(self) -> None:
        """Listen on the HA port. Raises PortInUse."""
        self._port.open()

    async def stop(self) -> None:
        self._port.close()
        for slave in list(self.slaves):
            slave.close("the master stops")
        self.confirmations.close()

    def behind(self) -> dict[str, int]:
        """How many bytes of the log each slave has not reported yet, by its address."""
        end = self._log.max_offset
        return {slave.remote: end - slave.acknowledged for slave in self.slaves if slave.acknowledged >= 0}

    def log_grew(self) -> None:
        """Wake the senders of all slaves: the log has grown."""
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

    def _has_room(self) -> bool:
        return len(self.slaves) + self._port.signing_in_count < SLAVES_MAX

    def _make_room(self) -> bool:
        """Send away the oldest that has not said where its log ends."""
        for slave in self.slaves:
            if not slave.has_reported:
                slave.close("it made no report, and others wait")
                return True
        return False

    def _add(self, peer: PeerSocket, remote: str) -> None:
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
