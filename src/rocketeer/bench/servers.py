"""A name server and a broker of either make, as real processes on free loopback ports.

Both makes read the same configuration files, so a run differs in the program only: `ServerCluster("ours", folder)`
and `ServerCluster("apache", folder)` are the same cluster otherwise. Used by the benchmark and by the tests that need
a broker they can kill and start again.
"""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Literal, Protocol, Self

from rocketeer.bench.control import Control
from rocketeer.bench.processes import ServerFailed, ServerProcess
from rocketeer.bench.protection import OPEN, ServerProtection
from rocketeer.config.ports import free_ports as free_ports
from rocketeer.errors import RemotingError
from rocketeer.protocol.codes import RequestCode

Make = Literal["ours", "apache"]

HOST = "127.0.0.1"
_START_TRIES = 3  # another process may take a port between our look and the server's bind

# What the JVM needs to run RocketMQ 4.9 on Java 9 and later, and the collector its own start script chooses.
_JAVA_OPTIONS = (
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "-XX:+UseG1GC",
    "-Dfile.encoding=UTF-8",
    "-Djava.net.preferIPv4Stack=true",
)
_LOGBACK = """<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d %level %logger{0} - %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
"""


class ApacheMissing(ServerFailed):
    """Apache's jars or a Java are not here; the text says how to get them."""


def apache_lib() -> Path:
    """The folder of Apache RocketMQ's jars: $ROCKETEER_APACHE_LIB, or what interop/java collected."""
    chosen = os.environ.get("ROCKETEER_APACHE_LIB")
    folder = (
        Path(chosen) if chosen else Path(__file__).parents[3] / "interop" / "java" / "target" / "dependency"
    )
    if not list(folder.glob("rocketmq-broker-*.jar")):
        raise ApacheMissing(
            f"no rocketmq-broker jar in {folder}; get it with: mvn -q -f interop/java/pom.xml package\n"
            "or point ROCKETEER_APACHE_LIB at the lib folder of a RocketMQ distribution"
        )
    if shutil.which("java") is None:
        raise ApacheMissing("Apache RocketMQ needs Java 11 or later, and no `java` is on the PATH")
    return folder


def make_label(make: Make) -> str:
    """What was measured, by the names of the jars: the versions in a report are never assumed."""
    if make == "ours":
        from rocketeer import __version__

        return f"Rocketeer {__version__}"
    versions = {
        part: next(apache_lib().glob(f"rocketmq-{part}-*.jar")).stem.rpartition("-")[2]
        for part in ("broker", "store")
    }
    label = f"Apache RocketMQ {versions['broker']}"
    return label if versions["store"] == versions["broker"] else f"{label} on store {versions['store']}"


def write_conf(path: Path, values: Mapping[str, object]) -> Path:
    """Write a configuration file; returns its path."""
    path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    return path


class ServerCluster:
    """One name server and one broker; everything they write is under `folder`.

    >>> with ServerCluster("ours", tmp_path) as cluster:     # doctest: +SKIP
    ...     producer.set_namesrv_addr(cluster.namesrv)
    ...     cluster.kill_broker()                      # kill -9
    ...     cluster.start_broker()                     # the same ports, the same store
    """

    def __init__(
        self,
        make: Make,
        folder: Path,
        *,
        conf: Mapping[str, object] | None = None,
        cores: frozenset[int] | None = None,
        files_max: int | None = None,
        heap: str = "2g",
        ready_s: float = 60,
        protection: ServerProtection = OPEN,
    ) -> None:
        self._protection = protection
        self.make = make
        self.folder = folder
        self._conf = dict(conf or {})
        self._cores = cores
        self._files_max = files_max
        self._heap = heap
        self._ready_s = ready_s
        self._namesrv: ServerProcess | None = None
        self._broker: ServerProcess | None = None
        self.namesrv_port = self.broker_port = 0

    @property
    def namesrv(self) -> str:
        """The address clients are given."""
        return f"{HOST}:{self.namesrv_port}"

    @property
    def broker(self) -> str:
        """The address routes lead to."""
        return f"{HOST}:{self.broker_port}"

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def broker_process(self) -> ServerProcess:
        assert self._broker is not None, "the broker was not started"
        return self._broker

    @property
    def namesrv_process(self) -> ServerProcess:
        assert self._namesrv is not None, "the name server was not started"
        return self._namesrv

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Both servers, on ports nobody had; returns when the name server knows the broker and it answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for attempt in range(_START_TRIES):
            self.namesrv_port, self.broker_port = free_ports()
            try:
                self.start_namesrv()
                self.start_broker()
                return
            except ServerFailed as failure:
                self.kill()
                if attempt == _START_TRIES - 1 or "in use" not in str(failure):
                    raise
            except BaseException:  # Ctrl-C, or terminated: nobody stops what has not started
                self.kill()
                raise

    def start_namesrv(self) -> None:
        """Start the name server again after it was killed, on the same port."""
        path = write_conf(
            self.folder / "namesrv.conf",
            {
                "listenPort": self.namesrv_port,
                "kvConfigPath": self.folder / "kvConfig.json",
                "configStorePath": self.folder / "namesrv.properties",
                **self._protection.server_conf(),
            },
        )
        self._namesrv = self._spawn("namesrv", ["-c", str(path)], heap="256m")
        self._namesrv.wait_until(
            lambda: _answers(self.namesrv, RequestCode.GET_BROKER_CLUSTER_INFO) is not None,
            timeout_s=self._ready_s,
            what=f"the {self.make} name server",
        )

    def start_broker(self) -> None:
        """Start the broker (again) on the same port and store."""
        path = write_conf(
            self.folder / "broker.conf",
            {
                "brokerClusterName": "DefaultCluster",
                "brokerName": "broker-a",
                "brokerId": 0,
                "listenPort": self.broker_port,
                "haListenPort": self.broker_port + 1,
                "brokerIP1": HOST,
                "brokerIP2": HOST,
                "namesrvAddr": self.namesrv,
                "storePathRootDir": self.store,
                "storePathCommitLog": self.store / "commitlog",
                **self._protection.broker_conf(),
                **self._conf,
            },
        )
        self._broker = self._spawn(
            "broker",
            ["-c", str(path), "-n", self.namesrv],
            heap=self._heap,
            cores=self._cores,
            files_max=self._files_max,
        )
        self._broker.wait_until(self._serving, timeout_s=self._ready_s, what=f"the {self.make} broker")

    def _serving(self) -> bool:
        known = _answers(self.namesrv, RequestCode.GET_BROKER_CLUSTER_INFO)
        # The name server may still list the broker from before a restart, so the broker itself is asked too.
        return (
            known is not None
            and self.broker.encode() in known
            and _answers(self.broker, RequestCode.GET_ALL_TOPIC_CONFIG) is not None
            and _answers(f"{HOST}:{self.broker_port - 2}", RequestCode.GET_ALL_TOPIC_CONFIG) is not None
        )

    def stop_broker(self) -> int:
        """SIGTERM and wait; the exit code."""
        return self.broker_process.stop()

    def kill_broker(self) -> None:
        """Kill the broker with SIGKILL and wait for its end."""
        self.broker_process.kill()

    def stop(self) -> None:
        """Both servers, the broker first, as an operator would."""
        for process in (self._broker, self._namesrv):
            if process is not None:
                process.stop()

    def kill(self) -> None:
        """Both servers at once, without goodbye."""
        for process in (self._broker, self._namesrv):
            if process is not None:
                process.kill()

    def _spawn(
        self,
        role: Literal["namesrv", "broker"],
        arguments: list[str],
        *,
        heap: str,
        cores: frozenset[int] | None = None,
        files_max: int | None = None,
    ) -> ServerProcess:
        log = self.folder / f"{role}.out"
        if self.make == "ours":
            command = [sys.executable, "-m", "rocketeer.cli.main", role, *arguments]
            env: dict[str, str] = {"PYTHONUNBUFFERED": "1"}
        else:
            command, env = self._apache(role, arguments, heap)
        return ServerProcess(command, log=log, env=env, cores=cores, files_max=files_max)

    def _apache(self, role: str, arguments: list[str], heap: str) -> tuple[list[str], dict[str, str]]:
        home = self.folder / "home"
        (home / "conf").mkdir(parents=True, exist_ok=True)
        (home / "conf" / f"logback_{role}.xml").write_text(_LOGBACK)
        if self._protection.acl_file is not None:
            shutil.copy(self._protection.acl_file, home / "conf")
        main = {
            "namesrv": "org.apache.rocketmq.namesrv.NamesrvStartup",
            "broker": "org.apache.rocketmq.broker.BrokerStartup",
        }[role]
        command = ["java", f"-Xms{heap}", f"-Xmx{heap}", *_JAVA_OPTIONS, f"-Duser.home={home}"]
        command += self._protection.java_options()
        command += ["-cp", f"{apache_lib()}/*", main, *arguments]
        return command, {"ROCKETMQ_HOME": str(home)}


class HasNameServer(Protocol):
    namesrv_port: int


class Slave(ServerCluster):
    """A broker of either make that copies the master of a running cluster; it has that cluster's name server."""

    def __init__(
        self,
        make: Make,
        folder: Path,
        master: HasNameServer,
        *,
        broker_id: int = 1,
        conf: Mapping[str, object] | None = None,
        cores: frozenset[int] | None = None,
        heap: str = "2g",
        ready_s: float = 60,
    ) -> None:
        role = {"brokerRole": "SLAVE", "brokerId": broker_id}
        super().__init__(make, folder, conf={**(conf or {}), **role}, cores=cores, heap=heap, ready_s=ready_s)
        self._master = master

    def start(self) -> None:
        """Start it on a port nobody had; the same one when it is started again."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.namesrv_port = self._master.namesrv_port
        if not self.broker_port:
            _, self.broker_port = free_ports()
        self.start_broker()


def _answers(address: str, code: int) -> bytes | None:
    """The body of a reply, or None while nobody answers there."""
    try:
        with Control(address, timeout_s=2) as control:
            reply = control.call(code)
            return reply.body if reply.code == 0 else None
    except RemotingError:
        return None
