"""Who the members of a group are (203)."""

from collections.abc import Awaitable

from rocketeer.broker.clients import ClientTable
from rocketeer.errors import RequestRefused
from rocketeer.protocol.bodies.connections import (
    ClientConnection,
    GroupConnections,
    encoding_group_connections,
)
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, reply
from rocketeer.protocol.headers.base import decode_header
from rocketeer.protocol.headers.clients import ConsumerGroupHeader
from rocketeer.remoting.router import Connection, Handler
from rocketeer.remoting.slices import run_sliced
from rocketeer.steps import Steps


class MemberConnections:
    """Answers which members of a consumer group are connected here (203)."""

    def __init__(self, clients: ClientTable[Connection]) -> None:
        self._clients = clients

    def handlers(self) -> dict[int, Handler]:
        return {RequestCode.GET_CONSUMER_CONNECTION_LIST: self.connections}

    def connections(self, command: Command, connection: Connection) -> Command | Awaitable[Command]:
        name = decode_header(ConsumerGroupHeader, command.ext).consumer_group
        group = self._clients.consumer(name)
        if group is None:
            raise RequestRefused(ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{name}] not online")
        connections = (  # each when it is written: there may be thousands
            ClientConnection(
                member.connection.remote,
                member.identity.client_id,
                member.identity.language,
                member.identity.version,
            )
            for member in list(group.members.values())
        )
        told = GroupConnections(
            (),
            group.consume_from_where,
            group.consume_type,
            group.message_model,
            group.subscriptions,
        )

        def steps() -> Steps[Command]:
            return reply(command, body=(yield from encoding_group_connections(told, connections)))

        return run_sliced(steps())
