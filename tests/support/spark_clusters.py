"""Spark with executors in processes of their own, from the installed package: driver programs and a standalone cluster."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from rocketeer.spark.java import use_java
from support.sessions import kill_session

EXECUTOR = {
    "spark.executor.memory": "512m",
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""The least Spark allows is 450 MB."""
_URL = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = re.compile(r"Successfully registered with master")


def run_driver(code: str, *arguments: str, within_s: float = 500) -> str:
    """What a driver program printed, which must end well. Nothing of it is left, however it ends."""
    command = [sys.executable, "-W", "ignore", "-c", code, *arguments]
    env = {name: value for name, value in _environment().items() if name != "SPARK_HOME"}  # it finds its own
    driver = subprocess.Popen(
        command, env=env, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        out, err = driver.communicate(timeout=within_s)
    finally:
        kill_session(driver.pid)
        driver.wait(30)
    assert driver.returncode == 0, out[-1000:] + err[-4000:]
    return out


@contextmanager
def standalone_cluster(folder: Path, *, cores: int = 1) -> Iterator[str]:
    """A master and a worker; gives the master's URL. Both choose their ports, so that nobody else has them."""
    servers = _Servers(folder)
    try:
        servers.start("master.Master")
        url = servers.said(_URL)[1]
        # Only now: a worker whose master is not there yet tries again as late as 5 to 15 s after.
        work = ["--work-dir", str(folder / "work")]
        servers.start("worker.Worker", "--cores", str(cores), "--memory", "1g", *work, url)
        servers.said(_REGISTERED)
        yield url
    finally:
        servers.kill()


class _Servers:
    """Spark's own, each with its output in a file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: list[tuple[subprocess.Popen[bytes], Path]] = []

    def start(self, name: str, *arguments: str) -> None:
        home = Path(pyspark.__file__).parent
        own = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        log = self._folder / f"{name}.log"
        with log.open("wb") as out:
            server = subprocess.Popen(
                [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *own, *arguments],
                env={**_environment(), "SPARK_HOME": str(home)},
                start_new_session=True,
                stdout=out,
                stderr=out,
            )
        self._running.append((server, log))

    def said(self, wanted: re.Pattern[str], within_s: float = 120) -> re.Match[str]:
        """Wait for a line of the server that was started last."""
        server, log = self._running[-1]
        end_s = time.monotonic() + within_s
        while (found := wanted.search(text := log.read_text(errors="replace"))) is None:
            assert server.poll() is None, text[-3000:]
            assert time.monotonic() < end_s, text[-3000:]
            time.sleep(0.05)
        return found

    def kill(self) -> None:
        for server, _ in reversed(self._running):
            kill_session(server.pid)
            server.wait(30)


def _environment() -> dict[str, str]:
    use_java()
    # Programs that run for seconds only: compiling them well would take longer than they run.
    quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    own = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "JAVA_TOOL_OPTIONS": quick}
    return {**os.environ, **own}
