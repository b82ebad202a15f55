"""The slave's end: connects to its master, copies the log, reports how far it is.

    HELLO -> where the master's log begins and ends -> our end -> [log bytes -> append -> our end]

A master of 4.9.8 answers nothing to HELLO; then it is told our end as its own slaves tell it. What is appended is
dispatched at once; a connection that breaks anywhere is taken up again where our log ends.
"""

import asyncio
import logging
from typing import Final

from rocketeer.clock import Clock
from rocketeer.config import FlushMode, StoreConfig
from rocketeer.errors import ReplicationError, RocketeerError
from rocketeer.model.offsets import LogOffset
from rocketeer.replication.copied_log import CopiedLog, append_copied
from rocketeer.replication.stream import (
    HELLO,
    PURPOSE,
    REPORT,
    BoundKind,
    Data,
    HaFrameReader,
    LogBound,
    StreamHeartbeat,
)
from rocketeer.replication.stream_connection import StreamConnection, connected
from rocketeer.security.peer_socket import PeerSecurity, PeerSocket

log = logging.getLogger(__name__)

READ_BYTES: Final = 1 << 20
"""Read, appended and dispatched in one turn of the loop."""
HELLO_S: Final = 2.0
"""How long a master may take to answer HELLO before it is taken for one of 4.9.8."""
CONNECT_S: Final = 5.0
AGAIN_S: Final = 0.5
AGAIN_S_MAX: Final = 5.0
TICK_S: Final = 0.2


class Receiver:
    """Follows one master at a time, for as long as it runs. Belongs to the loop thread."""

    def __init__(
        self, config: StoreConfig, store: CopiedLog, clock: Clock, security: PeerSecurity | None = None
    ) -> None:
        self._security = security or PeerSecurity()
        self._config = config
        self._store = store
        self._clock = clock
        self._configured = config.ha_master_address
        self.master = self._configured or ""
        """Its HA address; "" while it is not known."""
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._link: MasterLink | None = None
        self._told = ""

    def master_named(self, ha_address: str) -> None:
        """A name server says where the master is; a configured address wins."""
        if self._configured or not ha_address or ha_address == self.master:
            return
        log.info("master changed ha_address=%s before=%s", ha_address, self.master or "none")
        self.master = ha_address
        self._changed.set()
        if self._link is not None:
            self._link.close(ReplicationError(f"the master is {ha_address} now"))

    async def start(self) -> None:
        if not self.master:
            log.warning("no master is known yet: a name server will tell, or haMasterAddress")
        self._task = asyncio.create_task(self._follow(), name="follow the master")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _follow(self) -> None:
        again_s = AGAIN_S
        while True:
            if not self.master:
                await self._changed.wait()
            self._changed.clear()
            began_s = self._clock.monotonic_s()
            try:
                await self._follow_once(self.master)
            except (RocketeerError, OSError) as error:
                self._tell(error)
            if self._clock.monotonic_s() - began_s > AGAIN_S_MAX:
                again_s = AGAIN_S
            try:
                async with asyncio.timeout(again_s):
                    await self._changed.wait()
            except TimeoutError:
                again_s = min(2 * again_s, AGAIN_S_MAX)

    async def _follow_once(self, address: str) -> None:
        if self._store.failure is not None:
            raise ReplicationError(f"nothing is copied any more: {self._store.failure}")
        async with connected(address, self._security, PURPOSE, CONNECT_S) as peer:
            self._link = MasterLink(peer, self._config, self._store, self._clock)
            log.info("master connected ha_address=%s log_end=%d", address, self._store.max_log_offset)
            try:
                await self._link.run()
            finally:
                self._link = None

    def _tell(self, error: Exception) -> None:
        """Log why the master is not followed, unless it is the same as the last time."""
        text = f"{type(error).__name__}: {error}"
        if text != self._told:
            log.error("not following the master ha_address=%s reason=%s", self.master, text)
        self._told = text


class MasterLink:
    """One connection to a master."""

    def __init__(self, sock: PeerSocket, config: StoreConfig, store: CopiedLog, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._flushes = config.flush_mode is FlushMode.SYNC_FLUSH
        self._heartbeat_s = config.ha_heartbeat_ms / 1000
        self._silence_s_max = config.ha_housekeeping_ms / 1000
        self._frames = HaFrameReader()
        self._connection = StreamConnection(
            sock, READ_BYTES, clock.monotonic_s, peer="master", take=self._read
        )
        self._began_s = clock.monotonic_s()
        self._is_ours = self._has_begun = False
        self._log_begins = LogOffset(0)
        self._reported = LogOffset(-1)

    async def run(self) -> None:
        """Copy until the connection ends; raises why."""
        self._send(HELLO)
        await self._connection.run(self._tick, TICK_S)

    def close(self, error: Exception) -> None:
        self._connection.close(error)

    def _tick(self) -> None:
        now_s = self._clock.monotonic_s()
        if not self._has_begun and now_s - self._began_s > HELLO_S:
            self._begin()
        elif now_s - self._connection.read_s > self._silence_s_max:
            self.close(ReplicationError(f"nothing came from the master for {self._silence_s_max:g} s"))
        elif self._has_begun and now_s - self._connection.wrote_s >= self._heartbeat_s:
            self._report(again=True)

    # --- what comes --------------------------------------------------------------------------

    def _read(self, data: memoryview) -> None:
        for event in self._frames.feed(data):
            if isinstance(event, Data):
                append_copied(self._store, event.offset, event.data, of="master")
            elif isinstance(event, LogBound):
                self._noted(event)
            else:
                self._heartbeat(event)
        if self._has_begun:
            self._report()

    def _noted(self, event: LogBound) -> None:
        if event.note is BoundKind.LOG_BEGINS:
            self._is_ours = True
            self._log_begins = event.offset
            return
        if self._has_begun:
            return
        end = self._store.max_log_offset
        self._begin()
        if end and not self._log_begins <= end <= event.offset:
            raise ReplicationError(
                f"our log ends at {end}, and the master has its log from {self._log_begins} to {event.offset}: "
                "this store belongs to another log, or is too old to follow; start with an empty one"
            )

    def _begin(self) -> None:
        """Ask for the log: from its beginning if we have none."""
        self._has_begun = True
        end = self._store.max_log_offset
        self._reported = end or (self._log_begins if self._is_ours else LogOffset(0))
        self._send(self._reported)

    def _heartbeat(self, event: StreamHeartbeat) -> None:
        end = self._store.max_log_offset
        if end and event.offset != end:
            raise ReplicationError(f"the master goes on at {event.offset}, and our log ends at {end}")

    # --- reports -----------------------------------------------------------------------------

    def _report(self, *, again: bool = False) -> None:
        end = self._store.max_log_offset
        if not end and self._reported >= 0 and not again:
            return
        if self._flushes and end > self._reported:
            self._store.when_durable(end, lambda durable: self._report_end(end) if durable else None)
        elif again or end > self._reported:
            self._report_end(max(end, self._reported))

    def _report_end(self, end: LogOffset) -> None:
        if not self._connection.ended and end >= self._reported:
            self._reported = end
            self._send(end)

    def _send(self, report: LogOffset) -> None:
        """Report how far our log is; while the master does not read, only the newest report is kept."""
        self._connection.drop_unsent(REPORT.size)
        self._connection.send(REPORT.pack(report))
