"""One group's keys in etcd: the state record, and every member that is alive.

/rocketeer/CLUSTER/BROKER/state         GroupState, for good; changed by transactions on its revision only
/rocketeer/CLUSTER/BROKER/members/ID    LiveMember, under the member's lease
/rocketeer/CLUSTER/BROKER/switch        whom a person wants to lead; gone when it is done
/rocketeer/CLUSTER/BROKER/recover       who shall lead although messages are lost with those who had them
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec

from rocketeer.errors import GroupError
from rocketeer.group.etcd import Etcd, KeyValue
from rocketeer.group.state import GroupState, LiveMember, decode_state, encode_state

log = logging.getLogger(__name__)

LeaderRequest = Literal["switch", "recover"]
"""What a person may ask of a group: that another one leads, or one that may lack messages."""


@dataclass(frozen=True)
class GroupSnapshot:
    """The group's state record and its live members in etcd, at one revision."""

    cluster: str
    """etcd's own id."""
    revision: int
    state: GroupState | None
    state_revision: int
    live: Mapping[int, LiveMember]
    wanted: int | None = None
    """The member that a person wants to lead."""
    recovering: int | None = None
    """The member that shall lead although what it lacks is lost: a person has accepted that."""


class Registry:
    def __init__(self, etcd: Etcd, cluster: str, broker_name: str) -> None:
        self._etcd = etcd
        self._prefix = f"/rocketeer/{cluster}/{broker_name}/"
        self.lease: str | None = None

    # --- reading and changing ----------------------------------------------------------------

    async def read(self) -> GroupSnapshot:
        found = await self._etcd.range(self._prefix)
        live = {}
        prefix = f"{self._prefix}members/"
        for key, each in found.values.items():
            if key.startswith(prefix):
                live[int(key[len(prefix) :])] = _live_member(each)
        record = found.values.get(f"{self._prefix}state")
        wanted = found.values.get(f"{self._prefix}switch")
        recovering = found.values.get(f"{self._prefix}recover")
        return GroupSnapshot(
            found.cluster,
            found.revision,
            None if record is None else decode_state(record.value),
            0 if record is None else record.mod_revision,
            live,
            None if wanted is None else int(wanted.value),
            None if recovering is None else int(recovering.value),
        )

    async def change(self, view: GroupSnapshot, state: GroupState) -> bool:
        """Replace the record that was read; False when it was changed meanwhile. EtcdUnavailable: read it again."""
        return await self._etcd.put_if(f"{self._prefix}state", encode_state(state), view.state_revision)

    # --- being alive -------------------------------------------------------------------------

    async def register(self, member: int, peer: LiveMember, ttl_s: int) -> None:
        """Say that we are alive, or what has changed of us, under a new lease if we have none."""
        if self.lease is None:
            self.lease = await self._etcd.grant(ttl_s)
        await self._etcd.put(f"{self._prefix}members/{member}", msgspec.json.encode(peer), self.lease)

    async def keep(self) -> bool:
        """Renew the lease; False when it is over, and we are not among the live members."""
        if self.lease is None:
            return False
        if await self._etcd.keep_alive(self.lease):
            return True
        self.lease = None
        return False

    async def leave(self) -> None:
        """Be no live member any more, at once."""
        lease, self.lease = self.lease, None
        if lease is not None:
            await self._etcd.revoke(lease)

    # --- requests of persons -----------------------------------------------------------------

    async def request_leader(self, what: LeaderRequest, member: int) -> None:
        await self._etcd.put(f"{self._prefix}{what}", str(member).encode(), "0")

    async def forget_request(self, what: LeaderRequest) -> None:
        await self._etcd.delete(f"{self._prefix}{what}")


def _live_member(each: KeyValue) -> LiveMember:
    try:
        return msgspec.json.decode(each.value, type=LiveMember)
    except msgspec.MsgspecError as error:
        raise GroupError(f"{each.key} in etcd cannot be understood: {error}") from None
