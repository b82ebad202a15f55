"""Where members reach each other: a port that stays open in every role; only a leader lets followers in."""

from typing import Final

from rocketeer.errors import ReplicationError
from rocketeer.group.boot_clock import BootClock
from rocketeer.group.frames import PURPOSE, Hello
from rocketeer.group.leader_link import Follower
from rocketeer.group.leadership import Leadership
from rocketeer.model.offsets import LogOffset
from rocketeer.replication.log_sender import SentLog
from rocketeer.replication.peer_port import PeerPort
from rocketeer.security.peer_socket import PeerSecurity, PeerSocket

CONNECTIONS_MAX: Final = 64
GREETING_S_MAX: Final = 5.0


class MembersPort:
    """The port where followers connect; `lead` and `stop_leading` say whether they are let in. Belongs to the loop
    thread."""

    def __init__(self, host: str, port: int, clock: BootClock) -> None:
        self._port = PeerPort(
            host,
            port,
            security=PeerSecurity(),
            peer="member",
            purpose=PURPOSE,
            silence_s_max=GREETING_S_MAX,
            has_room=self._has_room,
            make_room=self._make_room,
            on_peer=self._add,
        )
        self._clock = clock
        self._links: list[Follower] = []
        self._led: tuple[Leadership, SentLog] | None = None

    def open(self) -> None:
        """Listen on the members' port. Raises PortInUse."""
        self._port.open()

    def lead(self, leadership: Leadership, sent_log: SentLog, security: PeerSecurity) -> None:
        self._led = leadership, sent_log
        self._port.set_security(security)

    def stop_leading(self) -> None:
        """Stop leading: let no followers in, and close the connections of those that are here."""
        self._led = None
        self._port.cancel_sign_ins()
        for link in list(self._links):
            link.close("this member leads no longer")

    def close(self) -> None:
        self.stop_leading()
        self._port.close()

    def tick(self) -> None:
        """Close connections that have not said who they are in time."""
        now_s = self._clock()
        for link in list(self._links):
            if link.hello is None and now_s - link.began_s > GREETING_S_MAX:
                link.close("it did not say who it is")

    def _has_room(self) -> bool:
        return self._led is not None and len(self._links) + self._port.signing_in_count < CONNECTIONS_MAX

    def _make_room(self) -> bool:
        """Send away the oldest that has not said who it is."""
        for link in self._links if self._led is not None else ():
            if link.hello is None:
                link.close("it did not say who it is, and others wait")
                return True
        return False

    def _add(self, peer: PeerSocket, remote: str) -> None:
        if self._led is None:
            peer.close()
            return
        leadership, sent_log = self._led

        def admit(follower: Follower, hello: Hello) -> tuple[LogOffset, bytes]:
            if self._led is None or self._led[0] is not leadership:
                raise ReplicationError("this member does not lead")
            return leadership.admit(follower, hello)

        def closed(follower: Follower) -> None:
            self._links.remove(follower)
            leadership.closed(follower)

        self._links.append(
            Follower(
                peer,
                remote,
                sent_log,
                self._clock,
                admit=admit,
                on_ack=leadership.acknowledged,
                on_promise=leadership.promised,
                on_close=closed,
            )
        )
