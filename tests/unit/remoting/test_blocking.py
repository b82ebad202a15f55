"""Laws of the blocking connection, against peers on a real socket in a thread."""

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from rocketeer.errors import CallTimeout, ConnectFailed, ConnectionLost
from rocketeer.protocol.codes import ResponseCode
from rocketeer.protocol.command import Command, decode_frame, encode, reply, request
from rocketeer.protocol.frame import FrameSplitter
from rocketeer.remoting.blocking import BlockingConnection

ECHO, PUSH = 901, 902

Behave = Callable[[socket.socket], None]


def commands(sock: socket.socket) -> Iterator[Command]:
    splitter = FrameSplitter()
    with contextlib.suppress(OSError):
        while data := sock.recv(1 << 16):
            for frame in splitter.feed(data):
                yield decode_frame(*frame)


def echo(sock: socket.socket) -> None:
    for command in commands(sock):
        sock.sendall(encode(reply(command, body=command.body)))


def swallow(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while sock.recv(1 << 16):
            pass


class Peer:
    """Accepts connections one by one and does with each what the next of `behaviours` says."""

    def __init__(self, *behaviours: Behave, host: str = "127.0.0.1") -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.socket(family)
        self._listener.bind((host, 0))
        self._listener.listen()
        self._behaviours = behaviours
        self._thread = threading.Thread(target=self._serve)
        port = self._listener.getsockname()[1]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def _serve(self) -> None:
        for behave in self._behaviours:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            with sock:
                behave(sock)

    def __enter__(self) -> "Peer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(30)
        assert not self._thread.is_alive()


def test_a_call_gets_its_answer() -> None:
    with Peer(echo) as peer, BlockingConnection(peer.address) as connection:
        big = b"x" * (3 << 20)
        assert connection.invoke(request(ECHO, body=b"a")).body == b"a"
        assert connection.invoke(request(ECHO, body=big), timeout_s=10).body == big


def test_threads_take_turns_and_each_gets_its_own_answer() -> None:
    with Peer(echo) as peer, BlockingConnection(peer.address) as connection, ThreadPoolExecutor(8) as pool:
        bodies = [b"%d" % i for i in range(400)]
        answers = list(pool.map(lambda body: connection.invoke(request(ECHO, body=body), 10).body, bodies))
    assert answers == bodies


def test_waiting_for_another_threads_call_counts_as_waiting() -> None:
    asked = threading.Event()

    def mute(sock: socket.socket) -> None:
        for _ in commands(sock):
            asked.set()

    with Peer(mute) as peer, BlockingConnection(peer.address) as connection, ThreadPoolExecutor(1) as pool:
        first = pool.submit(connection.invoke, request(ECHO), 10.0)
        assert asked.wait(30)
        with pytest.raises(CallTimeout):
            connection.invoke(request(ECHO), timeout_s=0.05)
        connection.close()
        with pytest.raises(ConnectionLost):
            first.result(30)


def test_after_a_time_out_the_late_answer_is_dropped_and_the_connection_goes_on() -> None:
    def late(sock: socket.socket) -> None:
        stream = commands(sock)
        first = next(stream)
        second = next(stream)
        sock.sendall(encode(reply(first, body=b"late")) + encode(reply(second, body=b"second")))
        next(stream, None)

    with Peer(late) as peer, BlockingConnection(peer.address) as connection:
        with pytest.raises(CallTimeout, match="did not answer request code 901"):
            connection.invoke(request(ECHO), timeout_s=0.5)
        assert connection.invoke(request(ECHO)).body == b"second"


def test_a_call_whose_time_is_over_before_it_begins_leaves_the_connection_as_it_is() -> None:
    with Peer(echo) as peer, BlockingConnection(peer.address) as connection:  # it takes one connection
        assert connection.invoke(request(ECHO, body=b"a")).body == b"a"
        with pytest.raises(CallTimeout):
            connection.invoke(request(ECHO, body=b"b"), timeout_s=0)
        assert connection.invoke(request(ECHO, body=b"c")).body == b"c"


def test_each_call_on_a_connection_has_its_own_time_out() -> None:
    def answer_the_first_two(sock: socket.socket) -> None:
        for number, command in enumerate(commands(sock)):
            if number < 2:
                sock.sendall(encode(reply(command)))

    with Peer(answer_the_first_two) as peer, BlockingConnection(peer.address) as connection:
        connection.invoke(request(ECHO), timeout_s=30)
        connection.invoke(request(ECHO), timeout_s=30)
        for timeout_s in (0.0005, 0.3):  # also less than the steps that sockets count in
            began_s = time.monotonic()
            with pytest.raises(CallTimeout):
                connection.invoke(request(ECHO), timeout_s=timeout_s)
            assert timeout_s - 0.002 <= time.monotonic() - began_s < 10


def test_a_peer_that_trickles_does_not_stretch_the_time_out() -> None:
    def trickle(sock: socket.socket) -> None:
        command = next(commands(sock))
        with contextlib.suppress(OSError):
            for byte in encode(reply(command, body=b"x" * 1000)):
                sock.sendall(bytes([byte]))
                time.sleep(0.01)

    with Peer(trickle) as peer, BlockingConnection(peer.address) as connection:
        began_s = time.monotonic()
        with pytest.raises(CallTimeout):
            connection.invoke(request(ECHO), timeout_s=0.5)
        assert time.monotonic() - began_s < 5, "the whole answer takes ten seconds"


def test_a_peer_that_does_not_read_ends_the_call_at_its_time_out() -> None:
    release = threading.Event()
    with Peer(lambda sock: bool(release.wait(30)) and None) as peer:
        with BlockingConnection(peer.address) as connection, pytest.raises(CallTimeout):
            connection.invoke(request(ECHO, body=b"x" * (12 << 20)), timeout_s=0.5)
        release.set()


def test_a_peer_that_closes_means_connection_lost_and_the_next_call_connects_again() -> None:
    def close_on_request(sock: socket.socket) -> None:
        next(commands(sock))

    with Peer(close_on_request, echo) as peer, BlockingConnection(peer.address) as connection:
        with pytest.raises(ConnectionLost):
            connection.invoke(request(ECHO))
        assert connection.invoke(request(ECHO, body=b"again")).body == b"again"


def test_a_connection_closed_while_idle_costs_no_call() -> None:
    closed = threading.Event()

    def answer_one(sock: socket.socket) -> None:
        command = next(commands(sock))
        sock.sendall(encode(reply(command)))
        sock.close()
        closed.set()

    with Peer(answer_one, echo) as peer, BlockingConnection(peer.address) as connection:
        connection.invoke(request(ECHO))
        assert closed.wait(30)
        assert connection.invoke(request(ECHO, body=b"again")).body == b"again"


def test_garbage_means_connection_lost() -> None:
    def garbage(sock: socket.socket) -> None:
        next(commands(sock))
        sock.sendall(b"\xff" * 64)

    with (
        Peer(garbage) as peer,
        BlockingConnection(peer.address) as connection,
        pytest.raises(ConnectionLost),
    ):
        connection.invoke(request(ECHO))


def test_requests_of_the_peer_are_refused_and_oneways_ignored() -> None:
    refusals: list[Command] = []

    def push(sock: socket.socket) -> None:
        stream = commands(sock)
        command = next(stream)
        sock.sendall(encode(request(PUSH, oneway=True)) + encode(request(PUSH)))
        refusals.append(next(stream))
        sock.sendall(encode(reply(command, body=b"done")))

    with Peer(push) as peer, BlockingConnection(peer.address) as connection:
        assert connection.invoke(request(ECHO)).body == b"done"
    assert refusals[0].code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


def test_a_oneway_is_marked_and_waits_for_nothing() -> None:
    seen: list[Command] = []
    done = threading.Event()

    def note(sock: socket.socket) -> None:
        seen.extend(commands(sock))
        done.set()

    with Peer(note) as peer:
        with BlockingConnection(peer.address) as connection:
            connection.oneway(request(ECHO, body=b"go"))
        assert done.wait(30)
    assert [command.is_oneway for command in seen] == [True]


def test_nobody_at_the_address_is_said_at_once() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(ConnectFailed, match="cannot connect to"):
        BlockingConnection(f"127.0.0.1:{port}").invoke(request(ECHO))
    with pytest.raises(ConnectFailed, match="host:port"):
        BlockingConnection("nowhere").invoke(request(ECHO))


def test_ipv6_addresses_stand_in_brackets() -> None:
    try:
        peer = Peer(echo, host="::1")
    except OSError:
        pytest.skip("no IPv6 on this machine")
    with peer, BlockingConnection(peer.address) as connection:
        assert connection.invoke(request(ECHO, body=b"six")).body == b"six"


def test_a_host_name_is_looked_up_within_the_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with Peer(echo) as peer:
        name = peer.address.replace("127.0.0.1", "localhost")
        with BlockingConnection(name) as connection:
            assert connection.invoke(request(ECHO, body=b"name")).body == b"name"
    release = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: release.wait(30) and [])
    with pytest.raises(ConnectFailed, match=r"within 0\.05 s"):
        BlockingConnection("slow.example:9876", connect_timeout_s=0.05).invoke(request(ECHO))
    release.set()
    monkeypatch.undo()
    with pytest.raises(ConnectFailed):
        BlockingConnection("a" * 80 + "..b:9876").invoke(request(ECHO))


def test_tls_that_the_peer_does_not_speak_is_a_failed_connect_within_the_time_out() -> None:
    with (
        Peer(swallow) as peer,
        BlockingConnection(
            peer.address, tls=ssl.create_default_context(), connect_timeout_s=0.1
        ) as connection,
        pytest.raises(ConnectFailed),
    ):
        connection.invoke(request(ECHO))
