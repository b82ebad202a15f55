"""Who produces: the connections of one group (204), every group (328)."""

from collections.abc import Awaitable, Iterator

from rocketeer.broker.clients import ClientTable
from rocketeer.clock import Clock
from rocketeer.errors import RequestRefused
from rocketeer.protocol.bodies.connections import ClientConnection, encoding_producer_connections
from rocketeer.protocol.bodies.producers import ProducerClient, encoding_producer_table
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, reply
from rocketeer.protocol.headers.base import decode_header
from rocketeer.protocol.headers.clients import GetProducerConnectionsHeader
from rocketeer.remoting.router import Connection, Handler
from rocketeer.remoting.slices import run_sliced
from rocketeer.steps import Steps


def producer_handlers(clients: ClientTable[Connection], clock: Clock) -> dict[int, Handler]:
    def of_group(command: Command, connection: Connection) -> Command | Awaitable[Command]:
        group = decode_header(GetProducerConnectionsHeader, command.ext).producer_group
        members = clients.producers_of(group)
        if not members:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"the producer group[{group}] not exist")
        told = (
            ClientConnection(
                member.connection.remote,
                member.identity.client_id,
                member.identity.language,
                member.identity.version,
            )
            for member in members
        )

        def steps() -> Steps[Command]:
            return reply(command, body=(yield from encoding_producer_connections(told)))

        return run_sliced(steps())

    def all_groups(command: Command, connection: Connection) -> Command | Awaitable[Command]:
        # Heartbeats are kept by a clock that nobody sets; what is told is the time of day.
        ahead_ms = clock.now_ms() - int(clock.monotonic_s() * 1000)

        def clients_of(group: str) -> Iterator[ProducerClient]:
            for member in clients.producers_of(group):
                yield ProducerClient(
                    member.identity.client_id,
                    member.identity.language,
                    member.seen_ms + ahead_ms,
                    f"/{member.connection.remote}",
                    member.identity.version,
                )

        def steps() -> Steps[Command]:
            # A group whose last producer goes meanwhile is told without any.
            table = ((group, clients_of(group)) for group in list(clients.producers))
            return reply(command, body=(yield from encoding_producer_table(table)))

        return run_sliced(steps())

    return {
        RequestCode.GET_PRODUCER_CONNECTION_LIST: of_group,
        RequestCode.GET_ALL_PRODUCER_INFO: all_groups,
    }
