"""The sending side of the load: non-blocking sockets on one epoll, requests from templates, replies by opaque."""

import re
import select
import socket
import ssl
import time
from collections.abc import Callable
from typing import Final

from rocketeer.bench.frames import FIRST_NUMBER, PER_BATCH, Requests
from rocketeer.bench.histogram import LatencyCounts
from rocketeer.bench.load import LastSent, Load, LoadFailed, LoadResult
from rocketeer.bench.steps import Flight
from rocketeer.model.offsets import QueueOffset
from rocketeer.protocol.frame_layout import LENGTH
from rocketeer.remoting.address import split_address
from rocketeer.security.peer_socket import PeerSocket, TlsSocket
from rocketeer.security.tls import TlsConfig, client_context

_RECV_BYTES: Final = 1 << 18
_DRAIN_S: Final = 5.0
_UNANSWERED_MAX: Final = 1 << 18
"""On one connection: a server that answers nothing for so long is not measured any more."""
_RUN: Final = 8
_RUN_MAX: Final = 256
_LENGTH: Final = LENGTH.unpack_from
_CODE: Final = re.compile(rb'"code":(\d+)').search
_OPAQUE: Final = re.compile(rb'"opaque":(\d+)').search


class Link:
    """One connection of the load: what waits to be written, what has come half, which requests are under way."""

    __slots__ = (
        "due_ns",
        "fd",
        "flight",
        "last_reply",
        "next_number",
        "requests",
        "sock",
        "tail",
        "unsent",
    )

    def __init__(self, address: str, requests: Requests, first: int, tls: ssl.SSLContext | None) -> None:
        sock = socket.create_connection(split_address(address), 10)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock: PeerSocket = sock
        if tls is None:
            sock.setblocking(False)
        else:
            encrypted = tls.wrap_socket(sock, server_hostname=split_address(address)[0])
            encrypted.setblocking(False)
            self.sock = TlsSocket(encrypted)
        self.fd = self.sock.fileno()
        self.requests = requests
        self.next_number = first
        self.due_ns: list[int] = []  # requests that wait for the socket, by the time they were due
        self.unsent = memoryview(b"")
        self.tail = b""
        self.flight = Flight(_UNANSWERED_MAX)
        self.last_reply = b""


class SendLoop:
    """The sending process of a run, single or batch; `run` takes it from the first request to the last reply."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._per_request = PER_BATCH if load.kind == "batch" else 1
        tls = None if load.trust is None else client_context(TlsConfig(trust=load.trust))
        self._links = [
            Link(
                load.address,
                Requests(
                    run=load.run,
                    connection=number,
                    target=load.target,
                    body_bytes=load.body_bytes,
                    batch=load.kind == "batch",
                    stamped=load.stamped,
                    account=load.account,
                ),
                FIRST_NUMBER + number * 7919,  # connections walk through topics and queues out of step
                tls,
            )
            for number in range(load.first_connection, load.first_connection + load.connections)
        ]
        self._epoll = select.epoll()
        self._by_fd = {link.fd: link for link in self._links}
        for link in self._links:
            self._epoll.register(link.fd, select.EPOLLIN)
        self._latencies = LatencyCounts()
        self._lateness = LatencyCounts()
        self._answered = self._refused = 0
        self._refusals: dict[str, int] = {}
        self._refill = load.rate is None

    # --- writing -----------------------------------------------------------------------------

    def _issue(self, link: Link, due_ns: list[int]) -> None:
        """Write one new request for every due time; what the socket does not take at once waits with its time."""
        if link.due_ns:
            link.due_ns += due_ns
            due_ns = link.due_ns
        if link.unsent:
            link.due_ns = due_ns
            return
        link.due_ns = due_ns[_RUN_MAX:]
        due_ns = due_ns[:_RUN_MAX]
        if not link.flight.begin(link.next_number, due_ns):
            raise LoadFailed(f"{self._load.address} owes {link.flight.under_way} replies on one connection")
        data = link.requests.make(link.next_number, due_ns)
        link.next_number += len(due_ns)
        self._write(link, memoryview(data))

    def _write(self, link: Link, data: memoryview) -> None:
        try:
            written = link.sock.sendmsg([data])
        except BlockingIOError:
            written = 0
        except OSError as why:
            raise LoadFailed(f"{self._load.address} broke a connection: {why}") from None
        blocked = bool(link.unsent)
        link.unsent = data[written:]
        if bool(link.unsent) != blocked:
            self._epoll.modify(link.fd, select.EPOLLIN | (select.EPOLLOUT if link.unsent else 0))

    def _writable(self, link: Link) -> None:
        self._write(link, link.unsent)
        while link.due_ns and not link.unsent:
            self._issue(link, [])  # what has waited

    # --- reading -----------------------------------------------------------------------------

    def _read(self, link: Link) -> int:
        """Take what has come; returns how many replies were whole."""
        try:
            data = link.sock.recv(_RECV_BYTES)
        except BlockingIOError:
            return 0
        except OSError as why:
            raise LoadFailed(f"{self._load.address} broke a connection: {why}") from None
        if not data:
            raise LoadFailed(f"{self._load.address} closed a connection")
        now_ns = time.monotonic_ns()
        if link.tail:
            data = link.tail + data
        latencies = self._latencies
        answered, last, end = link.flight.end(data, now_ns, latencies.by_us, latencies.add)
        link.tail = data[end:]
        if answered:
            link.last_reply = data[last:end]
            self._answered += answered
            if link.flight.refused:
                self._note_refusals(data[:end])
        return answered

    def _note_refusals(self, whole: bytes) -> None:
        at = 0
        while at < len(whole):
            stop = at + 4 + _LENGTH(whole, at)[0]
            found = _CODE(whole, at, stop)
            if found is None or found[1] != b"0":
                self._refused += 1
                remark = re.search(rb'"remark":"([^"]{0,80})', whole[at:stop])
                text = f"{found[1].decode() if found else '?'} {remark[1].decode() if remark else ''}"
                self._refusals[text] = self._refusals.get(text, 0) + 1
            at = stop

    # --- the run -----------------------------------------------------------------------------

    def run(self, started_ns: int, drained: Callable[[tuple[LastSent, ...]], None]) -> LoadResult:
        """From `started_ns` on: warm up, measure, stop asking, wait for the replies under way.

        `drained` is told the moment the last reply is in, before any figures are put together: the clock runs on
        until the server has caught up, not until we have.
        """
        load = self._load
        measure_ns = started_ns + int(load.warmup_s * 1e9)
        stop_ns = measure_ns + int(load.seconds * 1e9)
        time.sleep(max(0.0, (started_ns - time.monotonic_ns()) / 1e9))
        if load.rate is None:
            for link in self._links:
                self._issue(link, [time.monotonic_ns()] * load.in_flight)
            turn = self._closed_turn
        else:
            turn = self._open_turns(started_ns, load.rate)
        self._until(measure_ns, turn)
        before, refused_before = self._answered, self._refused
        began_ns, cpu_before = time.monotonic_ns(), time.process_time()
        self._latencies.clear()
        self._lateness.clear()
        self._until(stop_ns, turn)
        cpu_s = time.process_time() - cpu_before
        ended_ns = time.monotonic_ns()
        self._drain()
        drained(tuple(filter(None, map(self._last_sent, self._links))))
        return LoadResult(
            messages=(self._answered - before - (self._refused - refused_before)) * self._per_request,
            all_messages=(self._answered - self._refused) * self._per_request,
            refused=self._refused,
            refusals=self._refusals,
            mismatched=sum(link.flight.mismatched for link in self._links),
            unanswered=sum(link.flight.under_way for link in self._links),
            started_ns=began_ns,
            ended_ns=ended_ns,
            cpu_s=cpu_s,
            latencies=self._latencies.sparse(),
            lateness=self._lateness.sparse(),
        )

    def _until(self, end_ns: int, turn: Callable[[], None]) -> None:
        while time.monotonic_ns() < end_ns:
            turn()

    def _closed_turn(self) -> None:
        for fd, events in self._epoll.poll(0.1):
            link = self._by_fd[fd]
            if events & ~select.EPOLLOUT:
                answered = self._read(link)
                if answered and self._refill:
                    self._issue(link, [time.monotonic_ns()] * answered)
            if events & select.EPOLLOUT and link.unsent:
                self._writable(link)

    def _open_turns(self, started_ns: int, rate: float) -> Callable[[], None]:
        """A turn of the open loop: write what is due, to the next connections in turn, then look for replies.

        What is due at the same look at the clock leaves in runs of up to `_RUN` on one connection: one system
        call each would make the generator late by itself.
        """
        links, lateness, step_ns = self._links, self._lateness, 1e9 / rate
        issued = turns = 0

        def turn() -> None:
            nonlocal issued, turns
            now_ns = time.monotonic_ns()
            due = int((now_ns - started_ns) / step_ns) + 1
            while issued < due:
                run = range(issued, min(due, issued + _RUN))
                times = [started_ns + int(number * step_ns) for number in run]
                for due_ns in times:
                    lateness.add((now_ns - due_ns) // 1000)
                self._issue(links[turns % len(links)], times)
                issued += len(run)
                turns += 1
            for fd, events in self._epoll.poll(0):
                link = self._by_fd[fd]
                if events & ~select.EPOLLOUT:
                    self._read(link)
                if events & select.EPOLLOUT and link.unsent:
                    self._writable(link)

        return turn

    def _drain(self) -> None:
        self._refill = False
        give_up_s = time.monotonic() + _DRAIN_S
        while (
            any(link.flight.under_way or link.unsent for link in self._links) and time.monotonic() < give_up_s
        ):
            self._closed_turn()
        for link in self._links:
            link.sock.close()

    def _last_sent(self, link: Link) -> LastSent | None:
        opaque, offset = _OPAQUE(link.last_reply), re.search(rb'"queueOffset":"?(\d+)', link.last_reply)
        if opaque is None or offset is None:
            return None
        number = int(opaque[1])
        topic, queue = self._load.target.of(number)
        last = QueueOffset(int(offset[1]) + self._per_request - 1)
        return LastSent(topic=topic, queue=queue, queue_offset=last, key=link.requests.key(number))
