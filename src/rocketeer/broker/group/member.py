"""A broker that is a member of a group: leads or follows, as etcd's record says, and changes.

The process stays, with its ports; what it serves is started anew in each role. `decisions.py` says in which.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from rocketeer.broker.assemble import Broker
from rocketeer.broker.group.decisions import MemberDecisions
from rocketeer.broker.group.runs import NewBroker
from rocketeer.clock import Clock
from rocketeer.config import BrokerConfig, ServerConfig, StoreConfig
from rocketeer.group.boot_clock import BootClock, boot_s
from rocketeer.group.etcd import Access, Etcd
from rocketeer.group.member_file import MemberFile
from rocketeer.group.members_port import MembersPort
from rocketeer.group.registry import Registry
from rocketeer.threads import finish_in_thread


class ReplicaGroupMember:
    """A broker that is a member of a replica group: started and stopped as a `Broker` is.

    Belongs to the loop thread.
    """

    def __init__(
        self,
        broker: BrokerConfig,
        store: StoreConfig,
        server: ServerConfig,
        clock: Clock,
        *,
        config_path: Path | None = None,
        extras: Mapping[str, str] | None = None,
        boot: BootClock = boot_s,
    ) -> None:
        self._broker = broker
        self._store = store
        self._server = server
        self._boot = boot
        group = broker.group
        self._new_broker: NewBroker = lambda broker, store, make_role: Broker(
            broker, store, server, clock, config_path=config_path, extras=extras, make_role=make_role
        )
        self._etcd = Etcd(group.endpoints, Access.of(group), timeout_s=max(0.5, group.lease_s / 3))
        self._registry = Registry(self._etcd, broker.cluster_name, broker.broker_name)
        self._port = MembersPort(server.bind_host, group.port(server.listen_port), boot)
        self._decisions: MemberDecisions | None = None
        """From a start to the stop."""
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Serves as a follower on return; who leads is found out then."""
        file = await finish_in_thread(MemberFile, self._store.store_path)
        decisions = MemberDecisions(
            self._broker,
            self._store,
            self._server,
            file,
            registry=self._registry,
            port=self._port,
            boot=self._boot,
            new_broker=self._new_broker,
        )
        self._port.open()
        try:
            await decisions.begin()
        except BaseException:
            await decisions.end()
            self._port.close()
            await self._etcd.close()
            raise
        self._decisions = decisions
        self._tasks = [
            asyncio.create_task(decisions.keep_lease(), name="group lease"),
            asyncio.create_task(decisions.decide(), name="group role"),
            asyncio.create_task(decisions.note_confirmed(), name="group confirmed"),
        ]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._decisions is not None:
            await self._decisions.end()
        self._port.close()
        await self._etcd.close()
