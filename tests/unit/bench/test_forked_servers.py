"""Servers that are forked are like those that are started: they end alike, and what they need early they get."""

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from rocketeer.bench.processes import ServerFailed, ServerProcess
from rocketeer.bench.servers import ServerCluster
from support.cluster import TEST_CONF
from support.forked_servers import PROGRAM, Forked

_STARTS = """
import sys, time
from pathlib import Path
from rocketeer.bench.processes import ServerProcess
from rocketeer.bench.servers import ServerCluster
from support import forked_servers

ServerProcess.launch = staticmethod(forked_servers.launch)
cluster = ServerCluster("ours", Path(sys.argv[1]))
cluster.start()
print(cluster.namesrv_process.pid, cluster.broker_process.pid, flush=True)
time.sleep(60)
"""


def test_exit_codes_are_those_of_the_server(tmp_path: Path) -> None:
    with ServerCluster("ours", tmp_path, conf=TEST_CONF) as cluster:
        assert isinstance(cluster.broker_process._process, Forked)
        assert cluster.broker_process.running
        cluster.kill_broker()
        assert cluster.broker_process.exit_code == -signal.SIGKILL
        cluster.start_broker()
    assert cluster.broker_process.exit_code == 0
    refused = ServerProcess([*PROGRAM, "broker", "-c", str(tmp_path / "missing")], log=tmp_path / "refused")
    with pytest.raises(ServerFailed, match=r"exit code 1\n.*missing"):
        refused.wait_until(lambda: False, timeout_s=60, what="the broker")


def test_what_is_read_before_its_first_line_is_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROCKETEER_PLAIN", "1")
    with ServerCluster("ours", tmp_path, conf=TEST_CONF) as cluster:
        pid = cluster.broker_process.pid
        assert b"rocketeer.cli.main" in Path(f"/proc/{pid}/cmdline").read_bytes()
        assert b"ROCKETEER_PLAIN=1" in Path(f"/proc/{pid}/environ").read_bytes()


def test_forked_servers_end_with_who_asked_for_them(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _STARTS, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    ) as tester:
        assert tester.stdout is not None
        servers = [psutil.Process(int(pid)) for pid in tester.stdout.readline().split()]
        assert len(servers) == 2
        tester.send_signal(signal.SIGKILL)
    for server in servers:
        server.wait(timeout=30)
