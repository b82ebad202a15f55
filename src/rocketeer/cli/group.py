"""`rocketeer group status|switch|remove|recover`: what a person sees of a group of brokers, and may ask of it."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from rocketeer.config import BrokerConfig, ServerRole, read_config
from rocketeer.config.group import ReplicaGroupConfig
from rocketeer.errors import ConfigError, GroupError
from rocketeer.group.etcd import Access, Etcd
from rocketeer.group.registry import GroupSnapshot, LeaderRequest, Registry
from rocketeer.group.state import GroupState, is_alive, lost, shrunk
from rocketeer.option_groups import with_options

app = typer.Typer(no_args_is_help=True, help="Groups of brokers that elect their leader: docs/groups.md.")

SWITCH_S = 30.0
LOOK_S = 0.2

MemberArgument = Annotated[int, typer.Argument(help="groupMemberId.")]

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class GroupOptions:
    """The options that name a group."""

    config: Annotated[
        Path | None, typer.Option("-c", "--config", metavar="FILE", help="broker.conf of one of the members.")
    ] = None
    etcd: Annotated[str | None, typer.Option("--etcd", metavar="URLS", help="http://host:2379;...")] = None
    cluster: Annotated[str, typer.Option("--cluster", help="brokerClusterName.")] = "DefaultCluster"
    broker: Annotated[str | None, typer.Option("--broker", help="brokerName: the group's name.")] = None

    def settings(self) -> BrokerConfig:
        if self.config is not None:
            settings = read_config(self.config, ServerRole.BROKER).broker
            if not settings.group.enabled:
                raise ConfigError(f"{self.config} has no groupEtcd: it is no member's")
            return settings
        if self.etcd is None or self.broker is None:
            raise ConfigError("which group? -c FILE of a member, or --etcd URLS --broker NAME")
        return BrokerConfig(
            cluster_name=self.cluster, broker_name=self.broker, group=ReplicaGroupConfig(etcd=self.etcd)
        )


def _run(which: GroupOptions, work: Callable[[Registry], Awaitable[T]]) -> T:
    settings = which.settings()

    async def run() -> T:
        etcd = Etcd(settings.group.endpoints, Access.of(settings.group), timeout_s=5)
        try:
            return await work(Registry(etcd, settings.cluster_name, settings.broker_name))
        finally:
            await etcd.close()

    return asyncio.run(run())


async def _state(registry: Registry) -> tuple[GroupSnapshot, GroupState]:
    view = await registry.read()
    if view.state is None:
        raise GroupError("there is no group of this name in this etcd")
    return view, view.state


async def _request(registry: Registry, what: LeaderRequest, member: int) -> GroupState:
    """Ask the members for it, and wait until this one leads."""
    await registry.request_leader(what, member)
    for _ in range(int(SWITCH_S / LOOK_S)):
        _, state = await _state(registry)
        if state.leader.member == member:
            return state
        await asyncio.sleep(LOOK_S)
    await registry.forget_request(what)
    raise GroupError(f"member {member} does not lead after {SWITCH_S:g} s: see the members' logs")


def status(which: GroupOptions) -> None:
    """Who leads, who is in sync, who is alive."""
    view, state = _run(which, _state)
    alive = is_alive(state.leader, view.live)
    print(
        f"{which.settings().broker_name}: epoch {state.epoch}, version {state.version}, "
        f"leader {state.leader.member}{'' if alive else ' (gone)'}"
    )
    for member in sorted({*state.in_sync, *view.live}):
        peer = view.live.get(member)
        if member == state.leader.member and alive:
            role = "leader"
        elif peer is not None and state.has(member, peer.incarnation):
            role = "in sync"
        elif peer is not None:
            role = "catches up"
        else:
            role = "gone, was in sync"
        print(f"  {member:<4} {role:<18} {'' if peer is None else peer.address}")
    if lost(state, view.live):
        print("nobody who was in sync is alive: start one of them, or see `rocketeer group recover --help`")
        raise typer.Exit(1)


def switch(member: MemberArgument, which: GroupOptions) -> None:
    """Let another member lead, which is in sync; returns when it does."""

    async def work(registry: Registry) -> GroupState:
        view, state = await _state(registry)
        peer = view.live.get(member)
        if peer is None or not state.has(member, peer.incarnation):
            raise GroupError(f"member {member} is not alive and in sync: see `rocketeer group status`")
        return state if state.leader.member == member else await _request(registry, "switch", member)

    print(f"member {member} leads epoch {_run(which, work).epoch}")


def remove(member: MemberArgument, which: GroupOptions) -> None:
    """Forget a member that is gone for good."""

    async def work(registry: Registry) -> None:
        view, state = await _state(registry)
        if member in view.live:
            raise GroupError(f"member {member} is alive: stop it first")
        if member not in state.in_sync:
            return
        if member == state.leader.member or len(state.in_sync) == 1:
            raise GroupError(f"member {member} has what no other has: see `rocketeer group recover --help`")
        if not await registry.change(view, shrunk(state, member)):
            raise GroupError("the group changed meanwhile: try again")

    _run(which, work)
    print(f"member {member} is not in the group")


def recover(
    member: MemberArgument,
    which: GroupOptions,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Messages that only others had are lost.")
    ] = False,
) -> None:
    """Let a member lead that was not in sync, because nobody who was will ever come back."""

    async def work(registry: Registry) -> GroupState:
        view, state = await _state(registry)
        if member not in view.live:
            raise GroupError(f"member {member} is not alive: start it first")
        if not lost(state, view.live):
            raise GroupError(
                "a member that was in sync is alive: it will lead by itself, and nothing is lost"
            )
        if not accept_loss:
            raise GroupError(
                f"members {sorted(state.in_sync)} had every message of epoch {state.epoch} and are gone. "
                f"What member {member} does not have is lost if it leads. --accept-loss says that this is meant"
            )
        return await _request(registry, "recover", member)

    print(f"member {member} leads epoch {_run(which, work).epoch}; what only others had is lost")


for _command in (status, switch, remove, recover):
    app.command()(with_options(_command))
