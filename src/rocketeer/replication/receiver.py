"""The slave's end: connects to its master, copies the log, reports how far it is.

    HELLO -> where the master's log begins and ends -> our end -> [log bytes -> append -> our end]

A master of 4.9.8 answers nothing to HELLO; then it is told our end as its own slaves tell it. What is appended is
dispatched at once; a connection that breaks anywhere is taken up again where our log ends.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Final, Protocol

from rocketeer.clock import Clock
from rocketeer.config import FlushMode, StoreConfig
from rocketeer.errors import ReplicationError, RocketeerError, StoreError, StoreRefused
from rocketeer.remoting.address import split_address
from rocketeer.replication.stream import HELLO, PURPOSE, REPORT, Data, FrameReader, Heartbeat, Note, Noted
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


class CopiedLog(Protocol):
    """What a receiver asks of the store."""

    def append_raw(self, offset: int, data: memoryview) -> None:
        """Add bytes that follow the log, and dispatch; StoreError or StoreRefused, with nothing added."""
        ...

    def when_durable(self, log_offset: int, callback: Callable[[bool], None]) -> None: ...

    @property
    def max_log_offset(self) -> int: ...

    @property
    def failure(self) -> StoreRefused | None:
        """Why nothing more may be written to this store, if its disk has failed."""
        ...


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
        self._address = self._configured or ""
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._link: MasterLink | None = None
        self._told = ""

    @property
    def master(self) -> str:
        """The HA address of the master; "" while it is not known."""
        return self._address

    @property
    def is_connected(self) -> bool:
        return self._link is not None

    def master_named(self, ha_address: str) -> None:
        """A name server says where the master is; a configured address wins."""
        if self._configured or not ha_address or ha_address == self._address:
            return
        log.info("master changed ha_address=%s before=%s", ha_address, self._address or "none")
        self._address = ha_address
        self._changed.set()
        if self._link is not None:
            self._link.close(ReplicationError(f"the master is {ha_address} now"))

    async def start(self) -> None:
        if not self._address:
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
            if not self._address:
                await self._changed.wait()
            self._changed.clear()
            began_s = self._clock.monotonic_s()
            try:
                await self._follow_once(self._address)
            except (RocketeerError, OSError) as error:
                self._tell(error)
            if self._clock.monotonic_s() - began_s > AGAIN_S_MAX:
                again_s = AGAIN_S
            try:
                await asyncio.wait_for(self._changed.wait(), again_s)
            except TimeoutError:
                again_s = min(2 * again_s, AGAIN_S_MAX)

    async def _follow_once(self, address: str) -> None:
        if self._store.failure is not None:
            raise ReplicationError(f"nothing is copied any more: {self._store.failure}")
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(*split_address(address), type=socket.SOCK_STREAM)
        family, kind, protocol, _, where = found[0]
        sock = socket.socket(family, kind, protocol)
        sock.setblocking(False)
        peer: PeerSocket = sock
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.wait_for(loop.sock_connect(sock, where), CONNECT_S)
            peer = await self._security.greet(sock, split_address(address)[0], PURPOSE)
            self._link = MasterLink(peer, address, self._config, self._store, self._clock)
            log.info("master connected ha_address=%s log_end=%d", address, self._store.max_log_offset)
            await self._link.run()
        except TimeoutError:
            raise ReplicationError(f"no connection to {address} within {CONNECT_S:g} s") from None
        finally:
            self._link = None
            peer.close()
            sock.close()

    def _tell(self, error: Exception) -> None:
        """The same trouble, however often it comes, is told once."""
        text = f"{type(error).__name__}: {error}"
        if text != self._told:
            log.error("not following the master ha_address=%s reason=%s", self._address, text)
        self._told = text


class MasterLink:
    """One connection to a master."""

    def __init__(
        self, sock: PeerSocket, address: str, config: StoreConfig, store: CopiedLog, clock: Clock
    ) -> None:
        self._sock = sock
        self._address = address
        self._store = store
        self._clock = clock
        self._flushes = config.flush_mode is FlushMode.SYNC_FLUSH
        self._heartbeat_s = config.ha_heartbeat_ms / 1000
        self._silence_s_max = config.ha_housekeeping_ms / 1000
        self._frames = FrameReader()
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._began_s = self._read_s = self._wrote_s = clock.monotonic_s()
        self._is_ours = self._has_begun = False
        self._log_begins = 0
        self._reported = -1
        self._unsent = b""

    async def run(self) -> None:
        """Copy until the connection ends; raises why."""
        fd = self._sock.fileno()
        self._send(HELLO)
        self._loop.add_reader(fd, self._readable)
        self._loop.call_soon(self._readable)  # something may have been read before
        try:
            while not self._ended.done():
                await asyncio.wait((self._ended,), timeout=TICK_S)
                if not self._ended.done():
                    self._tick()
        finally:
            self._loop.remove_reader(fd)
            self._loop.remove_writer(fd)
        self._ended.result()

    def close(self, error: Exception) -> None:
        if not self._ended.done():
            self._ended.set_exception(error)
            self._loop.remove_reader(self._sock.fileno())

    def _tick(self) -> None:
        now_s = self._clock.monotonic_s()
        if not self._has_begun and now_s - self._began_s > HELLO_S:
            self._begin()
        elif now_s - self._read_s > self._silence_s_max:
            self.close(ReplicationError(f"nothing came from the master for {self._silence_s_max:g} s"))
        elif self._has_begun and now_s - self._wrote_s >= self._heartbeat_s:
            self._report(again=True)

    # --- what comes --------------------------------------------------------------------------

    def _readable(self) -> None:
        if self._ended.done():
            return
        try:
            count = self._sock.recv_into(self._buffer)
        except BlockingIOError:
            return
        except OSError as error:
            self.close(error)
            return
        if not count:
            self.close(ReplicationError("the master closed the connection"))
            return
        self._read_s = self._clock.monotonic_s()
        try:
            for event in self._frames.feed(self._buffer[:count]):
                if isinstance(event, Data):
                    self._copy(event.offset, event.data)
                elif isinstance(event, Noted):
                    self._noted(event)
                else:
                    self._heartbeat(event)
        except (ReplicationError, StoreError, StoreRefused) as error:
            self.close(error)
        if self._has_begun and not self._ended.done():
            self._report()

    def _noted(self, event: Noted) -> None:
        if event.note is Note.LOG_BEGINS:
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
        self._reported = end or (self._log_begins if self._is_ours else 0)
        self._send(self._reported)

    def _heartbeat(self, event: Heartbeat) -> None:
        end = self._store.max_log_offset
        if end and event.offset != end:
            raise ReplicationError(f"the master goes on at {event.offset}, and our log ends at {end}")

    def _copy(self, offset: int, data: memoryview) -> None:
        failure = self._store.failure
        if failure is not None:
            raise ReplicationError(f"nothing is copied any more: {failure}")
        end = self._store.max_log_offset
        if end and offset != end:
            raise ReplicationError(f"the master sends its log at {offset}, and ours ends at {end}")
        self._store.append_raw(offset, data)

    # --- reports -----------------------------------------------------------------------------

    def _report(self, *, again: bool = False) -> None:
        end = self._store.max_log_offset
        if not end and self._reported >= 0 and not again:
            return
        if self._flushes and end > self._reported:
            self._store.when_durable(end, lambda durable: self._report_end(end) if durable else None)
        elif again or end > self._reported:
            self._report_end(max(end, self._reported))

    def _report_end(self, end: int) -> None:
        if not self._ended.done() and end >= self._reported:
            self._reported = end
            self._send(end)

    def _send(self, report: int) -> None:
        """Reports are few and small; while the master does not read them only the newest is worth keeping."""
        if len(self._unsent) >= REPORT.size:
            self._unsent = self._unsent[: len(self._unsent) % REPORT.size]
        self._unsent += REPORT.pack(report)
        self._flush()

    def _flush(self) -> None:
        try:
            sent = self._sock.send(self._unsent)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self.close(error)
            return
        self._unsent = self._unsent[sent:]
        fd = self._sock.fileno()
        if sent:
            self._wrote_s = self._clock.monotonic_s()
        if self._unsent:
            self._loop.add_writer(fd, self._flush)
        else:
            self._loop.remove_writer(fd)
