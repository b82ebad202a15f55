"""A port on which servers of one installation reach each other: slaves their master, members their leader.

Who may come says `security.peer_socket`. What a stranger can cost is bounded: so many connections, so much time
to sign in. When all places are taken, whoever has not signed in yet, or has not said what it wants, gives its place
to the next one, the oldest first: strangers who say nothing do not keep peers out.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from typing import Final

from rocketeer.errors import PeerRefused, PortInUse
from rocketeer.remoting.connection import address_text
from rocketeer.remoting.fair_queue import in_turn
from rocketeer.security.addresses import plain_ip
from rocketeer.security.peer_socket import PeerSecurity, PeerSocket

log = logging.getLogger(__name__)

BACKLOG: Final = 16
ACCEPTS_MAX: Final = 16
ACCEPT_PAUSE_S: Final = 1.0


class PeerPort:
    """Calls `on_peer` with every peer that was let in. Belongs to the loop thread.

    `has_room` is asked when somebody connects. If there is none, and nobody is signing in who could go, `make_room`
    is to send somebody away; if it does not, the one who came is closed at once.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        security: PeerSecurity,
        peer: str,
        purpose: str,
        silence_s_max: float,
        has_room: Callable[[], bool],
        make_room: Callable[[], bool],
        on_peer: Callable[[PeerSocket, str], None],
    ) -> None:
        self._security = security
        self._host = host.strip("[]")
        self._port = port
        self._peer = peer
        self._purpose = purpose
        self._silence_s_max = silence_s_max
        self._has_room = has_room
        self._make_room = make_room
        self._refused = 0
        self._on_peer = on_peer
        self._listener: socket.socket | None = None
        self._coming: dict[asyncio.Task[None], None] = {}
        """Tasks of peers that are signing in, the oldest first."""

    @property
    def signing_in_count(self) -> int:
        """Number of peers that are signing in."""
        return len(self._coming)

    def set_security(self, security: PeerSecurity) -> None:
        """Set who may come from now on."""
        self._security = security

    def open(self) -> None:
        """Listen on the port. Raises PortInUse."""
        try:
            self._listener = socket.create_server(
                (self._host, self._port),
                family=socket.AF_INET6 if ":" in self._host else socket.AF_INET,
                backlog=BACKLOG,
                dualstack_ipv6=self._host == "::",
            )
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise PortInUse(self._host, self._port) from None
            raise
        self._listener.setblocking(False)
        asyncio.get_running_loop().add_reader(self._listener.fileno(), self._accept, self._listener)

    def cancel_sign_ins(self) -> None:
        """Cancel all sign-ins under way."""
        for task in self._coming:
            task.cancel()

    def close(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener.fileno())
            self._listener.close()
            self._listener = None
        self.cancel_sign_ins()

    # --- inside ------------------------------------------------------------------------------

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(ACCEPTS_MAX):
            try:
                sock, address = listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                log.warning(
                    "%s not accepted error=%s: tried again in %g s", self._peer, error, ACCEPT_PAUSE_S
                )
                self._pause(listener)
                return
            if not (self._has_room() or self._cancel_oldest() or self._make_room()):
                self._refuse(sock, address_text(address))
                continue
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            task = asyncio.ensure_future(self._admit(sock, address_text(address)))
            self._coming[task] = None
            task.add_done_callback(lambda done: self._coming.pop(done, None))

    def _cancel_oldest(self) -> bool:
        """Cancel the oldest sign-in; False if there is none."""
        oldest = next(iter(self._coming), None)
        if oldest is None:
            return False
        del self._coming[oldest]
        oldest.cancel()
        return True

    def _refuse(self, sock: socket.socket, remote: str) -> None:
        sock.close()
        self._refused += 1
        if self._refused & (self._refused - 1) == 0:  # 1, 2, 4, 8 ...: nobody fills a disk with these
            log.warning("%s refused remote=%s reason=no room refused=%d", self._peer, remote, self._refused)

    async def _admit(self, sock: socket.socket, remote: str) -> None:
        try:
            peer = await self._security.admit(
                sock,
                plain_ip(remote),
                self._purpose,
                silent_s=self._silence_s_max,
                in_turn=in_turn,
            )
        except PeerRefused as error:
            log.warning("%s refused remote=%s reason=%s", self._peer, remote, error)
            sock.close()
            return
        except BaseException:
            sock.close()
            raise
        self._on_peer(peer, remote)

    def _pause(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(listener.fileno())

        def resume() -> None:
            if self._listener is listener:
                loop.add_reader(listener.fileno(), self._accept, listener)

        loop.call_later(ACCEPT_PAUSE_S, resume)
