"""A network of namespaces on one machine, in which any link can be cut; needs root and `ip`.

    members 1, 2, 3     10.77.N.11 ...    a namespace each
    etcd                10.77.N.2         on the bridge
    name server         10.77.N.3         on the bridge
    clients             10.77.N.1         on the bridge

A link is cut by a route to nowhere at one of its ends: packets vanish, established connections hang.
"""

import os
import shutil
import subprocess
import time
from types import TracebackType
from typing import Self

from rocketeer.bench.groups import ProcessHost

ETCD, NAMESRV, CLIENTS = "etcd", "namesrv", "clients"
TRIES = 20


def can_make_networks() -> bool:
    """Whether one can be made here; found out by making one."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    try:
        with Network(1):
            return True
    except (OSError, subprocess.SubprocessError):
        return False


def _free_subnet() -> str:
    """That no other network of ours has; different processes begin to look in different places."""
    known = subprocess.run(["ip", "-4", "-o", "addr"], capture_output=True, text=True, check=True, timeout=30)
    for number in range(250):
        subnet = f"10.77.{(37 * os.getpid() + number) % 250}"
        if f" {subnet}." not in known.stdout:
            return subnet
    raise OSError("every network 10.77.* is in use")


class Network:
    def __init__(self, members: int) -> None:
        self._tag = f"{os.getpid() % 100_000}"
        self._subnet = _free_subnet()
        self._members = [str(number) for number in range(1, members + 1)]
        self._cut: set[tuple[str, str]] = set()

    def __enter__(self) -> Self:
        try:
            self._build()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    @property
    def places(self) -> dict[str, ProcessHost]:
        places = {name: ProcessHost(self.host(name)) for name in (ETCD, NAMESRV)}
        for name in self._members:
            places[name] = ProcessHost(self.host(name), ("ip", "netns", "exec", self._namespace(name)))
        return places

    def host(self, name: str) -> str:
        fixed = {CLIENTS: 1, ETCD: 2, NAMESRV: 3}
        return f"{self._subnet}.{fixed[name] if name in fixed else 10 + int(name)}"

    def cut(self, member: str, peer: str) -> None:
        """Nothing gets from the member to the peer any more; between members, nothing either way."""
        for one, other in {(member, peer), *([(peer, member)] if peer in self._members else [])}:
            self.cut_one_way(one, other)

    def cut_one_way(self, one: str, other: str) -> None:
        """Nothing gets from this member to the other end; what comes from there arrives."""
        if (one, other) not in self._cut:
            self._in(one, "route", "add", "blackhole", f"{self.host(other)}/32")
            self._cut.add((one, other))

    def heal(self) -> None:
        for one, other in sorted(self._cut):
            self._in(one, "route", "del", "blackhole", f"{self.host(other)}/32")
        self._cut.clear()

    def _namespace(self, name: str) -> str:
        return f"rk{self._tag}m{name}"

    def _outside(self, name: str) -> str:
        return f"rk{self._tag}v{name}"

    @property
    def _bridge(self) -> str:
        return f"rk{self._tag}b"

    def _build(self) -> None:
        _ip("link", "add", self._bridge, "type", "bridge")
        for name in (CLIENTS, ETCD, NAMESRV):
            _ip("addr", "add", f"{self.host(name)}/24", "dev", self._bridge)
        _ip("link", "set", self._bridge, "up")
        for name in self._members:
            namespace, outside = self._namespace(name), self._outside(name)
            _ip("netns", "add", namespace)
            _add_pair(outside, namespace)
            _ip("link", "set", outside, "master", self._bridge, "up")
            self._in(name, "addr", "add", f"{self.host(name)}/24", "dev", "eth0")
            self._in(name, "link", "set", "eth0", "up")
            self._in(name, "link", "set", "lo", "up")

    def _in(self, name: str, *args: str) -> None:
        _ip("-n", self._namespace(name), *args)

    def _remove(self) -> None:
        for name in self._members:
            # By itself it goes some time after its namespace, and the next network of this process wants its name.
            subprocess.run(["ip", "link", "del", self._outside(name)], capture_output=True, check=False)
            subprocess.run(["ip", "netns", "del", self._namespace(name)], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", self._bridge], capture_output=True, check=False)


def _add_pair(outside: str, namespace: str) -> None:
    """Tried again for a while: the kernel takes its time to give a name free."""
    for left in reversed(range(TRIES)):
        try:
            _ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        except OSError:
            if not left:
                raise
            subprocess.run(["ip", "link", "del", outside], capture_output=True, check=False, timeout=30)
            time.sleep(0.5)
        else:
            return


def _ip(*args: str) -> None:
    done = subprocess.run(["ip", *args], check=False, capture_output=True, text=True, timeout=30)
    if done.returncode:
        raise OSError(f"ip {' '.join(args)}: {done.stderr.strip()}")
