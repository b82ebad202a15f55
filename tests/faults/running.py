"""One run: the load begins, faults come one after the other, all ends, everything is compared."""

import os
import random
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from faults.check import log_problems, problems, wait_until_delivered, wait_until_whole
from faults.history import history_problems
from faults.later import RecalledLoad, RetriedLoad, TransactionLoad
from faults.ledger import QUEUES, TOPICS, Ledger
from faults.load import CommitLoad, IdempotentLoad, LeaderOf, Load, OrderedLoad, PlainLoad, TopicLoad
from faults.machines import Machines
from faults.nemesis import Nemesis, NotNow
from faults.network import Network
from faults.orderly import OrderlyLoad
from faults.single import SingleLoad
from rocketeer.bench.control import Control
from rocketeer.bench.groups import GroupCluster, ProcessHost
from rocketeer.bench.servers import HOST
from rocketeer.errors import RocketeerError
from support.cluster import TEST_CONF
from support.senders import wait_for

LASTS_S: Final = (0.3, 1.0, 2.5, 5.0, 9.0)
PAUSE_S: Final = (0.5, 2.0, 5.0)
CHANGE_S: Final = 20.0
MEMBERS: Final = 3
DISK_MEGABYTES: Final = 1024

CONF: Final = {
    **TEST_CONF,
    # What is acknowledged stays, however full the disk is and whatever the clock says.
    "cleanFileForciblyEnable": "false",
    "diskMaxUsedSpaceRatio": 99,
    "diskSpaceCleanForciblyRatio": 99,
    "diskSpaceWarningLevelRatio": 100,
    "transactionCheckMax": 10_000,
    "mappedFileSizeCommitLog": 1 << 20,  # many files: a full disk has no room for the next one
    "flushIntervalCommitLog": 100,
}


@dataclass
class Strikes:
    """How often a fault struck, and what was acknowledged from its beginning to the beginning of the next."""

    count: int = 0
    kinds: Counter[str] = field(default_factory=Counter)


@dataclass
class Outcome:
    seed: int
    flush: str
    seconds: float = 0.0
    faults: dict[str, Strikes] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)
    problems: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    cpu_s: float = 0.0


@dataclass(frozen=True)
class Plan:
    """What a run does; `faults`: these in turn, instead of any in any order."""

    seed: int
    seconds: float
    flush: str = "ASYNC_FLUSH"
    network: bool = True
    faults: Sequence[str] = ()
    lasts_s: Sequence[float] = LASTS_S
    pauses_s: Sequence[float] = PAUSE_S
    slower: float = 1.0
    """So many times fewer requests a second."""
    consumers_change_s: float | None = CHANGE_S
    """So often one of the consumers in order goes and another comes; None: they stay. A lock whose owner goes while
    nobody leads is given to the next one when it has run out, after a minute: a short run would wait for it."""


def run(folder: Path, plan: Plan) -> Outcome:
    outcome = Outcome(plan.seed, plan.flush)
    numbers = list(range(1, MEMBERS + 1))
    with ExitStack() as stack:
        net = stack.enter_context(Network(MEMBERS)) if plan.network else None
        machines = stack.enter_context(Machines(folder, numbers, disk_megabytes=DISK_MEGABYTES))
        outcome.missing = machines.missing
        conf = {**CONF, "flushDiskType": plan.flush}
        cluster = stack.enter_context(GroupCluster(folder, conf=conf, places=_places(net, machines, numbers)))
        for topic in TOPICS:
            wait_for(lambda topic=topic: _is_made(cluster, topic), what=f"topic {topic}")  # type: ignore[misc]
        loads = _loads(cluster, outcome.ledger, plan)
        for load in loads:
            load.slow_down(plan.slower)
            load.start()
        nemesis = Nemesis(cluster, net, machines, random.Random(plan.seed))
        _strike_on(nemesis, plan, outcome)
        _judge(cluster, loads, outcome)
    usage = os.times()
    outcome.cpu_s = usage.user + usage.system + usage.children_user + usage.children_system
    return outcome


def _places(net: Network | None, machines: Machines, numbers: Sequence[int]) -> dict[str, ProcessHost]:
    places = {} if net is None else net.places
    for number in numbers:
        place = places.get(str(number), ProcessHost(HOST))
        places[str(number)] = place._replace(env=machines[number].env)
    return places


def _strike_on(nemesis: Nemesis, plan: Plan, outcome: Outcome) -> None:
    chance, ledger = random.Random(f"when {plan.seed}"), outcome.ledger
    began_s = time.monotonic()
    names = list(plan.faults) or sorted(nemesis.faults)
    left: list[str] = []
    while time.monotonic() < began_s + plan.seconds:
        if not left:  # every fault once, in an order of its own, then all again
            left = names[:] if plan.faults else chance.sample(names, len(names))
        time.sleep(chance.choice(plan.pauses_s))
        name, lasts_s = left.pop(0), chance.choice(plan.lasts_s)
        if name not in nemesis.faults:
            continue
        print(f"{time.strftime('%H:%M:%S')} {name} for {lasts_s:g} s; {ledger}", flush=True)
        before = ledger.counts.copy()
        strikes = outcome.faults.setdefault(name, Strikes())
        try:
            nemesis.strike(name, lasts_s)
            strikes.count += 1
        except NotNow:
            print(f"{time.strftime('%H:%M:%S')} not now: {name}", flush=True)
        strikes.kinds += ledger.counts - before
    outcome.seconds = time.monotonic() - began_s


def _judge(cluster: GroupCluster, loads: Sequence[Load], outcome: Outcome) -> None:
    cluster.wait_for_leader(timeout_s=180)
    for load in loads:
        load.end()
    outcome.problems += wait_until_delivered(cluster, outcome.ledger)
    for load in loads:
        load.close()
    for load in loads:
        load.join(120)
        if load.is_alive() or load.failure is not None:
            outcome.problems.append(f"{load.name}: {load.failure or 'does not end'}")
    wait_until_whole(cluster)
    outcome.problems += problems(cluster, outcome.ledger)
    for member in cluster.members:
        member.stop()
    outcome.problems += log_problems(cluster)
    outcome.problems += history_problems(cluster)


def _is_made(cluster: GroupCluster, topic: str) -> bool:
    """Refused while too few members are in sync."""
    try:
        with Control(cluster.wait_for_leader().address, timeout_s=30) as broker:
            broker.create_topic(topic, queues=QUEUES)
    except RocketeerError:
        return False
    return True


def _loads(cluster: GroupCluster, ledger: Ledger, plan: Plan) -> list[Load]:
    seed = plan.seed
    namesrv, leader = cluster.namesrv, LeaderOf(cluster.leader)
    addresses = [member.address for member in cluster.members]
    return [
        PlainLoad("plain-1", namesrv, ledger),
        PlainLoad("plain-2", namesrv, ledger),
        OrderedLoad("ordered-1", namesrv, ledger),
        OrderedLoad("ordered-2", namesrv, ledger),
        IdempotentLoad("once-1", namesrv, ledger),
        IdempotentLoad("once-2", namesrv, ledger),
        SingleLoad("single-1", namesrv, ledger, leader, addresses, seed),
        SingleLoad("single-2", namesrv, ledger, leader, addresses, seed),
        TransactionLoad("transaction-1", namesrv, ledger, seed),
        TransactionLoad("transaction-2", namesrv, ledger, seed),
        RetriedLoad("retried-1", namesrv, ledger),
        RecalledLoad("recalled-1", namesrv, ledger, seed),
        OrderlyLoad("orderly", namesrv, ledger, seed, change_s=plan.consumers_change_s),
        CommitLoad("commits", namesrv, ledger, leader),
        TopicLoad("topics", namesrv, ledger, leader),
    ]
