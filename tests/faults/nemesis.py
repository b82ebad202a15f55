"""What happens to a group, chosen by a seed: every fault has a beginning and an end, and a name to count by."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from faults.network import CLIENTS, ETCD, NAMESRV, Network
from rocketeer.bench.groups import GroupCluster, Member

Fault = Callable[[], Iterator[None]]


class Nemesis:
    """`strike` begins one fault, lets it last, and ends it."""

    def __init__(self, cluster: GroupCluster, network: Network | None, chance: random.Random) -> None:
        self._cluster = cluster
        self._network = network
        self._random = chance
        self.faults: dict[str, Fault] = {
            "kill the leader": self._kill_leader,
            "kill a follower": self._kill_follower,
            "kill two members": self._kill_two,
            "kill everything at once": self._kill_all,
            "pause the leader": self._pause_leader,
            "pause a follower": self._pause_follower,
            "kill etcd": self._kill_etcd,
            "kill the name server": self._kill_namesrv,
            "kill the leader twice": self._kill_leader_twice,
        }
        if network is not None:
            self.faults |= {
                "cut the leader off from its followers": self._cut_leader_from_members,
                "cut the leader off from etcd": self._cut_leader_from_etcd,
                "cut the leader off from everybody but clients": self._isolate_leader,
                "cut a follower off from everybody": self._isolate_follower,
                "cut two members off from each other": self._cut_pair,
                "cut everybody off from etcd": self._cut_all_from_etcd,
                "cut the leader off from clients and name server": self._cut_leader_from_clients,
            }

    def strike(self, name: str, lasts_s: float) -> None:
        with contextmanager(self.faults[name])():
            time.sleep(lasts_s)

    # --- processes ---------------------------------------------------------------------------

    def _kill_leader(self) -> Iterator[None]:
        yield from self._killed(self._leader())

    def _kill_follower(self) -> Iterator[None]:
        yield from self._killed(self._follower())

    def _kill_two(self) -> Iterator[None]:
        yield from self._killed(*self._random.sample(self._cluster.members, 2))

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

    def _killed(self, *members: Member) -> Iterator[None]:
        for member in members:
            member.kill()
        yield
        for member in members:
            member.start()

    def _pause_leader(self) -> Iterator[None]:
        yield from self._paused(self._leader())

    def _pause_follower(self) -> Iterator[None]:
        yield from self._paused(self._follower())

    def _paused(self, member: Member) -> Iterator[None]:
        member.pause()
        yield
        member.resume()

    def _kill_etcd(self) -> Iterator[None]:
        self._cluster.etcd.kill()
        yield
        self._cluster.etcd.start()

    def _kill_namesrv(self) -> Iterator[None]:
        self._cluster.kill_namesrv()
        yield
        self._cluster.start_namesrv()

    # --- links -------------------------------------------------------------------------------

    def _cut_leader_from_members(self) -> Iterator[None]:
        leader = self._leader()
        yield from self._links([(leader, each) for each in self._numbers() if each != str(leader.number)])

    def _cut_leader_from_etcd(self) -> Iterator[None]:
        yield from self._links([(self._leader(), ETCD)])

    def _isolate_leader(self) -> Iterator[None]:
        leader = self._leader()
        others = [each for each in self._numbers() if each != str(leader.number)]
        yield from self._links([(leader, each) for each in (*others, ETCD, NAMESRV)])

    def _isolate_follower(self) -> Iterator[None]:
        follower = self._follower()
        others = [each for each in self._numbers() if each != str(follower.number)]
        yield from self._links([(follower, each) for each in (*others, ETCD, NAMESRV, CLIENTS)])

    def _cut_pair(self) -> Iterator[None]:
        one, other = self._random.sample(self._cluster.members, 2)
        yield from self._links([(one, str(other.number))])

    def _cut_all_from_etcd(self) -> Iterator[None]:
        yield from self._links([(member, ETCD) for member in self._cluster.members])

    def _cut_leader_from_clients(self) -> Iterator[None]:
        leader = self._leader()
        yield from self._links([(leader, CLIENTS), (leader, NAMESRV)])

    def _links(self, links: list[tuple[Member, str]]) -> Iterator[None]:
        assert self._network is not None
        for member, peer in links:
            self._network.cut(str(member.number), peer)
        yield
        self._network.heal()

    # --- who ---------------------------------------------------------------------------------

    def _leader(self) -> Member:
        return self._cluster.leader() or self._random.choice(self._cluster.members)

    def _follower(self) -> Member:
        leader = self._cluster.leader()
        return self._random.choice([each for each in self._cluster.members if each is not leader])

    def _numbers(self) -> list[str]:
        return [str(each.number) for each in self._cluster.members]
