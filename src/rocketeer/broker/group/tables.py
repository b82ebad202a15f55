"""How a follower that is new, or cut its log's end, comes by its group's tables: all of them once, from its leader.

They are told while the leader's log grows. Our own log has to be where the leader's ended afterwards: they speak of
its messages. What stands behind where it ended before is seen once more. From then on the log tells every change. The
files in which features keep their progress are copied as a slave copies its master's.
"""

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any

from rocketeer.broker.feature import Feature, Periodic
from rocketeer.broker.features.group.shared_tables import SharedTables
from rocketeer.broker.features.replication.tables import (
    BEGUN,
    LOG_OFFSET,
    LOOK_S,
    FollowedTables,
    WaitingTable,
    number_of,
)
from rocketeer.broker.locks import ChangeTrackingLocks, LockRow, rows_of
from rocketeer.broker.registration import RemoteCaller
from rocketeer.errors import BadBody
from rocketeer.model.offsets import LogOffset
from rocketeer.protocol.bodies.groups import decode_group_table
from rocketeer.protocol.bodies.offsets import decode_consumer_offsets
from rocketeer.protocol.bodies.topics import decode_topic_table
from rocketeer.protocol.codes import RequestCode
from rocketeer.remoting.slices import in_slices
from rocketeer.steps import Steps

log = logging.getLogger(__name__)


class JoinedTables(FollowedTables):
    """A follower's tables: copied once from its leader, then kept by change records. Belongs to the loop thread."""

    def __init__(self, client: RemoteCaller, *, shared: SharedTables, **own: Any) -> None:
        """`own`: this member's tables, as `FollowedTables` takes them."""
        super().__init__(client, **own)
        self._shared = shared
        self._leader = 0
        """Counts the leaders we have followed."""

    def feature(self) -> Feature:
        return Feature(
            "tables of the leader", services=(Periodic("tables of the leader", LOOK_S, self.look),)
        )

    def leader_named(self, address: str) -> None:
        """Start over with the tables of this leader: what an earlier one told may belong to another log."""
        self._leader += 1
        self._held.clear()
        self._address = address
        self._next_s = 0.0

    async def look(self) -> None:
        if not self._shared.position.whole and "tables" not in self._held:
            self._next_s = 0.0  # nothing is acknowledged before they are here
        await super().look()

    async def _sync(self, address: str) -> None:
        leader = self._leader
        files = await self._files_of(address, RequestCode.GET_ALL_DELAY_OFFSET)
        files |= await self._files_of(address, RequestCode.GET_BROKER_TABLE)
        if leader != self._leader:
            return
        for name, answer in files.items():
            self._hold_file(name, answer, number_of(answer.ext, LOG_OFFSET))
        if not self._shared.position.whole:  # behind the files: whoever has the tables has those, too
            await self._take_all(address)

    async def _take_all(self, address: str) -> None:
        """The offsets first: what the others tell is as new or newer, and what is newer stands in the log."""
        leader = self._leader
        answer = await self._ask(address, RequestCode.GET_ALL_CONSUMER_OFFSET)
        end = number_of(answer.ext, LOG_OFFSET)
        begun = number_of(answer.ext, BEGUN) if BEGUN in answer.ext else end  # a leader of an older version
        offsets = await asyncio.to_thread(decode_consumer_offsets, answer.body)
        answer = await self._ask(address, RequestCode.GET_ALL_TOPIC_CONFIG)
        topics = await asyncio.to_thread(decode_topic_table, answer.body)
        answer = await self._ask(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        groups = await asyncio.to_thread(decode_group_table, answer.body)
        locks = await self._locks_of(address)

        def following() -> Steps[None]:
            yield from self._topics.following(*topics)
            yield from self._groups.following(*groups)
            yield from self._offsets.following(offsets)
            if locks is not None:
                yield from self._shared.locks.following(locks)

        def take() -> Awaitable[None]:
            return in_slices(
                self._shared.copying_tables(following(), LogOffset(begun), lambda: leader == self._leader)
            )

        if leader == self._leader:
            self._held["tables"] = WaitingTable(LogOffset(end), take)

    async def _locks_of(self, address: str) -> list[LockRow] | None:
        """The leader's queue locks; None from an older version, which does not tell them (owners renew within 20
        s)."""
        try:
            answer = await self._ask(
                address, RequestCode.GET_BROKER_TABLE, {"name": ChangeTrackingLocks.file_name}
            )
        except BadBody as error:
            log.info("queue locks not told leader=%s reason=%s", address, error)
            return None
        return await asyncio.to_thread(rows_of, answer.body)
