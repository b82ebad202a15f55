"""Servers that tests and benchmarks start are gone when these are, however they ended."""

import signal
import subprocess
import sys
from pathlib import Path

import psutil

_STARTS = """
import sys, time
from pathlib import Path
from rocketeer.bench.processes import ServerProcess

server = ServerProcess([sys.executable, "-c", "import time; time.sleep(60)"], log=Path(sys.argv[1]))
print(server.pid, flush=True)
time.sleep(60)
"""


def test_a_server_ends_with_who_started_it(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _STARTS, str(tmp_path / "log")], stdout=subprocess.PIPE, text=True
    ) as tester:
        assert tester.stdout is not None
        server = psutil.Process(int(tester.stdout.readline()))
        assert server.is_running()
        tester.send_signal(signal.SIGKILL)
    server.wait(timeout=30)
