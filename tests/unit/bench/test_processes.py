"""Servers as processes: the limits they get, when they end, and what starting one does to who starts it."""

import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

from rocketeer.bench.processes import ServerProcess

_STARTS = """
import sys, time
from pathlib import Path
from rocketeer.bench.processes import ServerProcess

log = Path(sys.argv[1])
server = ServerProcess([sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"], log=log)
server.wait_until(lambda: "up" in log.read_text(), timeout_s=30, what="it")
print(server.pid, flush=True)
time.sleep(60)
"""


class _ShutsDown:
    """What a thread of py4j has: at its end the connection is shut down, for all who have it."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def __del__(self) -> None:
        self._connection.shutdown(socket.SHUT_RDWR)


def test_a_server_started_in_one_thread_ends_nothing_that_another_has(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    held = threading.local()
    held.connection = _ShutsDown(ours)
    before = signal.signal(signal.SIGTERM, lambda number, frame: None)  # as in tests and benchmarks
    try:
        with ThreadPoolExecutor(1) as pool:
            cores, files_max = frozenset({min(os.sched_getaffinity(0))}), 512
            command = ("true",)
            started = pool.submit(
                lambda: ServerProcess(command, log=tmp_path / "log", cores=cores, files_max=files_max)
            ).result(60)
            assert started.stop() in (0, -signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    ours.sendall(b"still there")
    assert theirs.recv(64) == b"still there"
    del held.connection
    ours.close()
    theirs.close()


def test_a_server_has_its_cores_and_its_limit_of_files_and_takes_sigterm(tmp_path: Path) -> None:
    core = max(os.sched_getaffinity(0))
    told = (
        "import os, resource, signal, time; "
        "print(os.sched_getaffinity(0), resource.getrlimit(resource.RLIMIT_NOFILE), "
        "signal.pthread_sigmask(signal.SIG_BLOCK, ()), flush=True); time.sleep(600)"
    )
    ours = (os.sched_getaffinity(0), resource.getrlimit(resource.RLIMIT_NOFILE))
    log = tmp_path / "log"
    command = (sys.executable, "-c", told)
    server = ServerProcess(command, log=log, cores=frozenset({core}), files_max=512)
    server.wait_until(lambda: log.read_text().endswith("\n"), timeout_s=60, what="it")
    assert log.read_text().strip() == f"{ {core} } (512, 512) set()"
    assert server.stop() == -signal.SIGTERM
    assert (os.sched_getaffinity(0), resource.getrlimit(resource.RLIMIT_NOFILE)) == ours


def test_a_server_ends_with_who_started_it(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _STARTS, str(tmp_path / "log")], stdout=subprocess.PIPE, text=True
    ) as tester:
        assert tester.stdout is not None
        server = psutil.Process(int(tester.stdout.readline()))
        assert server.is_running()
        tester.send_signal(signal.SIGKILL)
    server.wait(timeout=30)
