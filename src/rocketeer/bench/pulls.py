"""The pulling side of the load: many pulls of stored messages, or a consumer that waits for what is being sent."""

import re
import select
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from rocketeer.bench.frames import FIRST_NUMBER, PER_PULL, PullRequests
from rocketeer.bench.histogram import LatencyCounts
from rocketeer.bench.load import LastSent, Load, LoadFailed, LoadResult
from rocketeer.bench.steps import STAMP_WIDTH
from rocketeer.model.offsets import QueueOffset
from rocketeer.protocol.codes import ResponseCode
from rocketeer.protocol.frame_layout import LENGTH, PREFIX
from rocketeer.record.layout import HEAD
from rocketeer.remoting.address import split_address

_BUFFER_BYTES: Final = 4 << 20
_HOLD_MS: Final = 5_000
_OPAQUE = re.compile(rb'"opaque":(\d+)').search
_CODE = re.compile(rb'"code":(\d+)').search
_NEXT = re.compile(rb'"nextBeginOffset":"?(\d+)').search


@dataclass(slots=True)
class PullLink:
    """One connection: the buffer replies are received into, and the pulls under way (opaque -> when, from where)."""

    sock: socket.socket
    buffer: bytearray = field(default_factory=lambda: bytearray(_BUFFER_BYTES))
    filled: int = 0
    unsent: bytes = b""
    under_way: dict[int, tuple[int, int, QueueOffset]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reply:
    """What a pull brought, before anybody looked at the records."""

    opaque: int
    code: int
    next_offset: QueueOffset
    body: memoryview


def _connect(address: str) -> PullLink:
    sock = socket.create_connection(split_address(address), 10)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setblocking(False)
    return PullLink(sock)


class _PullBase(ABC):
    """Sockets, frames and counting; the two loops below decide what is asked next."""

    def __init__(self, load: Load, connections: int, *, hold_ms: int = 0) -> None:
        self._load = load
        self._requests = PullRequests(load.target.topics[0], hold_ms=hold_ms)
        self._links = [_connect(load.address) for _ in range(connections)]
        self._epoll = select.epoll()
        self._by_fd = {link.sock.fileno(): link for link in self._links}
        for fd in self._by_fd:
            self._epoll.register(fd, select.EPOLLIN)
        self._next_opaque = FIRST_NUMBER
        self._latencies = LatencyCounts()
        self._messages = self._refused = self._mismatched = 0
        self._refusals: dict[str, int] = {}

    @abstractmethod
    def _start(self) -> None:
        """Ask the first on every connection."""

    @abstractmethod
    def _on_reply(self, link: PullLink, reply: Reply, now_ns: int) -> None:
        """Count what came and ask the next."""

    def _ask(self, link: PullLink, queue: int, offset: QueueOffset) -> None:
        opaque = self._next_opaque
        self._next_opaque += 1
        link.under_way[opaque] = (time.monotonic_ns(), queue, offset)
        link.unsent += self._requests.one(opaque, queue, offset)

    def _flush(self, link: PullLink) -> None:
        if link.unsent:
            try:
                link.unsent = link.unsent[link.sock.send(link.unsent) :]
            except BlockingIOError:
                pass  # the server answers before it reads on; the next reply brings us here again
            except OSError as why:
                raise LoadFailed(f"{self._load.address} broke a connection: {why}") from None

    def _turn(self) -> None:
        for fd, _ in self._epoll.poll(0.05):
            link = self._by_fd[fd]
            view = memoryview(link.buffer)
            try:
                received = link.sock.recv_into(view[link.filled :])
            except BlockingIOError:
                continue
            except OSError as why:
                raise LoadFailed(f"{self._load.address} broke a connection: {why}") from None
            if not received:
                raise LoadFailed(f"{self._load.address} closed a connection")
            link.filled += received
            self._take(link, view, time.monotonic_ns())
            self._flush(link)

    def _take(self, link: PullLink, view: memoryview, now_ns: int) -> None:
        at, filled = 0, link.filled
        while filled - at >= 8:
            size, mark = PREFIX.unpack_from(view, at)
            stop = at + 4 + size
            if stop > filled:
                if size + 4 > len(view):
                    raise LoadFailed(f"a reply of {size} bytes is larger than a pull of {PER_PULL} can be")
                break
            body_at = at + 8 + (mark & 0xFFFFFF)
            header = bytes(view[at + 8 : body_at])
            opaque, code, following = _OPAQUE(header), _CODE(header), _NEXT(header)
            at = stop
            if opaque is None or code is None or int(opaque[1]) not in link.under_way:
                self._mismatched += 1
                continue
            next_offset = QueueOffset(int(following[1]) if following else -1)
            if int(code[1]) != ResponseCode.SUCCESS:
                self._refusals[header[-120:].decode()] = 1
            self._on_reply(link, Reply(int(opaque[1]), int(code[1]), next_offset, view[body_at:stop]), now_ns)
        left = filled - at
        if at and left:
            link.buffer[:left] = link.buffer[at:filled]
        link.filled = left

    def run(self, started_ns: int, drained: Callable[[tuple[LastSent, ...]], None]) -> LoadResult:
        """From `started_ns` on: warm up, measure, stop asking."""
        measure_ns = started_ns + int(self._load.warmup_s * 1e9)
        stop_ns = measure_ns + int(self._load.seconds * 1e9)
        time.sleep(max(0.0, (started_ns - time.monotonic_ns()) / 1e9))
        self._start()
        for link in self._links:
            self._flush(link)
        while time.monotonic_ns() < measure_ns:
            self._turn()
        before, refused_before = self._messages, self._refused
        began_ns, cpu_before = time.monotonic_ns(), time.process_time()
        self._latencies.clear()
        while time.monotonic_ns() < stop_ns:
            self._turn()
        cpu_s = time.process_time() - cpu_before
        ended_ns = time.monotonic_ns()
        drained(())
        for link in self._links:
            link.sock.close()
        return LoadResult(
            messages=self._messages - before,
            all_messages=self._messages,
            refused=self._refused - refused_before,
            refusals=self._refusals,
            mismatched=self._mismatched,
            unanswered=0,
            started_ns=began_ns,
            ended_ns=ended_ns,
            cpu_s=cpu_s,
            latencies=self._latencies.sparse(),
            lateness={},
        )


class PullLoop(_PullBase):
    """Pulls of 32 stored messages, round and round through every queue."""

    def __init__(self, load: Load) -> None:
        super().__init__(load, load.connections)
        self._topic = load.target.topics[0]
        self._places = [
            (queue, QueueOffset(offset))
            for queue in range(load.target.queues)
            for offset in range(
                load.queue_begins.get((self._topic, queue), 0),
                load.queue_ends.get((self._topic, queue), 0) - PER_PULL,
                PER_PULL,
            )
        ]
        if not self._places:
            raise LoadFailed(f"{self._topic} holds fewer than {PER_PULL} messages a queue; send some first")
        self._turns = load.first_connection * 97

    def _start(self) -> None:
        for link in self._links:
            for _ in range(self._load.in_flight):
                self._ask_next(link)

    def _ask_next(self, link: PullLink) -> None:
        self._turns += 1
        queue, offset = self._places[self._turns % len(self._places)]
        self._ask(link, queue, offset)

    def _on_reply(self, link: PullLink, reply: Reply, now_ns: int) -> None:
        asked_ns, _, offset = link.under_way.pop(reply.opaque)
        self._latencies.add((now_ns - asked_ns) // 1000)
        if reply.code == ResponseCode.SUCCESS:
            self._messages += reply.next_offset - offset
        else:
            self._refused += 1
        self._ask_next(link)


class WaitingPuller(_PullBase):
    """A consumer: one pull held on every queue; a latency is the age of a stamped message when it arrives."""

    def __init__(self, load: Load) -> None:
        super().__init__(load, 1, hold_ms=_HOLD_MS)
        self._topic = load.target.topics[0]

    def _start(self) -> None:
        for queue in range(self._load.target.queues):
            end = self._load.queue_ends.get((self._topic, queue), 0)
            self._ask(self._links[0], queue, QueueOffset(end))

    def _on_reply(self, link: PullLink, reply: Reply, now_ns: int) -> None:
        _, queue, offset = link.under_way.pop(reply.opaque)
        if reply.code == ResponseCode.SUCCESS:
            at, body = 0, reply.body
            while at < len(body):
                stamp = bytes(body[at + HEAD.size : at + HEAD.size + STAMP_WIDTH])
                self._latencies.add((now_ns - int(stamp)) // 1000)
                self._messages += 1
                at += LENGTH.unpack_from(body, at)[0]
        elif reply.code not in (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY):
            self._refused += 1
        next_offset = reply.next_offset if reply.next_offset >= 0 else offset
        self._ask(link, queue, next_offset)
