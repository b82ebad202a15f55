"""Fuzzing of real servers: `make fuzz SEED=1 MINUTES=10`, `make fuzz SEED=1 FRAMES=1000000`, `make fuzz REPLAY=file`.

A broker and a name server at all their ports, a console, and where etcd is installed a group of one member. Sessions
(`fuzz_sessions.py`) follow from the seed and their number alone; a few are played at a time. Meanwhile honest clients send
messages. What must hold: all servers live and answer, no error of ours is in their logs, nobody waits longer than
`HOLD_MS_MAX` because of a request, memory and descriptors stay bounded, the honest clients' messages are all there.

Topics, groups and offsets that sessions make stay and take memory. The same sessions once more make (almost) none that
are not there yet: with `--passes` all are played several times, and whatever the last pass adds is a leak.
"""

import argparse
import contextlib
import json
import os
import random
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path

from rocketeer.bench.control import Control
from rocketeer.protocol.codes import ResponseCode
from support.fuzz_scene import LEDGER_TOPIC, Scene, fuzzed_servers
from support.fuzz_sessions import Failure, Session, play, session_of
from support.hold import HonestClient, own_memory_mb
from support.senders import read_queue, send_header

HOLD_MS_MAX = 100
MEMORY_MB_MAX = 400
"""How much a server may grow by: topics, groups and offsets that sessions make stay, within their limits."""
PASS_MEMORY_MB_MAX = 16
"""And by how much in the last of several passes, which makes nothing new: what allocators add by chance."""
SEGMENT_S = 60.0
PLAYERS = 4
"""Sessions at a time: while one waits for answers the next is made."""
KEPT_SESSIONS = 2_000


def open_sockets(pid: int) -> int:
    """How many connections and ports a process has; files of the store come and go with what is in it."""
    found = 0
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found += os.readlink(entry).startswith("socket:")
    return found


class Ledger(threading.Thread):
    """An honest client's messages: sent with care, read back at the end."""

    def __init__(self, address: str) -> None:
        super().__init__(name="ledger", daemon=True)
        self._address = address
        self._ending = threading.Event()
        self._stored: list[bytes] = []
        self._failure: BaseException | None = None

    def run(self) -> None:
        try:
            with Control(self._address, timeout_s=60) as broker:
                while not self._ending.wait(0.01):
                    body = b"honest %d" % len(self._stored)
                    sent = broker.call(310, send_header(LEDGER_TOPIC, 0, ""), body)
                    if sent.code != ResponseCode.SUCCESS or int(sent.ext["queueOffset"]) != len(self._stored):
                        raise Failure(f"the honest client's message {len(self._stored)}: {sent}")
                    self._stored.append(body)
        except BaseException as failure:
            self._failure = failure

    def check(self) -> int:
        self._ending.set()
        self.join(90)
        if self._failure is not None:
            raise Failure(f"the honest client: {self._failure!r}")
        with Control(self._address, timeout_s=60) as broker:
            found = [message.body for message in read_queue(broker, LEDGER_TOPIC, 0)]
        if found != self._stored:
            raise Failure(f"the honest client sent {len(self._stored)} messages and finds {len(found)}")
        return len(found)


class Run:
    """Sessions against one scene."""

    def __init__(self, scene: Scene, seed: str) -> None:
        self._scene = scene
        self._seed = seed
        self._servers = scene.servers
        self._kept: deque[Session] = deque(maxlen=KEPT_SESSIONS)
        self._memory_mb = [own_memory_mb(server.process.pid) for server in self._servers]
        self._sockets = [open_sockets(server.process.pid) for server in self._servers]
        self._lock = threading.Lock()
        self._played_s = 0.0
        self.frames = 0
        self.sessions = 0
        self.frames_to = dict.fromkeys(scene.ports, 0)
        self.hold_ms = 0.0
        self.pass_memory_mb: list[list[float]] = []
        """What each pass added, of each server."""

    def go(
        self, sessions: Callable[[], Iterator[Session]], *, pass_s: float, pass_frames: int, passes: int = 1
    ) -> None:
        """Play them until the time or the number of frames is over, and all of those again in each further pass.

        A failure is written down with its frames.
        """
        ledgers = [
            Ledger(server.address)
            for server in self._servers
            if server.is_broker and server.address is not None
        ]
        for ledger in ledgers:
            ledger.start()
        try:
            self._pass(sessions(), time.monotonic() + pass_s, pass_frames)
            played = self.sessions
            for _ in range(passes - 1):
                self._pass(islice(sessions(), played), float("inf"), 1 << 60)
            messages = sum(ledger.check() for ledger in ledgers)
            self._check_rest()
            self._check_passes()
        except Failure as failure:
            raise Failure(f"{failure}\n{self._written()}") from None
        self._report(messages)

    def _report(self, messages: int) -> None:
        memory = ", then ".join(f"+{max(grown):.0f}" for grown in self.pass_memory_mb)
        sockets = [open_sockets(server.process.pid) for server in self._servers]
        more = max(now - before for now, before in zip(sockets, self._sockets, strict=True))
        shares = ", ".join(f"{port} {frames:,}" for port, frames in self.frames_to.items())
        print(
            f"fuzz: seed {self._seed}: {self.frames:,} frames in {self.sessions:,} sessions ({shares}), "
            f"{self.frames / self._played_s:,.0f} frames/s, longest hold {self.hold_ms:.1f} ms, memory {memory} MB, "
            f"{more:+d} sockets, {messages:,} honest messages intact"
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
                f"the same requests once more take more memory: the servers grew by {self.pass_memory_mb} MB"
            )

    def _segment(self, sessions: Iterator[Session], until_s: float, frames_max: int) -> bool:
        """False when there are no more sessions."""
        asked = [server for server in self._servers if server.address is not None]
        with contextlib.ExitStack() as clients:
            honest = [
                clients.enter_context(
                    HonestClient(
                        server.address or "",
                        server.process.pid,
                        "broker" if server.is_broker else "name server",
                    )
                )
                for server in asked
            ]
            began_s = time.monotonic()
            more = self._play(sessions, until_s, frames_max)
            self._played_s += time.monotonic() - began_s
        for client, server in zip(honest, asked, strict=True):
            self.hold_ms = max(self.hold_ms, client.cost.hold_ms)
            if client.cost.hold_ms > HOLD_MS_MAX:
                raise Failure(f"the {server.name} kept others waiting for {client.cost.hold_ms:.0f} ms")
        return more

    def _play(self, sessions: Iterator[Session], until_s: float, frames_max: int) -> bool:
        failures: list[BaseException] = []
        ended = threading.Event()

        def player() -> None:
            try:
                while time.monotonic() < until_s and not ended.is_set():
                    with self._lock:
                        session = next(sessions, None) if self.frames < frames_max else None
                        if session is None:
                            if self.frames < frames_max:
                                exhausted.set()
                            return
                        self._kept.append(session)
                        self.sessions += 1
                        self.frames += session.frames
                        self.frames_to[session.to] += session.frames
                    play(session, self._scene.ports, self._scene.group_id)
            except BaseException as failure:
                failures.append(failure)
                ended.set()

        exhausted = threading.Event()
        players = [threading.Thread(target=player, daemon=True) for _ in range(PLAYERS)]
        for each in players:
            each.start()
        for each in players:
            each.join()
        if failures:
            self._check_servers()  # one that ended says why
            raise failures[0]
        return not exhausted.is_set()

    def _growth_mb(self) -> list[float]:
        return [
            own_memory_mb(server.process.pid) - before
            for server, before in zip(self._servers, self._memory_mb, strict=True)
        ]

    def _check_servers(self) -> None:
        for _, process, _, _ in self._servers:
            if not process.running:
                raise Failure(f"a server ended with {process.exit_code}\n{process.last_lines()}")
            log = process.log.read_text(errors="replace")
            for sign in ("Traceback", "request failed", "Fatal error", "Exception in callback"):
                if sign in log:
                    raise Failure(
                        f"{sign!r} in {process.log}:\n{log[max(0, log.index(sign) - 500) :][:3000]}"
                    )
        if max(self._growth_mb()) > MEMORY_MB_MAX:
            raise Failure(f"memory grew by {self._growth_mb()} MB")

    def _check_rest(self) -> None:
        """When all peers are gone their connections are, too."""
        give_up_s = time.monotonic() + 30
        while any(
            open_sockets(server.process.pid) > before + 2
            for server, before in zip(self._servers, self._sockets, strict=True)
        ):
            if time.monotonic() > give_up_s:
                left = [open_sockets(server.process.pid) for server in self._servers]
                raise Failure(f"connections are left: {left}, {self._sockets} before")
            time.sleep(0.1)
        for server in self._servers:
            if server.address is not None:
                with Control(server.address, timeout_s=30) as control:
                    if control.call(9999).code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                        raise Failure(f"the {server.name} gives strange answers")

    def _written(self) -> str:
        """The last sessions' bytes in a file that `--replay` takes."""
        path = Path(tempfile.gettempdir()) / f"fuzz-{self._seed}-{self.sessions}.jsonl"
        with path.open("w") as out:
            for session in self._kept:
                out.write(json.dumps({**session._asdict(), "data": session.data.hex()}) + "\n")
        return f"seed {self._seed}, session {self.sessions}; again: make fuzz SEED={self._seed}, or make fuzz REPLAY={path}"


def sessions_from(seed: str, ports: tuple[str, ...]) -> Iterator[Session]:
    return (session_of(seed, number, ports) for number in count())


def sessions_in(path: Path) -> Iterator[Session]:
    for line in path.open():
        row = json.loads(line)
        yield Session(**{**row, "data": bytes.fromhex(row["data"])})


def fuzz(
    folder: Path,
    seed: str,
    *,
    seconds: float,
    frames_max: int = 1 << 60,
    passes: int = 1,
    wide: bool = False,
    replay: Path | None = None,
) -> Run:
    """Seconds and frames are of all passes together; `wide` as of `fuzzed_servers`."""
    with fuzzed_servers(folder, wide=wide) as scene:
        run = Run(scene, seed)
        run.go(
            lambda: sessions_from(seed, tuple(scene.ports)) if replay is None else sessions_in(replay),
            pass_s=seconds / passes,
            pass_frames=max(1, frames_max // passes),
            passes=passes,
        )
        return run


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seed", default=str(random.SystemRandom().randrange(1 << 32)))
    options.add_argument("--minutes", type=float, help="5, or as long as --frames take")
    options.add_argument("--frames", type=int, help="stop when so many were sent")
    options.add_argument("--passes", type=int, default=1, help="play all sessions so many times")
    options.add_argument("--replay", type=Path)
    chosen = options.parse_args()
    print(f"fuzz: seed {chosen.seed}", flush=True)
    minutes = chosen.minutes or (5 if chosen.frames is None else float("inf"))
    with tempfile.TemporaryDirectory() as folder:
        try:
            fuzz(
                Path(folder),
                chosen.seed,
                seconds=minutes * 60,
                frames_max=chosen.frames or 1 << 60,
                passes=chosen.passes,
                wide=True,
                replay=chosen.replay,
            )
        except Failure as failure:
            sys.exit(f"fuzz: {failure}")


if __name__ == "__main__":
    main()
