"""`rocketeer group status|switch|remove|recover`: what a person sees of a group of brokers, and may ask of it."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from rocketeer.config import BrokerConfig, Role, read_config
from rocketeer.config.group import GroupConfig
from rocketeer.errors import ConfigError, GroupError
from rocketeer.group.etcd import Access, Etcd
from rocketeer.group.registry import Registry, View
from rocketeer.group.state import is_alive, lost, shrunk

app = typer.Typer(no_args_is_help=True, help="Groups of brokers that elect their leader: docs/groups.md.")

SWITCH_S = 30.0
LOOK_S = 0.2

ConfigFile = Annotated[
    Path | None, typer.Option("-c", "--config", metavar="FILE", help="broker.conf of one of the members.")
]
EtcdOption = Annotated[str | None, typer.Option("--etcd", metavar="URLS", help="http://host:2379;...")]
ClusterOption = Annotated[str, typer.Option("--cluster", help="brokerClusterName.")]
BrokerOption = Annotated[str | None, typer.Option("--broker", help="brokerName: the group's name.")]
MemberArgument = Annotated[int, typer.Argument(help="groupMemberId.")]

T = TypeVar("T")


def _asked(config: Path | None, etcd: str | None, cluster: str, broker: str | None) -> BrokerConfig:
    if config is not None:
        settings = read_config(config, Role.BROKER).broker
        if not settings.group.enabled:
            raise ConfigError(f"{config} has no groupEtcd: it is no member's")
        return settings
    if etcd is None or broker is None:
        raise ConfigError("which group? -c FILE of a member, or --etcd URLS --broker NAME")
    return BrokerConfig(cluster_name=cluster, broker_name=broker, group=GroupConfig(etcd=etcd))


def _run(settings: BrokerConfig, work: Callable[[Registry], Awaitable[T]]) -> T:
    async def run() -> T:
        group = settings.group
        access = Access(
            group.etcd_user, group.etcd_password_file, group.etcd_ca, group.etcd_certificate, group.etcd_key
        )
        etcd = Etcd(group.endpoints, access, timeout_s=5)
        try:
            return await work(Registry(etcd, settings.cluster_name, settings.broker_name))
        finally:
            await etcd.close()

    return asyncio.run(run())


@app.command()
def status(
    config: ConfigFile = None,
    etcd: EtcdOption = None,
    cluster: ClusterOption = "DefaultCluster",
    broker: BrokerOption = None,
) -> None:
    """Who leads, who is in sync, who is alive."""
    settings = _asked(config, etcd, cluster, broker)
    view = _run(settings, lambda registry: registry.read())
    state = view.state
    if state is None:
        print(f"{settings.broker_name}: no group in this etcd")
        raise typer.Exit(1)
    alive = is_alive(state.leader, view.seats)
    print(
        f"{settings.broker_name}: epoch {state.epoch}, version {state.version}, "
        f"leader {state.leader.member}{'' if alive else ' (gone)'}"
    )
    for member in sorted({*state.in_sync, *view.seats}):
        seat = view.seats.get(member)
        if member == state.leader.member and alive:
            role = "leader"
        elif seat is not None and state.has(member, seat.incarnation):
            role = "in sync"
        elif seat is not None:
            role = "catches up"
        else:
            role = "gone, was in sync"
        print(f"  {member:<4} {role:<18} {'' if seat is None else seat.address}")
    if lost(state, view.seats):
        print("nobody who was in sync is alive: start one of them, or see `rocketeer group recover --help`")
        raise typer.Exit(1)


@app.command()
def switch(
    member: MemberArgument,
    config: ConfigFile = None,
    etcd: EtcdOption = None,
    cluster: ClusterOption = "DefaultCluster",
    broker: BrokerOption = None,
) -> None:
    """Let another member lead, which is in sync; returns when it does."""

    async def work(registry: Registry) -> View:
        view = await registry.read()
        state, seat = view.state, view.seats.get(member)
        if state is None or seat is None or not state.has(member, seat.incarnation):
            raise GroupError(f"member {member} is not alive and in sync: see `rocketeer group status`")
        if state.leader.member != member:
            await registry.wish("switch", member)
        for _ in range(int(SWITCH_S / LOOK_S)):
            view = await registry.read()
            if view.state is not None and view.state.leader.member == member:
                return view
            await asyncio.sleep(LOOK_S)
        raise GroupError(f"member {member} does not lead after {SWITCH_S:g} s: see the leader's log")

    view = _run(_asked(config, etcd, cluster, broker), work)
    assert view.state is not None
    print(f"member {member} leads epoch {view.state.epoch}")


@app.command()
def remove(
    member: MemberArgument,
    config: ConfigFile = None,
    etcd: EtcdOption = None,
    cluster: ClusterOption = "DefaultCluster",
    broker: BrokerOption = None,
) -> None:
    """Forget a member that is gone for good."""

    async def work(registry: Registry) -> None:
        view = await registry.read()
        state = view.state
        if state is None:
            raise GroupError("there is no group in this etcd")
        if member in view.seats:
            raise GroupError(f"member {member} is alive: stop it first")
        if member not in state.in_sync:
            return
        if member == state.leader.member or len(state.in_sync) == 1:
            raise GroupError(f"member {member} has what no other has: see `rocketeer group recover --help`")
        if not await registry.change(view, shrunk(state, member)):
            raise GroupError("the group changed meanwhile: try again")

    _run(_asked(config, etcd, cluster, broker), work)
    print(f"member {member} is not in the group")


@app.command()
def recover(
    member: MemberArgument,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Messages that only others had are lost.")
    ] = False,
    config: ConfigFile = None,
    etcd: EtcdOption = None,
    cluster: ClusterOption = "DefaultCluster",
    broker: BrokerOption = None,
) -> None:
    """Let a member lead that was not in sync, because nobody who was will ever come back."""

    async def work(registry: Registry) -> View:
        view = await registry.read()
        state = view.state
        if state is None:
            raise GroupError("there is no group in this etcd")
        if member not in view.seats:
            raise GroupError(f"member {member} is not alive: start it first")
        if not lost(state, view.seats):
            raise GroupError(
                "a member that was in sync is alive: it will lead by itself, and nothing is lost"
            )
        if not accept_loss:
            raise GroupError(
                f"members {sorted(state.in_sync)} had every message of epoch {state.epoch} and are gone. "
                f"What member {member} does not have is lost if it leads. --accept-loss says that this is meant"
            )
        await registry.wish("recover", member)
        for _ in range(int(SWITCH_S / LOOK_S)):
            view = await registry.read()
            if view.state is not None and view.state.leader.member == member:
                return view
            await asyncio.sleep(LOOK_S)
        raise GroupError(f"member {member} does not lead after {SWITCH_S:g} s: see its log")

    view = _run(_asked(config, etcd, cluster, broker), work)
    assert view.state is not None
    print(f"member {member} leads epoch {view.state.epoch}; what only others had is lost")
