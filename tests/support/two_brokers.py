"""A real cluster of two masters: the name server and `broker-a` of `ServerCluster`, and a second process `broker-b`."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rocketeer.bench.processes import ServerFailed, ServerProcess
from rocketeer.bench.servers import HOST, ServerCluster, write_conf
from rocketeer.config.ports import free_ports
from rocketeer.testing.cluster import START_TRIES
from support.cluster import TEST_CONF, started


class TwoBrokers(ServerCluster):
    """Both brokers are in DefaultCluster; `broker` and `second` are their addresses."""

    def __init__(self, folder: Path) -> None:
        super().__init__("ours", folder, conf=TEST_CONF)
        self.second_port = 0
        self._second: ServerProcess | None = None

    @property
    def second(self) -> str:
        return f"{HOST}:{self.second_port}"

    @property
    def second_store(self) -> Path:
        return self.folder / "store-b"

    def start(self) -> None:
        super().start()
        for attempt in range(START_TRIES):
            _, self.second_port = free_ports()
            try:
                self.start_second()
                return
            except ServerFailed as failed:  # somebody else may have taken the port meanwhile
                if "is in use" not in str(failed) or attempt == START_TRIES - 1:
                    raise

    def start_second(self) -> None:
        conf = {
            "brokerClusterName": "DefaultCluster",
            "brokerName": "broker-b",
            "brokerId": 0,
            "listenPort": self.second_port,
            "haListenPort": self.second_port + 1,
            "brokerIP1": HOST,
            "brokerIP2": HOST,
            "namesrvAddr": self.namesrv,
            "storePathRootDir": self.second_store,
            "storePathCommitLog": self.second_store / "commitlog",
            **TEST_CONF,
        }
        path = write_conf(self.folder / "broker-b.conf", conf)
        command = [sys.executable, "-m", "rocketeer.cli.main", "broker", "-c", str(path), "-n", self.namesrv]
        log = self.folder / "broker-b.out"
        self._second = ServerProcess(command, log=log, env={"PYTHONUNBUFFERED": "1"})
        self._second.wait_until(self._second_serves, timeout_s=60, what="the second broker")

    def _second_serves(self) -> bool:
        from rocketeer import Admin
        from rocketeer.errors import RocketeerError

        try:
            with Admin(self.namesrv, timeout_s=2) as admin:
                known = {broker.address for broker in admin.cluster_map().brokers}
                return self.second in known and bool(admin.topic_configs(broker=self.second).answers)
        except RocketeerError:
            return False

    def kill_second(self) -> None:
        assert self._second is not None
        self._second.kill()

    def freeze_second(self) -> None:
        """It stays connected, and says nothing any more."""
        assert self._second is not None
        os.kill(self._second.pid, signal.SIGSTOP)

    def wake_second(self) -> None:
        assert self._second is not None
        os.kill(self._second.pid, signal.SIGCONT)

    def stop(self) -> None:
        if self._second is not None:
            os.kill(self._second.pid, signal.SIGCONT)
            self._second.stop()
        super().stop()

    def kill(self) -> None:
        if self._second is not None:
            self._second.kill()
        super().kill()


@contextmanager
def two_brokers(folder: Path) -> Iterator[TwoBrokers]:
    """The cluster for as long as the block lasts."""
    cluster = TwoBrokers(folder)
    with started(cluster):
        yield cluster
