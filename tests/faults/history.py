"""The history of a group's record in etcd, held against the rules of the model (`group/state.py`).

etcd keeps every revision. Whatever the nemesis did, each record must follow from the one before it by one of the
changes that the model knows, and the epochs that members noted must be those of the history.
"""

import asyncio
import itertools
import json
from collections.abc import Iterator, Sequence

from rocketeer.bench.groups import NAME, GroupCluster
from rocketeer.group.etcd import Etcd
from rocketeer.group.registry import GroupSnapshot, Registry
from rocketeer.group.state import GroupState, decode_state
from rocketeer.store.table_file import load_table

CLUSTER = "DefaultCluster"


def current(cluster: GroupCluster) -> GroupSnapshot:
    """What etcd says now."""

    async def read() -> GroupSnapshot:
        etcd = Etcd([cluster.etcd.endpoint], timeout_s=5)
        try:
            return await Registry(etcd, CLUSTER, NAME).read()
        finally:
            await etcd.close()

    return asyncio.run(read())


def wish_for_leader(cluster: GroupCluster, member: int) -> None:
    """As `rocketeer group switch` does."""

    async def switch_leader() -> None:
        etcd = Etcd([cluster.etcd.endpoint], timeout_s=5)
        try:
            await Registry(etcd, CLUSTER, NAME).request_leader("switch", member)
        finally:
            await etcd.close()

    asyncio.run(switch_leader())


def records(cluster: GroupCluster) -> list[GroupState]:
    """Every state of the record, the first one first."""

    async def read() -> list[GroupState]:
        etcd = Etcd([cluster.etcd.endpoint], timeout_s=30)
        key = f"/rocketeer/{CLUSTER}/{NAME}/state"
        found: list[GroupState] = []
        try:
            revision = 0
            while True:
                values = (await etcd.range(key, revision=revision)).values
                if key not in values:
                    return found[::-1]
                found.append(decode_state(values[key].value))
                revision = values[key].mod_revision - 1
                if revision == 0:
                    return found[::-1]
        finally:
            await etcd.close()

    return asyncio.run(read())


def history_problems(cluster: GroupCluster) -> list[str]:
    """After all have stopped; etcd runs."""
    history = records(cluster)
    found = list(broken_steps(history))
    known = {0, *(state.epoch for state in history)}  # 0: what was there before the group
    starts: dict[int, int] = {}
    for member in cluster.members:
        text = load_table(member.store / "group" / "member.json")
        for epoch, start in json.loads(text or "{}").get("epochs", ()):
            if epoch not in known:
                found.append(f"member {member.number} has an epoch {epoch} that etcd never had")
            if starts.setdefault(epoch, start) != start:
                found.append(
                    f"epoch {epoch} begins at {starts[epoch]}, and at {start} on member {member.number}"
                )
    return found


def broken_steps(history: Sequence[GroupState]) -> Iterator[str]:
    """What is no change that the rules allow."""
    for before, after in itertools.pairwise(history):
        problem = _broken(before, after)
        if problem:
            yield f"{problem}: {before} -> {after}"


def _broken(before: GroupState, after: GroupState) -> str:
    if after.group != before.group:
        return "another group"
    if after.version != before.version + 1:
        return "versions do not follow each other"
    if after.leader.member not in after.in_sync:
        return "a leader that is not in sync"
    if after.epoch == before.epoch:
        if after.leader != before.leader:
            return "two leaders of one epoch"
        changed = before.in_sync.items() ^ after.in_sync.items()
        if (
            len({member for member, _ in changed}) > 1
        ):  # none: a transaction that was not answered is shut out
            return "more than one member came or went at once"
        return ""
    if after.epoch != before.epoch + 1:
        return "epochs do not follow each other"
    if not after.in_sync.items() <= before.in_sync.items():
        return "an election brought somebody in who was not in sync"
    return ""
