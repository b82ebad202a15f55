"""One group's keys in etcd: the state record, a seat for every member that is alive.

/rocketeer/CLUSTER/BROKER/state         GroupState, for good; changed by transactions on its revision only
/rocketeer/CLUSTER/BROKER/members/ID    Seat, under the member's lease
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
from rocketeer.group.state import GroupState, Seat, decode_state, encode_state

log = logging.getLogger(__name__)

Wish = Literal["switch", "recover"]
"""What a person may ask of a group: that another one leads, or one that may lack messages."""


@dataclass(frozen=True)
class View:
    """All of it at one moment."""

    cluster: str
    """etcd's own id."""
    revision: int
    state: GroupState | None
    state_revision: int
    seats: Mapping[int, Seat]
    wanted: int | None = None
    """Whom a person wants to lead."""
    recovering: int | None = None
    """Who shall lead although what it lacks is lost: a person has accepted that."""


class Registry:
    def __init__(self, etcd: Etcd, cluster: str, broker_name: str) -> None:
        self._etcd = etcd
        self._prefix = f"/rocketeer/{cluster}/{broker_name}/"
        self.lease: str | None = None

    # --- reading and changing ----------------------------------------------------------------

    async def read(self) -> View:
        found = await self._etcd.range(self._prefix)
        seats = {}
        prefix = f"{self._prefix}members/"
        for key, each in found.values.items():
            if key.startswith(prefix):
                seats[int(key[len(prefix) :])] = _seat(each)
        record = found.values.get(f"{self._prefix}state")
        wanted = found.values.get(f"{self._prefix}switch")
        recovering = found.values.get(f"{self._prefix}recover")
        return View(
            found.cluster,
            found.revision,
            None if record is None else decode_state(record.value),
            0 if record is None else record.mod_revision,
            seats,
            None if wanted is None else int(wanted.value),
            None if recovering is None else int(recovering.value),
        )

    async def change(self, view: View, state: GroupState) -> bool:
        """Replace the record that was read; False when it was changed meanwhile. EtcdAway: read it again."""
        return await self._etcd.put_if(f"{self._prefix}state", encode_state(state), view.state_revision)

    # --- our seat ----------------------------------------------------------------------------

    async def sit(self, member: int, seat: Seat, ttl_s: int) -> None:
        """Take or change our seat, under a new lease if we have none."""
        if self.lease is None:
            self.lease = await self._etcd.grant(ttl_s)
        await self._etcd.put(f"{self._prefix}members/{member}", msgspec.json.encode(seat), self.lease)

    async def keep(self) -> bool:
        """Renew the lease; False when it is over, and the seat is gone."""
        if self.lease is None:
            return False
        if await self._etcd.keep_alive(self.lease):
            return True
        self.lease = None
        return False

    async def leave(self) -> None:
        """Give up the seat at once."""
        lease, self.lease = self.lease, None
        if lease is not None:
            await self._etcd.revoke(lease)

    # --- wishes ------------------------------------------------------------------------------

    async def wish(self, what: Wish, member: int) -> None:
        await self._etcd.put(f"{self._prefix}{what}", str(member).encode(), "0")

    async def forget_wish(self, what: Wish) -> None:
        await self._etcd.delete(f"{self._prefix}{what}")


def _seat(each: KeyValue) -> Seat:
    try:
        return msgspec.json.decode(each.value, type=Seat)
    except msgspec.MsgspecError as error:
        raise GroupError(f"{each.key} in etcd cannot be understood: {error}") from None
