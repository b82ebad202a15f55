"""Administration of consumer groups: create or change (200), list all (201), delete (207)."""

import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from rocketeer.broker.entries_table import list_handler
from rocketeer.broker.groups import ConsumerGroupTable
from rocketeer.errors import RequestRefused
from rocketeer.model.group import is_usable_group
from rocketeer.model.topic import QUEUES_MAX
from rocketeer.protocol.bodies.groups import decode_group
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, reply
from rocketeer.protocol.headers.base import decode_header
from rocketeer.protocol.headers.topics import DeleteSubscriptionGroupHeader
from rocketeer.remoting.router import Connection, Handler
from rocketeer.remoting.slices import in_slices
from rocketeer.steps import Steps

log = logging.getLogger(__name__)


class GroupOffsets(Protocol):
    """What deleting a group asks of the offsets' table."""

    def removing_group(self, group: str) -> Steps[None]: ...


def group_handlers(
    groups: ConsumerGroupTable, offsets: GroupOffsets, persist: Callable[[], Awaitable[None]]
) -> dict[int, Handler]:
    """The reply waits until the disk has the change (`persist`)."""

    def update(command: Command, connection: Connection) -> Awaitable[Command]:
        group = decode_group(command.body)
        if not is_usable_group(group.name):
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"a group cannot be named {group.name[:200]!r}")
        if not 0 <= group.retry_queues <= QUEUES_MAX:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR,
                f"retryQueueNums of group {group.name} is {group.retry_queues}, must be between 0 and {QUEUES_MAX}",
            )
        log.info("group updated group=%s remote=%s", group, connection.remote)
        groups.put(group)
        return persisted(command)

    async def persisted(command: Command) -> Command:
        await persist()
        return reply(command)

    async def delete(command: Command, connection: Connection) -> Command:
        header = decode_header(DeleteSubscriptionGroupHeader, command.ext)
        log.info("group deleted group=%s remote=%s", header.group_name, connection.remote)
        groups.delete(header.group_name)
        if header.remove_offset or header.clean_offset:
            await in_slices(offsets.removing_group(header.group_name))
        await persist()
        return reply(command)

    return {
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: update,
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: list_handler(groups),
        RequestCode.DELETE_SUBSCRIPTIONGROUP: delete,
    }
