"""How long a server keeps an honest client waiting because of what somebody else asks for.

The client asks something cheap, again and again. What a question is held up by the program is what its answer took,
without the time in which the client, or the server's loop, was ready to run and others had the cores; and it is no more
than the processor's time of the loop's thread, and of the other threads as far as the loop neither ran nor waited for
a core: then it may have waited for the interpreter's lock. So a busy machine does not count, and neither does work
that nobody was kept waiting by.
"""

import contextlib
import http.client
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Literal, NamedTuple, Self

from rocketeer.bench.control import Control
from rocketeer.protocol.codes import ResponseCode
from support.senders import send_header

Kind = Literal["broker", "name server", "console"]
"""Of the server that is asked."""
HONEST_TOPIC = "Honest"
PAUSE_S = 0.002
SERVED_S = 30.0
COOKIE_VARIABLE = "ROCKETEER_CONSOLE_COOKIE"
"""Of a user of the console who may only look."""
ASKED_BEFORE = 20
"""It has been a client for a while: a server knows what to expect of it. Newcomers wait with a crowd of newcomers."""


class Cost(NamedTuple):
    """What others had to bear: the longest hold and the largest growth of the server's own memory."""

    hold_ms: float
    memory_mb: float
    asked: int


class Threads(NamedTuple):
    """What the threads of a server have used so far, in nanoseconds; the loop runs in the first."""

    loop_ran: int
    loop_waited: int
    """It was ready to run, and others had the cores."""
    others_ran: int


def threads_of(pid: int) -> Threads:
    others = 0
    loop_ran, loop_waited = _ran_and_waited(Path(f"/proc/{pid}/task/{pid}"))
    for task in Path(f"/proc/{pid}/task").iterdir():
        if task.name != str(pid):
            try:
                others += _ran_and_waited(task)[0]
            except (FileNotFoundError, ProcessLookupError):
                continue  # the thread ended just now
    return Threads(loop_ran, loop_waited, others)


def _ran_and_waited(task: Path) -> tuple[int, int]:
    ran, waited, _ = (task / "schedstat").read_text().split()
    return int(ran), int(waited)


def held_s(wall_s: float, own_wait_s: float, before: Threads, after: Threads) -> float:
    """How long of a question's time the program caused; `own_wait_s`: the client itself had no core.

    Both may have waited for a core at the same time, and that is left out twice; so the client goes first if it may.
    """
    loop_ran_s = (after.loop_ran - before.loop_ran) / 1e9
    loop_waited_s = (after.loop_waited - before.loop_waited) / 1e9
    others_ran_s = max(0, after.others_ran - before.others_ran) / 1e9
    stood_s = max(0.0, wall_s - own_wait_s - loop_ran_s - loop_waited_s)
    return min(wall_s - own_wait_s - loop_waited_s, loop_ran_s + min(stood_s, others_ran_s))


def own_wait_ns() -> int:
    """How long this process was ready to run and others ran."""
    return int(Path("/proc/self/schedstat").read_text().split()[1])


def own_memory_mb(pid: int) -> float:
    """Anonymous memory: the log's files, which are mapped, do not count."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"/proc/{pid}/status has no RssAnon")


class HonestClient:
    """Asks a server something every few milliseconds until the block ends: a broker to take a message, a name server
    for a route, a console for the token of forms.

    In a process of its own: what the attacker's program does must not keep it from reading its replies. It is kept for
    the next one who needs an honest client with the same account, which is a new client of its server all the same.
    """

    _idle: ClassVar[dict[frozenset[tuple[str, str]], list[subprocess.Popen[str]]]] = {}
    """By their environment, which names the account."""

    def __init__(self, address: str, pid: int, kind: Kind) -> None:
        self._order = json.dumps([address, pid, kind])
        environment = frozenset((name, value) for name, value in os.environ.items() if "PYTEST" not in name)
        self._alike = self._idle.setdefault(environment, [])
        self._process = self._alike.pop() if self._alike else _start_asking()
        self.cost = Cost(0, 0, 0)

    def __enter__(self) -> Self:
        assert self._say(self._order) == "ready", "the honest client did not start"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        told = self._say("end")
        if told:
            self._alike.append(self._process)
        else:
            self._process.communicate(timeout=120)
        if error is None:
            assert told, f"the honest client ended with {self._process.returncode}"
            self.cost = Cost(*json.loads(told))

    def _say(self, line: str) -> str:
        """What it answers; nothing if it has ended, which it does when its server does not answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            print(line, file=self._process.stdin, flush=True)
        return self._process.stdout.readline().rstrip()


def _start_asking() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "support.hold"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        text=True,
    )


@contextlib.contextmanager
def _honest(address: str, kind: str) -> Iterator[Callable[[], None]]:
    """What the honest client asks, on one connection."""
    if kind == "console":
        page = http.client.HTTPConnection(address, timeout=60)
        cookie = {"Cookie": os.environ[COOKIE_VARIABLE]}

        def look() -> None:
            page.request("GET", "/api/token", headers=cookie)
            answer = page.getresponse()
            assert answer.status == 200, answer.status
            answer.read()

        with contextlib.closing(page):
            yield look
        return
    with Control(address, timeout_s=60) as control:

        def ask() -> None:
            if kind == "broker":
                sent = control.call(310, send_header(HONEST_TOPIC, 0, "", batch=False), b"honest")
                assert sent.code == ResponseCode.SUCCESS, sent
            else:
                assert control.call(105, {"topic": HONEST_TOPIC}).opaque

        yield ask


def ask_until_told(address: str, pid: int, kind: str) -> Cost:
    """What the honest client does, until a line comes."""
    hold_s, asked = 0.0, 0
    least_mb = most_mb = own_memory_mb(pid)
    with _honest(address, kind) as ask:
        _ask_until_served(ask)
        for _ in range(ASKED_BEFORE):
            ask()
        print("ready", flush=True)
        while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
            threads, waited_ns, began_s = threads_of(pid), own_wait_ns(), time.monotonic()
            ask()
            wall_s, own_wait_s = time.monotonic() - began_s, (own_wait_ns() - waited_ns) / 1e9
            hold_s = max(hold_s, held_s(wall_s, own_wait_s, threads, threads_of(pid)))
            asked += 1
            most_mb = max(most_mb, own_memory_mb(pid))
    return Cost(hold_s * 1000, most_mb - least_mb, asked)


def _ask_until_served(ask: Callable[[], None]) -> None:
    """A member that was elected a moment ago refuses at first."""
    give_up_s = time.monotonic() + SERVED_S
    while True:
        try:
            return ask()
        except AssertionError:
            if time.monotonic() > give_up_s:
                raise
            time.sleep(0.02)


if __name__ == "__main__":
    with contextlib.suppress(PermissionError):  # only root may
        os.nice(-15)
    while order := sys.stdin.readline():
        cost = ask_until_told(*json.loads(order))
        sys.stdin.readline()
        print(json.dumps(cost), flush=True)
