"""One Kafka broker in KRaft mode, as a real process on free loopback ports, to compare Spark's own source with."""

import base64
import os
import shutil
import socket
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from rocketeer.bench.processes import ServerFailed, ServerProcess
from rocketeer.config.ports import free_ports

HOST: Final = "127.0.0.1"
_JARS: Final = Path(__file__).parents[3] / "interop" / "kafka"
_HEAP: Final = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC")  # what its own start script chooses
_LOGGED: Final = "-Dlog4j2.level=WARN"
_READY_S: Final = 120.0
_HEARTBEATS_MISSED_MS: Final = 60_000


def kafka_jars(what: str, least: str) -> list[Path]:
    """The jars of `server` or `spark` that `interop/prepare.sh kafka` fetched; ServerFailed says how to get them."""
    found = sorted((_JARS / what / "target" / "jars").glob("*.jar"))
    if not any(path.name.startswith(least) for path in found):
        raise ServerFailed(f"no {least} jar under {_JARS / what}; get it with: bash interop/prepare.sh kafka")
    return found


def _java() -> str:
    found = shutil.which("java")
    if found is None:
        raise ServerFailed("Kafka needs Java 17 or later, and no `java` is on the PATH")
    return found


class KafkaServer:
    """A broker that is its own controller; everything it writes is under `folder`."""

    def __init__(self, folder: Path, *, partitions: int) -> None:
        self._folder = folder
        self._classes = ":".join(map(str, kafka_jars("server", "kafka_2.13-")))
        self._java = _java()
        self._partitions = partitions
        self._port, self._controller_port = free_ports()
        self._process: ServerProcess | None = None
        self.spark_classes = ":".join(map(str, kafka_jars("spark", "spark-sql-kafka-")))
        """What Spark's driver needs on its class path to know the format `kafka`."""

    @property
    def address(self) -> str:
        return f"{HOST}:{self._port}"

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        settings = self._folder / "server.properties"
        settings.write_text("".join(f"{key}={value}\n" for key, value in self._settings().items()))
        cluster_id = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")
        command = ["format", "--standalone", "-t", cluster_id, "-c", str(settings)]
        formatted = subprocess.run(
            [self._java, "-cp", self._classes, "kafka.tools.StorageTool", *command],
            capture_output=True,
            text=True,
            check=False,
        )
        if formatted.returncode:
            raise ServerFailed(f"Kafka's storage cannot be formatted: {formatted.stdout}{formatted.stderr}")
        self._process = ServerProcess(
            [self._java, *_HEAP, _LOGGED, "-cp", self._classes, "kafka.Kafka", str(settings)],
            log=self._folder / "log",
        )
        try:
            self._process.wait_until(self._answers, timeout_s=_READY_S, what="Kafka")
        except BaseException:
            self._process.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.kill()  # its messages are of no use to anybody

    def last_lines(self) -> str:
        """The end of its log, and whether it still runs: for a bench that failed."""
        assert self._process is not None, "it was not started"
        ended = "" if self._process.running else f" ended with {self._process.exit_code}"
        return f"Kafka{ended}:\n{self._process.last_lines()}"

    def _settings(self) -> dict[str, object]:
        return {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.bootstrap.servers": f"{HOST}:{self._controller_port}",
            "listeners": f"PLAINTEXT://{HOST}:{self._port},CONTROLLER://{HOST}:{self._controller_port}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{self._port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": self._folder / "data",
            "num.partitions": self._partitions,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            # While it is fenced its partitions have no leader; there is nobody else, so a busy machine is no reason.
            "broker.session.timeout.ms": _HEARTBEATS_MISSED_MS,
        }

    def _answers(self) -> bool:
        try:
            socket.create_connection((HOST, self._port), timeout=1).close()
        except OSError:
            return False
        return True
