"""Run the nemesis against a group for some minutes and judge what is left."""

import argparse
import logging
import random
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from faults.check import log_problems, problems
from faults.load import (
    QUEUES,
    TOPICS,
    CommitLoad,
    IdempotentLoad,
    LeaderOf,
    Ledger,
    Load,
    OrderedLoad,
    PlainLoad,
)
from faults.nemesis import Nemesis
from faults.network import Network, can_make_networks
from rocketeer.bench.control import Control
from rocketeer.bench.groups import GroupCluster
from rocketeer.errors import RocketeerError
from support.cluster import TEST_CONF
from support.senders import wait_for

LASTS_S = (0.3, 1.0, 2.5, 5.0, 9.0)
PAUSE_S = (0.5, 2.0, 5.0)


@dataclass
class Outcome:
    faults: Counter[str] = field(default_factory=Counter)
    ledger: Ledger = field(default_factory=Ledger)
    problems: list[str] = field(default_factory=list)


def run(folder: Path, *, seed: int, seconds: float, network: bool, flush: str = "ASYNC_FLUSH") -> Outcome:
    """The load begins, faults come one after the other, all ends, everything is compared."""
    chance = random.Random(seed)
    outcome = Outcome()
    with ExitStack() as stack:
        net = stack.enter_context(Network(3)) if network else None
        conf = {**TEST_CONF, "flushDiskType": flush}
        places = None if net is None else net.places
        cluster = stack.enter_context(GroupCluster(folder, conf=conf, places=places))
        for topic in TOPICS:
            wait_for(lambda topic=topic: _is_made(cluster, topic), what=f"topic {topic}")  # type: ignore[misc]
        loads = _loads(cluster, outcome.ledger)
        for load in loads:
            load.start()
        nemesis = Nemesis(cluster, net, chance)
        give_up_s = time.monotonic() + seconds
        names = sorted(nemesis.faults)
        while time.monotonic() < give_up_s:
            time.sleep(chance.choice(PAUSE_S))
            name, lasts_s = chance.choice(names), chance.choice(LASTS_S)
            print(f"{time.strftime('%H:%M:%S')} {name} for {lasts_s:g} s; {outcome.ledger}", flush=True)
            outcome.faults[name] += 1
            nemesis.strike(name, lasts_s)
        wait_until_whole_again(cluster)
        for load in loads:
            load.end()
        for load in loads:
            load.join(120)
            if load.is_alive() or load.failure is not None:
                outcome.problems.append(f"{load.name}: {load.failure or 'does not end'}")
        outcome.problems += problems(cluster, outcome.ledger)
        for member in cluster.members:
            member.stop()
        outcome.problems += log_problems(cluster)
    return outcome


def _is_made(cluster: GroupCluster, topic: str) -> bool:
    """Refused while too few members are in sync."""
    try:
        with Control(cluster.wait_for_leader().address, timeout_s=30) as broker:
            broker.create_topic(topic, queues=QUEUES)
    except RocketeerError:
        return False
    return True


def wait_until_whole_again(cluster: GroupCluster) -> None:
    """Sends go on meanwhile, so logs are never equal: it is enough that somebody leads."""
    cluster.wait_for_leader(timeout_s=90)


def _loads(cluster: GroupCluster, ledger: Ledger) -> list[Load]:
    namesrv = cluster.namesrv
    return [
        PlainLoad("plain-1", namesrv, ledger),
        PlainLoad("plain-2", namesrv, ledger),
        OrderedLoad("ordered-1", namesrv, ledger),
        OrderedLoad("ordered-2", namesrv, ledger),
        IdempotentLoad("once-1", namesrv, ledger),
        CommitLoad("commits", namesrv, ledger, LeaderOf(cluster.leader)),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--flush", choices=("ASYNC_FLUSH", "SYNC_FLUSH"), default="ASYNC_FLUSH")
    parser.add_argument("--folder", type=Path, help="keep stores and logs there")
    wanted = parser.parse_args()
    logging.getLogger("rocketeer").setLevel(logging.ERROR)  # that brokers cannot be reached is no news here
    network = can_make_networks()
    if not network:
        print("no network namespaces here (root and `ip` are needed): links are not cut")
    with ExitStack() as stack:
        folder = wanted.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="faults-")))
        outcome = run(
            folder, seed=wanted.seed, seconds=60 * wanted.minutes, network=network, flush=wanted.flush
        )
    for name, count in sorted(outcome.faults.items()):
        print(f"{count:4} x {name}")
    print(outcome.ledger, dict(outcome.ledger.refused))
    for problem in outcome.problems:
        print(f"PROBLEM: {problem}")
    print(f"seed {wanted.seed}: {'nothing lost' if not outcome.problems else 'failed'}")
    return 1 if outcome.problems else 0


if __name__ == "__main__":
    sys.exit(main())
