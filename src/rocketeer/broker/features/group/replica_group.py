"""A member of a replica group tells about its group (300003), and notes that another shall lead (300004)."""

from typing import Protocol

from rocketeer.errors import GroupError, RequestRefused
from rocketeer.protocol.bodies.replica_group import ReplicaGroup, encode_replica_group
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, reply
from rocketeer.protocol.headers.admin import SwitchLeaderHeader
from rocketeer.protocol.headers.base import decode_header
from rocketeer.remoting.router import Connection, Handler


class GroupOfReplicas(Protocol):
    """What the member knows of its group; both raise GroupError with what is wrong in a sentence."""

    def describe(self) -> ReplicaGroup: ...

    async def switch(self, member: int) -> None: ...


def replica_group_handlers(group: GroupOfReplicas) -> dict[int, Handler]:
    def describe(command: Command, connection: Connection) -> Command:
        try:
            return reply(command, body=encode_replica_group(group.describe()))
        except GroupError as error:
            raise RequestRefused(ResponseCode.SERVICE_NOT_AVAILABLE, str(error)) from None

    async def switch(command: Command, connection: Connection) -> Command:
        try:
            await group.switch(decode_header(SwitchLeaderHeader, command.ext).member)
        except GroupError as error:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, str(error)) from None
        return reply(command)

    return {RequestCode.GET_REPLICA_GROUP: describe, RequestCode.SWITCH_LEADER: switch}
