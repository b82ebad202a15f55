"""A group of brokers as real processes: etcd, a name server, members to kill, stop and start again."""

import asyncio
import contextlib
import os
import signal
import sys
import time
import urllib.request
from collections.abc import Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from rocketeer.admin.plans.clusters import cluster_map
from rocketeer.admin.results import ClusterMap
from rocketeer.bench.control import Control
from rocketeer.bench.processes import ServerFailed, ServerProcess, wait_for
from rocketeer.bench.servers import HOST, write_conf
from rocketeer.config.ports import free_ports
from rocketeer.errors import GroupError, RocketeerError
from rocketeer.group.etcd import Etcd
from rocketeer.group.etcd_program import etcd_command, find_etcd
from rocketeer.group.registry import GroupSnapshot, Registry

READY_S = 60.0
CLUSTER = "DefaultCluster"
NAME = "broker-a"


class EtcdProcess:
    """An etcd by itself; killed and started again it has what it had."""

    def __init__(self, folder: Path, host: str = HOST) -> None:
        self._folder = folder
        self._host = host
        self.port, self._peer_port = free_ports()
        self.process: ServerProcess | None = None

    @property
    def endpoint(self) -> str:
        return f"http://{self._host}:{self.port}"

    def start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        command = etcd_command(
            find_etcd(), self._folder / "data", port=self.port, peer_port=self._peer_port, host=self._host
        )
        self.process = ServerProcess(command, log=self._folder / "etcd.out")
        self.process.wait_until(self._is_healthy, timeout_s=READY_S, what="etcd")

    def _is_healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.endpoint}/health", timeout=1) as answer:  # noqa: S310 our own
                return b'"true"' in answer.read()
        except OSError:
            return False

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()


class ProcessHost(NamedTuple):
    """Where a process runs: its address, and what stands before its command (`ip netns exec ...`)."""

    host: str
    prefix: tuple[str, ...] = ()
    env: Mapping[str, str] = {}


class MemberProcess:
    """One member's process and folder."""

    def __init__(self, number: int, folder: Path, conf: Mapping[str, object], place: ProcessHost) -> None:
        self.number = number
        self.place = place
        self.folder = folder
        self.conf = dict(conf)
        _, self.port = free_ports()
        self.process: ServerProcess | None = None
        self.paused = False

    @property
    def address(self) -> str:
        return f"{self.place.host}:{self.port}"

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.running

    def write_conf(self) -> Path:
        """Write its broker.conf."""
        self.folder.mkdir(parents=True, exist_ok=True)
        values = {
            "brokerClusterName": CLUSTER,
            "brokerName": NAME,
            "listenPort": self.port,
            "brokerIP1": self.place.host,
            "brokerIP2": self.place.host,
            "storePathRootDir": self.store,
            "groupMemberId": self.number,
            **self.conf,
            "bindAddress": self.place.host,
        }
        return write_conf(self.folder / "broker.conf", values)

    def start(self) -> None:
        command = [
            *self.place.prefix,
            *(sys.executable, "-m", "rocketeer.cli.main", "broker", "-c", str(self.write_conf())),
        ]
        env = {"PYTHONUNBUFFERED": "1", **self.place.env}
        self.process = ServerProcess(command, log=self.folder / "broker.out", env=env)
        self.paused = False

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
        self.paused = False

    def stop(self) -> int:
        assert self.process is not None
        return self.process.stop()

    def pause(self) -> None:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGSTOP)
        self.paused = True

    def resume(self) -> None:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGCONT)
        self.paused = False

    def last_lines(self) -> str:
        return "" if self.process is None else self.process.last_lines(40)


class GroupCluster:
    """`members[0]` to `members[n - 1]` of one group, with an etcd and a name server of their own."""

    def __init__(
        self,
        folder: Path,
        *,
        members: int = 3,
        conf: Mapping[str, object] | None = None,
        places: Mapping[str, ProcessHost] | None = None,
        started: bool = True,
        namesrv_conf: Mapping[str, object] | None = None,
    ) -> None:
        """`places` of "etcd", "namesrv", "1", "2" ...; all on this machine's loopback without them.

        `started`: whether `with` starts the members, too.
        """
        self.folder = folder
        self._started = started
        self._places = places or {}
        self.etcd = EtcdProcess(folder / "etcd", self._place("etcd").host)
        self.namesrv_port, _ = free_ports()
        self._namesrv_conf = dict(namesrv_conf or {})
        self._namesrv: ServerProcess | None = None
        settings = {
            "groupEtcd": self.etcd.endpoint,
            "groupMembers": members,
            "groupLeaseSeconds": 2,
            "namesrvAddr": self.namesrv,
            "diskSpaceWarningLevelRatio": 99,  # these are small, however full the machine's disk is
            **(conf or {}),
        }
        self.members = [
            MemberProcess(number, folder / f"m{number}", settings, self._place(str(number)))
            for number in range(1, members + 1)
        ]

    def _place(self, name: str) -> ProcessHost:
        return self._places.get(name, ProcessHost(HOST))

    @property
    def namesrv(self) -> str:
        return f"{self._place('namesrv').host}:{self.namesrv_port}"

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            print(self._last_lines())
        self.kill()

    def start(self) -> None:
        """Returns when there is a leader; `wait_until_in_sync` for the others."""
        self.etcd.start()
        self.start_namesrv()
        if not self._started:
            return
        for member in self.members:
            member.start()
        self.wait_for_leader()

    def start_namesrv(self) -> None:
        values = {
            "listenPort": self.namesrv_port,
            "bindAddress": self._place("namesrv").host,
            "kvConfigPath": self.folder / "kvConfig.json",
            "configStorePath": self.folder / "namesrv.properties",
            **self._namesrv_conf,
        }
        path = write_conf(self.folder / "namesrv.conf", values)
        command = [sys.executable, "-m", "rocketeer.cli.main", "namesrv", "-c", str(path)]
        self._namesrv = ServerProcess(command, log=self.folder / "namesrv.out")
        self._namesrv.wait_until(lambda: self._known() is not None, timeout_s=READY_S, what="the name server")

    def kill_namesrv(self) -> None:
        if self._namesrv is not None:
            self._namesrv.kill()

    def kill(self) -> None:
        for member in self.members:
            member.kill()
        self.kill_namesrv()
        self.etcd.kill()

    # --- who is in sync ----------------------------------------------------------------------

    def view(self) -> GroupSnapshot:
        """What etcd says of the group; GroupError while it does not answer."""

        async def read() -> GroupSnapshot:
            etcd = Etcd([self.etcd.endpoint], timeout_s=5)
            try:
                return await Registry(etcd, CLUSTER, NAME).read()
            finally:
                await etcd.close()

        return asyncio.run(read())

    def in_sync(self) -> frozenset[int]:
        """The numbers of the members that are alive and in sync."""
        with contextlib.suppress(GroupError):
            view = self.view()
            if view.state is not None:
                live = view.live.items()
                return frozenset(number for number, peer in live if view.state.has(number, peer.incarnation))
        return frozenset()

    def wait_until_in_sync(self, members: Collection[int] | None = None, timeout_s: float = READY_S) -> None:
        """Until just these are in sync: all of them, unless it is said otherwise."""
        wanted = frozenset(members or (member.number for member in self.members))
        if not wait_for(lambda: self.in_sync() == wanted, timeout_s, poll_s=0.05):
            raise ServerFailed(
                f"members {sorted(self.in_sync())} are in sync after {timeout_s:g} s, wanted {sorted(wanted)}\n"
                f"{self._last_lines()}"
            )

    # --- who leads ---------------------------------------------------------------------------

    def _known(self) -> ClusterMap | None:
        """The brokers that the name server knows; None while it does not answer."""
        with contextlib.suppress(RocketeerError, OSError), Control(self.namesrv, timeout_s=2) as server:
            return server.run(cluster_map(server.context))
        return None

    def leader(self) -> MemberProcess | None:
        """Whom the name server calls the master, if it runs."""
        known = self._known()
        masters = () if known is None else known.masters()
        address = next((each.address for each in masters if each.name == NAME), None)
        return next((each for each in self.members if each.address == address and each.running), None)

    def wait_for_leader(
        self, *, other_than: MemberProcess | None = None, timeout_s: float = READY_S
    ) -> MemberProcess:
        give_up_s = time.monotonic() + timeout_s
        while time.monotonic() < give_up_s:
            leader = self.leader()
            if leader is not None and leader is not other_than and not leader.paused:
                return leader
            time.sleep(0.05)
        raise ServerFailed(f"no leader within {timeout_s:g} s\n{self._last_lines()}")

    def _last_lines(self) -> str:
        return "\n".join(f"--- member {each.number}\n{each.last_lines()}" for each in self.members)
