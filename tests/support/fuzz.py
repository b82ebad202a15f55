"""Fuzzing of a real broker and a real name server: `make fuzz SEED=1 MINUTES=10 ARGS="--passes 3"`, `make fuzz REPLAY=file`.

A session is one connection with some mutated frames, in pieces of any size, which ends in good order, in the middle of a
frame or without reading its replies. Sessions follow from the seed and their number alone. Meanwhile an honest client
sends messages. What must hold: both servers live and answer, no error of ours is in their logs, nobody waits longer than
`HOLD_MS_MAX` because of a request, memory and descriptors stay bounded, the honest client's messages are all there.

Topics, groups and offsets that sessions make stay and take memory. The same sessions once more make (almost) none that
are not there yet: with `--passes` all are played several times, and whatever the last pass adds is a leak.
"""

import argparse
import contextlib
import json
import os
import random
import select
import socket
import struct
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from rocketeer.bench.control import Control
from rocketeer.protocol.codes import ResponseCode
from rocketeer.remoting.address import split_address
from rocketeer.security.peer import MAGIC
from support.cluster import Cluster, running_cluster
from support.hold import HONEST_TOPIC, HonestClient, own_memory_mb
from support.mutations import mutated, recorded_requests
from support.senders import read_queue, send_header

HOLD_MS_MAX = 100
MEMORY_MB_MAX = 400
"""How much a server may grow by: topics, groups and offsets that sessions make stay, within their limits."""
PASS_MEMORY_MB_MAX = 16
"""And by how much in the last of several passes, which makes nothing new: what allocators add by chance."""
SEGMENT_S = 20.0
KEPT_SESSIONS = 400
LEDGER_TOPIC = "HonestLedger"
BROKER_NAME = "honest-broker"
ANSWER_S = 20.0


def open_sockets(pid: int) -> int:
    """How many connections and ports a process has; files of the store come and go with what is in it."""
    count = 0
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            count += os.readlink(entry).startswith("socket:")
    return count


class Session(NamedTuple):
    """What one connection sends, and how it ends."""

    number: int
    to: str
    """"broker", "namesrv" or "ha": the port for slaves."""
    pieces: list[bytes]
    frames: int
    ending: str
    """"ask" for one more question, whose answer says that all was served; "reset" and "leave" without reading."""


class Failure(Exception):
    """A law does not hold."""


def session_of(seed: str, number: int) -> Session:
    dice = random.Random(f"{seed} {number}")
    to = dice.choices(("broker", "namesrv", "ha"), (70, 25, 5))[0]
    count = dice.choice((1, 3, 10, 30, 100))
    if to == "ha":
        frames = [_report(dice) for _ in range(count)]
    else:
        requests = [each for each in recorded_requests() if each.to_namesrv is (to == "namesrv")]
        wild = dice.random() < 0.25
        frames = [
            mutated(dice.choice(requests), dice.randrange(1 << 30), dice, wild=wild) for _ in range(count)
        ]
    data = b"".join(frames)
    if dice.random() < 0.1 and data:
        data = data[: dice.randrange(len(data))]
    cuts = sorted(dice.randrange(len(data) + 1) for _ in range(dice.choice((0, 0, 1, 4, 20))))
    pieces = [
        data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True) if end > start
    ]
    return Session(number, to, pieces, len(frames), dice.choice(("ask", "ask", "ask", "reset", "leave")))


def _report(dice: random.Random) -> bytes:
    """What a slave says, or something like it: a hello, an offset, nonsense, the start of a sign-in."""
    offset = dice.choice(
        (-1, -1, 0, 0, 1, 4096, dice.randrange(1 << 24), dice.randrange(-(1 << 63), 1 << 63))
    )
    return dice.choice((struct.pack(">q", offset),) * 6 + (MAGIC, dice.randbytes(dice.randrange(1, 64))))


def play(session: Session, cluster: Cluster) -> None:
    """Send it; Failure when the server neither answers nor ends the connection."""
    address = {
        "broker": cluster.broker,
        "namesrv": cluster.namesrv,
        "ha": f"127.0.0.1:{cluster.broker_port + 1}",
    }[session.to]
    with contextlib.closing(socket.create_connection(split_address(address), ANSWER_S)) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            for piece in session.pieces:
                peer.sendall(piece)
                if session.ending == "ask":
                    _drop_replies(peer)
            if session.ending == "reset":
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            elif session.ending == "ask":
                peer.shutdown(
                    socket.SHUT_WR
                )  # what is incomplete stays so; what is whole is served, then it ends
                _read_to_end(peer, session)
        except TimeoutError:
            raise Failure(f"session {session.number}: the server takes nothing") from None
        except OSError:
            pass  # the server closed it: so be it


def _drop_replies(peer: socket.socket) -> None:
    while select.select([peer], [], [], 0)[0] and peer.recv(1 << 18):
        pass


def _read_to_end(peer: socket.socket, session: Session) -> None:
    try:
        while peer.recv(1 << 18):
            pass
    except TimeoutError:
        raise Failure(f"session {session.number}: neither answered nor ended within {ANSWER_S:g} s") from None


class Ledger(threading.Thread):
    """The honest client's messages: sent with care, read back at the end."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(name="ledger", daemon=True)
        self._cluster = cluster
        self._ending = threading.Event()
        self._stored: list[bytes] = []
        self._failure: BaseException | None = None

    def run(self) -> None:
        try:
            with Control(self._cluster.broker, timeout_s=60) as broker:
                while not self._ending.is_set():
                    body = b"honest %d" % len(self._stored)
                    sent = broker.call(310, send_header(LEDGER_TOPIC, 0, ""), body)
                    if sent.code != ResponseCode.SUCCESS or int(sent.ext["queueOffset"]) != len(self._stored):
                        raise Failure(f"the honest client's message {len(self._stored)}: {sent}")
                    self._stored.append(body)
                    time.sleep(0.01)
        except BaseException as failure:
            self._failure = failure

    def check(self) -> int:
        self._ending.set()
        self.join(90)
        if self._failure is not None:
            raise Failure(f"the honest client: {self._failure!r}")
        with Control(self._cluster.broker, timeout_s=60) as broker:
            found = [message.body for message in read_queue(broker, LEDGER_TOPIC, 0)]
        if found != self._stored:
            raise Failure(f"the honest client sent {len(self._stored)} messages and finds {len(found)}")
        return len(found)


class Run:
    """Sessions against one cluster."""

    def __init__(self, cluster: Cluster, seed: str) -> None:
        self._cluster = cluster
        self._seed = seed
        self._processes = (cluster.broker_process, cluster.namesrv_process)
        self._kept: deque[Session] = deque(maxlen=KEPT_SESSIONS)
        self._memory_mb = [own_memory_mb(process.pid) for process in self._processes]
        self._sockets = [open_sockets(process.pid) for process in self._processes]
        self.frames = 0
        self.sessions = 0
        self.hold_ms = 0.0
        self.pass_memory_mb: list[list[float]] = []
        """What each pass added, of the broker and of the name server."""

    def go(
        self, sessions: Callable[[], Iterator[Session]], *, pass_s: float, pass_frames: int, passes: int = 1
    ) -> None:
        """Play them until the time or the number of frames is over, and all of those again in each further pass.

        A failure is written down with its frames.
        """
        ledger = Ledger(self._cluster)
        with Control(self._cluster.broker) as broker:
            broker.create_topic(HONEST_TOPIC, queues=1)
            broker.create_topic(LEDGER_TOPIC, queues=1)
        ledger.start()
        try:
            self._pass(sessions(), time.monotonic() + pass_s, pass_frames)
            played = self.sessions
            for _ in range(passes - 1):
                self._pass(islice(sessions(), played), float("inf"), 1 << 60)
            messages = ledger.check()
            self._check_rest()
            self._check_passes()
        except Failure as failure:
            raise Failure(f"{failure}\n{self._written()}") from None
        memory = ", then ".join(f"+{max(grown):.0f}" for grown in self.pass_memory_mb)
        print(
            f"fuzz: seed {self._seed}: {self.frames:,} frames in {self.sessions:,} sessions, longest hold "
            f"{self.hold_ms:.1f} ms, memory {memory} MB, {messages:,} honest messages intact"
        )

    def _pass(self, sessions: Iterator[Session], until_s: float, frames_max: int) -> None:
        before_mb = self._growth_mb()
        end = self.frames + frames_max
        more = True
        while more and time.monotonic() < until_s and self.frames < end:
            more = self._segment(sessions, min(until_s, time.monotonic() + SEGMENT_S), end)
            self._check_servers()
            print(f"fuzz: {self.frames:,} frames, longest hold {self.hold_ms:.1f} ms", flush=True)
        grown = [now - before for now, before in zip(self._growth_mb(), before_mb, strict=True)]
        self.pass_memory_mb.append(grown)

    def _check_passes(self) -> None:
        if len(self.pass_memory_mb) > 1 and max(self.pass_memory_mb[-1]) > PASS_MEMORY_MB_MAX:
            raise Failure(
                f"the same requests once more take more memory: broker and name server grew by {self.pass_memory_mb} MB"
            )

    def _segment(self, sessions: Iterator[Session], until_s: float, frames_max: int) -> bool:
        broker, namesrv = self._processes
        with (
            HonestClient(self._cluster.broker, broker.pid, is_broker=True) as one,
            HonestClient(self._cluster.namesrv, namesrv.pid, is_broker=False) as other,
        ):
            more = False
            for session in sessions:
                self._kept.append(session)
                play(session, self._cluster)
                self.sessions += 1
                self.frames += session.frames
                more = True
                if time.monotonic() >= until_s or self.frames >= frames_max:
                    break
        for honest, name in ((one, "broker"), (other, "name server")):
            self.hold_ms = max(self.hold_ms, honest.cost.hold_ms)
            if honest.cost.hold_ms > HOLD_MS_MAX:
                raise Failure(f"the {name} kept others waiting for {honest.cost.hold_ms:.0f} ms")
        return more

    def _growth_mb(self) -> list[float]:
        return [
            own_memory_mb(process.pid) - before
            for process, before in zip(self._processes, self._memory_mb, strict=True)
        ]

    def _check_servers(self) -> None:
        for process in self._processes:
            if not process.running:
                raise Failure(f"a server ended with {process.exit_code}\n{process.last_lines()}")
            log = process.log.read_text(errors="replace")
            for sign in ("Traceback", "request failed", "Fatal error", "Exception in callback"):
                if sign in log:
                    raise Failure(f"{sign!r} in {process.log}:\n{log[log.index(sign) - 500 :][:3000]}")
        if max(self._growth_mb()) > MEMORY_MB_MAX:
            raise Failure(f"memory grew by {self._growth_mb()} MB")

    def _check_rest(self) -> None:
        """When all peers are gone their connections are, too."""
        give_up_s = time.monotonic() + 30
        while any(
            open_sockets(process.pid) > before + 2
            for process, before in zip(self._processes, self._sockets, strict=True)
        ):
            if time.monotonic() > give_up_s:
                raise Failure(f"connections are left: {[open_sockets(each.pid) for each in self._processes]}")
            time.sleep(0.1)
        for address in (self._cluster.broker, self._cluster.namesrv):
            with Control(address, timeout_s=30) as control:
                if control.call(9999).code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                    raise Failure(f"{address} gives strange answers")

    def _written(self) -> str:
        """The last sessions' bytes in a file that `--replay` takes."""
        path = Path(tempfile.gettempdir()) / f"fuzz-{self._seed}-{self.sessions}.jsonl"
        with path.open("w") as out:
            for session in self._kept:
                row = {**session._asdict(), "pieces": [piece.hex() for piece in session.pieces]}
                out.write(json.dumps(row) + "\n")
        return f"seed {self._seed}, session {self.sessions}; again: make fuzz SEED={self._seed}, or make fuzz REPLAY={path}"


def sessions_from(seed: str) -> Iterator[Session]:
    number = 0
    while True:
        yield session_of(seed, number)
        number += 1


def sessions_in(path: Path) -> Iterator[Session]:
    for line in path.open():
        row = json.loads(line)
        yield Session(**{**row, "pieces": [bytes.fromhex(piece) for piece in row["pieces"]]})


def fuzz(
    folder: Path,
    seed: str,
    *,
    seconds: float,
    frames_max: int = 1 << 60,
    passes: int = 1,
    replay: Path | None = None,
) -> Run:
    """Seconds and frames are of all passes together."""
    with running_cluster(folder, conf={"brokerName": BROKER_NAME}) as cluster:
        run = Run(cluster, seed)
        run.go(
            lambda: sessions_from(seed) if replay is None else sessions_in(replay),
            pass_s=seconds / passes,
            pass_frames=max(1, frames_max // passes),
            passes=passes,
        )
        return run


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seed", default=str(random.SystemRandom().randrange(1 << 32)))
    options.add_argument("--minutes", type=float, default=5)
    options.add_argument("--frames", type=int, default=1 << 60)
    options.add_argument("--passes", type=int, default=1, help="play all sessions so many times")
    options.add_argument("--replay", type=Path)
    chosen = options.parse_args()
    print(f"fuzz: seed {chosen.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        try:
            fuzz(
                Path(folder),
                chosen.seed,
                seconds=chosen.minutes * 60,
                frames_max=chosen.frames,
                passes=chosen.passes,
                replay=chosen.replay,
            )
        except Failure as failure:
            sys.exit(f"fuzz: {failure}")


if __name__ == "__main__":
    main()
