"""How long a server keeps an honest client waiting because of what somebody else asks for.

The client asks something cheap, again and again. A question that took `wall` seconds during which the server's
threads used `cpu` seconds was held up for no longer than the smaller of both: what a busy machine adds to the wall
time does not count, and neither does work that others were not kept waiting by.
"""

import threading
import time
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from rocketeer.bench.control import Control
from rocketeer.protocol.codes import ResponseCode
from support.senders import send_header

HONEST_TOPIC = "Honest"
PAUSE_S = 0.002


class Cost(NamedTuple):
    """What others had to bear: the longest hold and the largest growth of the server's own memory."""

    hold_ms: float
    memory_mb: float
    asked: int


def cpu_ns(pid: int) -> int:
    """What all threads of a process have used so far."""
    used = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            used += int((task / "schedstat").read_text().split()[0])
        except (FileNotFoundError, ProcessLookupError):
            continue  # the thread ended just now
    return used


def own_memory_mb(pid: int) -> float:
    """Anonymous memory: the log's files, which are mapped, do not count."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"/proc/{pid}/status has no RssAnon")


class HonestClient(threading.Thread):
    """Sends a message to a broker (or asks a name server for a route) every few milliseconds until the block ends."""

    def __init__(self, address: str, pid: int, *, is_broker: bool) -> None:
        super().__init__(name="honest", daemon=True)
        self._address = address
        self._pid = pid
        self._is_broker = is_broker
        self._ending = threading.Event()
        self._hold_s = 0.0
        self._asked = 0
        self._memory_mb = self._least_mb = own_memory_mb(pid)
        self.failure: BaseException | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self.join(60)
        if error is None:
            assert not self.is_alive(), "the honest client waits and waits"
            assert self.failure is None, repr(self.failure)

    def run(self) -> None:
        try:
            with Control(self._address, timeout_s=60) as control:
                while not self._ending.is_set():
                    self._ask(control)
                    time.sleep(PAUSE_S)
        except BaseException as failure:
            self.failure = failure

    def _ask(self, control: Control) -> None:
        cpu, began_s = cpu_ns(self._pid), time.monotonic()
        if self._is_broker:
            sent = control.call(310, send_header(HONEST_TOPIC, 0, "", batch=False), b"honest")
            assert sent.code == ResponseCode.SUCCESS, sent
        else:
            assert control.call(105, {"topic": HONEST_TOPIC}).opaque
        wall_s = time.monotonic() - began_s
        self._hold_s = max(self._hold_s, min(wall_s, (cpu_ns(self._pid) - cpu) / 1e9))
        self._asked += 1
        self._memory_mb = max(self._memory_mb, own_memory_mb(self._pid))

    @property
    def cost(self) -> Cost:
        return Cost(self._hold_s * 1000, self._memory_mb - self._least_mb, self._asked)
