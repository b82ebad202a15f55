"""What happens to a group, chosen by a seed: every fault has a beginning and an end, and a name to count by."""

import random
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from faults.history import current, wish_for_leader
from faults.machines import Machine, Machines
from faults.network import CLIENTS, ETCD, NAMESRV, Network
from rocketeer.bench.groups import GroupCluster, MemberProcess
from rocketeer.errors import GroupError

Fault = Callable[[], Iterator[None]]

HOUR_MS = 3_600_000
DAYS_MS = 100 * 24 * HOUR_MS
CLOCKS_MS = (-DAYS_MS, -HOUR_MS, -7_000, 3_000, 7_000)
AHEAD_MS = (HOUR_MS, DAYS_MS)
"""What is timed then by how long it shall wait, such as the next try of a message, waits until then: the checker looks
whether it does."""
SYNC_MS = (100, 600, 3_000)
IN_SYNC_S = 30.0


class NotNow(Exception):
    """A fault that would be one too many: no minority is left to be hit."""


class Nemesis:
    """`strike` begins one fault, lets it last, and ends it."""

    def __init__(
        self, cluster: GroupCluster, network: Network | None, machines: Machines, chance: random.Random
    ) -> None:
        self._cluster = cluster
        self._network = network
        self._machines = machines
        self._random = chance
        self.faults: dict[str, Fault] = self._process_faults()
        if network is not None:
            self.faults |= self._link_faults()
        if machines.has_disks:
            self.faults |= {
                "fill the leader's disk": lambda: self._full(self._leader()),
                "fill a follower's disk": lambda: self._full(self._follower()),
            }
        if machines.is_preloaded:
            self.faults |= {
                "slow the leader's syncs": lambda: self._slow(self._leader()),
                "slow a follower's syncs": lambda: self._slow(self._follower()),
                "fail the leader's syncs": lambda: self._failing(leads=True),
                "fail a follower's syncs": lambda: self._failing(leads=False),
                "set the leader's clock": lambda: self._wrong_clock(self._leader()),
                "set a follower's clock": lambda: self._wrong_clock(self._follower()),
                "set all clocks": lambda: self._wrong_clocks(CLOCKS_MS),
                "set the leader's clock far ahead": lambda: self._wrong_clock(self._leader(), AHEAD_MS),
                "set all clocks far ahead": lambda: self._wrong_clocks(AHEAD_MS),
                "the leader's clock jumps far to and fro": self._jumping_clock,
            }

        pairs = (
            ("kill etcd", "kill the leader"),
            ("kill etcd", "pause a follower"),
            ("cut the leader off from etcd", "kill a follower"),
            ("slow a follower's syncs", "kill the leader"),
            ("set all clocks", "kill the leader"),
            ("set all clocks far ahead", "kill the leader"),
        )
        for pair in pairs:
            if self.faults.keys() >= set(pair):
                self.faults[" and ".join(pair)] = lambda pair=pair: self._both(*pair)  # type: ignore[misc]

    def _process_faults(self) -> dict[str, Fault]:
        return {
            "kill the leader": lambda: self._killed(self._leader()),
            "kill a follower": lambda: self._killed(self._follower()),
            "kill two members": lambda: self._killed(*self._random.sample(self._cluster.members, 2)),
            "kill all members": lambda: self._killed(*self._cluster.members),
            "kill everything at once": self._kill_all,
            "kill the leader twice": self._kill_leader_twice,
            "stop the leader": lambda: self._stopped(self._leader()),
            "stop all members": lambda: self._stopped(*self._cluster.members),
            "switch the leader": self._switch,
            "empty a follower's store": self._emptied,
            "pause the leader": lambda: self._paused(self._leader()),
            "pause a follower": lambda: self._paused(self._follower()),
            "pause everybody": lambda: self._paused(*self._cluster.members),
            "kill etcd": self._kill_etcd,
            "kill the name server": self._kill_namesrv,
        }

    def _link_faults(self) -> dict[str, Fault]:
        members = self._cluster.members
        return {
            "cut the leader off from its followers": lambda: self._cut([self._leader()], self._numbers()),
            "cut the leader off from etcd": lambda: self._cut([self._leader()], [ETCD]),
            "cut the leader off from everybody but clients": lambda: self._cut(
                [self._leader()], [*self._numbers(), ETCD, NAMESRV]
            ),
            "cut the leader off from clients and name server": lambda: self._cut(
                [self._leader()], [CLIENTS, NAMESRV]
            ),
            "cut a follower off from everybody": lambda: self._cut(
                [self._follower()], [*self._numbers(), ETCD, NAMESRV, CLIENTS]
            ),
            "cut a follower off from etcd": lambda: self._cut([self._follower()], [ETCD]),
            "cut two members off from each other": self._cut_pair,
            "cut all members off from each other": lambda: self._cut(members, self._numbers()),
            "cut everybody off from etcd": lambda: self._cut(members, [ETCD]),
            "cut everybody off from the name server": lambda: self._cut(members, [NAMESRV]),
            "cut clients off from everybody": lambda: self._cut(members, [CLIENTS]),
            "nothing gets from the leader to a follower": self._cut_one_way,
            "nothing gets from a follower to the leader": lambda: self._cut_one_way(back=True),
        }

    def strike(self, name: str, lasts_s: float) -> None:
        with contextmanager(self.faults[name])():
            time.sleep(lasts_s)

    def _both(self, one: str, other: str) -> Iterator[None]:
        with contextmanager(self.faults[one])():
            yield from self.faults[other]()

    # --- processes ---------------------------------------------------------------------------

    def _killed(self, *members: MemberProcess) -> Iterator[None]:
        for member in members:
            member.kill()
        yield
        for member in members:
            member.start()

    def _stopped(self, *members: MemberProcess) -> Iterator[None]:
        """As an operator does it: SIGTERM, one after the other."""
        for member in members:
            member.stop()
        yield
        for member in members:
            member.start()

    def _kill_all(self) -> Iterator[None]:
        for member in self._cluster.members:
            member.kill()
        self._cluster.kill_namesrv()
        self._cluster.etcd.kill()
        yield
        self._cluster.etcd.start()
        self._cluster.start_namesrv()
        for member in self._cluster.members:
            member.start()

    def _kill_leader_twice(self) -> Iterator[None]:
        """The next leader dies before the first is back in sync."""
        first = self._leader()
        first.kill()
        yield
        first.start()
        second = self._leader()
        if second is not first:
            second.kill()
            time.sleep(0.5)
            second.start()

    def _paused(self, *members: MemberProcess) -> Iterator[None]:
        for member in members:
            member.pause()
        yield
        for member in members:
            member.resume()

    def _switch(self) -> Iterator[None]:
        with suppress(GroupError):
            wish_for_leader(self._cluster, self._follower().number)
        yield

    def _emptied(self) -> Iterator[None]:
        """A new disk in an old machine."""
        self._wait_until_all_are_in_sync()
        follower = self._follower()
        follower.kill()
        for path in follower.store.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        yield
        follower.start()

    def _kill_etcd(self) -> Iterator[None]:
        self._cluster.etcd.kill()
        yield
        self._cluster.etcd.start()

    def _kill_namesrv(self) -> Iterator[None]:
        self._cluster.kill_namesrv()
        yield
        self._cluster.start_namesrv()

    # --- links -------------------------------------------------------------------------------

    def _cut(self, members: list[MemberProcess], peers: list[str]) -> Iterator[None]:
        assert self._network is not None
        for member in members:
            for peer in peers:
                if peer != str(member.number):
                    self._network.cut(str(member.number), peer)
        yield
        self._network.heal()

    def _cut_pair(self) -> Iterator[None]:
        one, other = self._random.sample(self._cluster.members, 2)
        yield from self._cut([one], [str(other.number)])

    def _cut_one_way(self, *, back: bool = False) -> Iterator[None]:
        assert self._network is not None
        ends = [str(self._leader().number), str(self._follower().number)]
        if back:
            ends.reverse()
        self._network.cut_one_way(*ends)
        yield
        self._network.heal()

    # --- machines ----------------------------------------------------------------------------

    def _full(self, member: MemberProcess) -> Iterator[None]:
        disk = self._machine(member).disk
        assert disk is not None
        disk.fill()
        yield
        disk.make_room()

    def _slow(self, member: MemberProcess) -> Iterator[None]:
        machine = self._machine(member)
        machine.slow_syncs(self._random.choice(SYNC_MS))
        yield
        machine.heal()

    def _failing(self, *, leads: bool) -> Iterator[None]:
        """A disk that failed is not believed again: the member comes back as a new one, when it is started again."""
        self._wait_until_all_are_in_sync()
        member = self._leader() if leads else self._follower()
        machine = self._machine(member)
        machine.fail_syncs()
        yield
        machine.heal()
        member.kill()
        member.start()

    def _wrong_clock(self, member: MemberProcess, clocks_ms: Sequence[int] = CLOCKS_MS) -> Iterator[None]:
        machine = self._machine(member)
        machine.set_clock(self._random.choice(clocks_ms))
        yield
        machine.heal()

    def _wrong_clocks(self, clocks_ms: Sequence[int]) -> Iterator[None]:
        for member in self._cluster.members:
            self._machine(member).set_clock(self._random.choice(clocks_ms))
        yield
        self._machines.heal()

    def _jumping_clock(self) -> Iterator[None]:
        """From far ahead to far behind and back to the right time."""
        machine = self._machine(self._leader())
        machine.set_clock(DAYS_MS)
        yield
        machine.set_clock(-DAYS_MS)
        time.sleep(1.0)
        machine.heal()

    def _machine(self, member: MemberProcess) -> Machine:
        return self._machines[member.number]

    # --- who ---------------------------------------------------------------------------------

    def _leader(self) -> MemberProcess:
        return self._cluster.leader() or self._random.choice(self._cluster.members)

    def _follower(self) -> MemberProcess:
        leader = self._cluster.leader()
        return self._random.choice([each for each in self._cluster.members if each is not leader])

    def _numbers(self) -> list[str]:
        return [str(each.number) for each in self._cluster.members]

    def _wait_until_all_are_in_sync(self) -> None:
        """Before a copy is destroyed: the others have what it has. NotNow if they do not get there."""
        give_up_s = time.monotonic() + IN_SYNC_S
        while time.monotonic() < give_up_s:
            with suppress(GroupError):
                state = current(self._cluster).state
                if (
                    state is not None
                    and len(state.in_sync) == len(self._cluster.members)
                    and self._cluster.leader() is not None
                ):
                    return
            time.sleep(0.2)
        raise NotNow
