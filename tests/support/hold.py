"""How long a server keeps an honest client waiting because of what somebody else asks for.

The client asks something cheap, again and again. A question that took `wall` seconds during which the server's
threads used `cpu` seconds was held up for no longer than the smaller of both: what a busy machine adds to the wall
time does not count (nor does the time the client itself waited for a core), and neither does work that others were
not kept waiting by.
"""

import json
import os
import select
import subprocess
import sys
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
    """Sends a message to a broker (or asks a name server for a route) every few milliseconds until the block ends.

    In a process of its own: what the attacker's program does must not keep it from reading its replies.
    """

    def __init__(self, address: str, pid: int, *, is_broker: bool) -> None:
        kind = "broker" if is_broker else "namesrv"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.hold", address, str(pid), kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
            text=True,
        )
        self.cost = Cost(0, 0, 0)

    def __enter__(self) -> Self:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n", "the honest client did not start"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        told, _ = self._process.communicate(timeout=120)  # the end of its input is the end of its work
        if error is None:
            assert self._process.returncode == 0, told
            self.cost = Cost(*json.loads(told))


def ask_forever(address: str, pid: int, *, is_broker: bool) -> None:
    """What the honest client does, until its input ends."""
    hold_s, asked = 0.0, 0
    least_mb = most_mb = own_memory_mb(pid)
    with Control(address, timeout_s=60) as control:
        print("ready", flush=True)
        while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
            cpu, waited_ns, began_s = cpu_ns(pid), own_wait_ns(), time.monotonic()
            if is_broker:
                sent = control.call(310, send_header(HONEST_TOPIC, 0, "", batch=False), b"honest")
                assert sent.code == ResponseCode.SUCCESS, sent
            else:
                assert control.call(105, {"topic": HONEST_TOPIC}).opaque
            wall_s = time.monotonic() - began_s - (own_wait_ns() - waited_ns) / 1e9
            hold_s = max(hold_s, min(wall_s, (cpu_ns(pid) - cpu) / 1e9))
            asked += 1
            most_mb = max(most_mb, own_memory_mb(pid))
    print(json.dumps([hold_s * 1000, most_mb - least_mb, asked]))


if __name__ == "__main__":
    ask_forever(sys.argv[1], int(sys.argv[2]), is_broker=sys.argv[3] == "broker")
