"""Where members reach each other: a port that stays open in every role; only a leader lets followers in."""

import asyncio
import errno
import logging
import socket
from typing import Final

from rocketeer.errors import PeerRefused, PortInUse, ReplicationError
from rocketeer.group.boot_clock import BootClock
from rocketeer.group.frames import PURPOSE, Hello
from rocketeer.group.leader_link import Follower
from rocketeer.group.leadership import Leadership
from rocketeer.remoting.connection import address_text
from rocketeer.replication.sender import SentLog
from rocketeer.security.addresses import plain_ip
from rocketeer.security.peer_socket import PeerSecurity, PeerSocket

log = logging.getLogger(__name__)

CONNECTIONS_MAX: Final = 64
BACKLOG: Final = 16
ACCEPTS_MAX: Final = 16
GREETING_S_MAX: Final = 5.0


class MembersPort:
    """Belongs to the loop thread. `lead` and `rest` say whether followers are let in."""

    def __init__(self, host: str, port: int, clock: BootClock) -> None:
        self._host = host
        self._port = port
        self._clock = clock
        self._listener: socket.socket | None = None
        self._links: list[Follower] = []
        self._leadership: Leadership | None = None
        self._log: SentLog | None = None
        self._security = PeerSecurity()
        self._coming: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Raises PortInUse."""
        try:
            self._listener = socket.create_server(
                (self._host, self._port),
                family=socket.AF_INET6 if ":" in self._host else socket.AF_INET,
                backlog=BACKLOG,
            )
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise PortInUse(self._host, self._port) from None
            raise
        self._listener.setblocking(False)
        asyncio.get_running_loop().add_reader(self._listener.fileno(), self._accept, self._listener)

    def lead(self, leadership: Leadership, sent_log: SentLog, security: PeerSecurity) -> None:
        self._leadership, self._log, self._security = leadership, sent_log, security

    def rest(self) -> None:
        """Nobody follows us any more."""
        self._leadership = self._log = None
        for task in self._coming:
            task.cancel()
        for link in list(self._links):
            link.close("this member leads no longer")

    async def stop(self) -> None:
        self.rest()
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener.fileno())
            self._listener.close()
            self._listener = None

    def tick(self) -> None:
        """Whoever connects and says nothing is sent away."""
        now_s = self._clock()
        for link in list(self._links):
            if link.hello is None and now_s - link.began_s > GREETING_S_MAX:
                link.close("it did not say who it is")

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(ACCEPTS_MAX):
            try:
                sock, address = listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                log.warning("member not accepted error=%s", error)
                return
            leadership, sent_log = self._leadership, self._log
            known = len(self._links) + len(self._coming)
            if leadership is None or sent_log is None or known >= CONNECTIONS_MAX:
                sock.close()
                continue
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            task = asyncio.ensure_future(self._admit(sock, address_text(address), leadership, sent_log))
            self._coming.add(task)
            task.add_done_callback(self._coming.discard)

    async def _admit(
        self, sock: socket.socket, remote: str, leadership: Leadership, sent_log: SentLog
    ) -> None:
        try:
            peer = await self._security.admit(sock, plain_ip(remote), PURPOSE, silent_s=GREETING_S_MAX)
        except PeerRefused as error:
            log.warning("member refused remote=%s reason=%s", remote, error)
            sock.close()
            return
        except BaseException:
            sock.close()
            raise
        self._links.append(self._link(peer, remote, leadership, sent_log))

    def _link(self, sock: PeerSocket, remote: str, leadership: Leadership, sent_log: SentLog) -> Follower:
        def admit(follower: Follower, hello: Hello) -> tuple[int, bytes]:
            if self._leadership is not leadership:
                raise ReplicationError("this member does not lead")
            return leadership.admit(follower, hello)

        def closed(follower: Follower) -> None:
            self._links.remove(follower)
            leadership.closed(follower)

        return Follower(
            sock,
            remote,
            sent_log,
            self._clock,
            admit=admit,
            on_ack=leadership.acknowledged,
            on_promise=leadership.promised,
            on_close=closed,
        )
