"""What operators ask of a group's running members through the broker.

Who they are (203); consume again from a time (222: every member is told its new offsets by 220); how far they are
(223, asked with 221); what they are doing (307) and one message consumed here and now (309), both passed on to the
member as they came.
"""

import logging
from collections.abc import Awaitable, Mapping
from typing import Final

from rocketeer.broker.clients import ClientTable, Member
from rocketeer.broker.feature import Feature
from rocketeer.broker.offsets import ConsumerOffsets
from rocketeer.broker.topics import TopicTable
from rocketeer.errors import BadMessageId, CallTimeout, RemotingError, RequestRefused, RocketeerError
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.protocol import fastjson
from rocketeer.protocol.bodies.connections import (
    ClientConnection,
    GroupConnections,
    encoding_group_connections,
)
from rocketeer.protocol.bodies.offsets import (
    encoding_members_status,
    encoding_queue_offsets,
    reading_member_status,
)
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, reply, request
from rocketeer.protocol.headers.base import decode_header
from rocketeer.protocol.headers.clients import (
    ConsumeMessageDirectlyHeader,
    ConsumerGroupHeader,
    GetConsumerRunningInfoHeader,
)
from rocketeer.protocol.headers.offsets import GetConsumerStatusHeader, ResetOffsetHeader
from rocketeer.protocol.versions import V3_0_7_SNAPSHOT, V3_1_8_SNAPSHOT, version_name
from rocketeer.record.ids import parse_offset_msg_id
from rocketeer.record.layout import encode_record
from rocketeer.remoting.router import Connection, Handler
from rocketeer.remoting.slices import in_slices, run_sliced
from rocketeer.steps import Steps
from rocketeer.store.message_store import MessageStore

log = logging.getLogger(__name__)

RELAY_S: Final = 10.0
STATUS_S: Final = 5.0
CPP: Final = "CPP"
TOLD_QUEUES_MAX: Final = 500_000
"""That members tell of in answer to 221, for all who asked: kept until the last member has answered."""
NOW: Final = -1
"""As a time to go back to: the end of the queue."""


class MemberCalls:
    """Passes what operators ask on to members, and collects their answers."""

    def __init__(
        self,
        clients: ClientTable[Connection],
        *,
        topics: TopicTable,
        offsets: ConsumerOffsets,
        store: MessageStore,
        broker_name: str,
        relay_s: float = RELAY_S,
    ) -> None:
        self._clients = clients
        self._topics = topics
        self._offsets = offsets
        self._store = store
        self._broker_name = broker_name
        self._relay_s = relay_s
        self._told_queues = 0

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.GET_CONSUMER_CONNECTION_LIST: self.connections,
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: self.reset,
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: self.status,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self.running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self.consume_directly,
        }

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

    # --- back in time ------------------------------------------------------------------------

    def reset(self, command: Command, connection: Connection) -> Command | Awaitable[Command]:
        return run_sliced(self._reset(command, connection))

    def _reset(self, command: Command, connection: Connection) -> Steps[Command]:
        header = decode_header(ResetOffsetHeader, command.ext)
        log.info(
            "offsets to be reset by=%s group=%s topic=%s time_ms=%d force=%s",
            connection.remote, header.group, header.topic, header.timestamp_ms, header.force,
        )  # fmt: skip
        table = yield from self._offsets_at(header)
        group = self._clients.consumer(header.group)
        if group is None:
            raise RequestRefused(
                ResponseCode.CONSUMER_NOT_ONLINE,
                f"Consumer not online, so can not reset offset, Group: {header.group} Topic: {header.topic} "
                f"Timestamp: {header.timestamp_ms}",
            )
        members = list(group.members.values())
        for member in members:  # all or none: one that stays where it was would go on from there
            _check_version(member)
        told = ResetOffsetHeader(header.topic, header.group, header.timestamp_ms)
        answer = yield from encoding_queue_offsets(table)
        listed: bytes | None = None
        for member in members:
            body = answer
            if CPP in (command.language, member.identity.language):
                body = listed = listed or (yield from _offsets_as_list(table))
            member.connection.send(request(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, told, body, oneway=True))
            yield
        return reply(command, body=answer)

    def _offsets_at(self, header: ResetOffsetHeader) -> Steps[dict[MessageQueue, int]]:
        """Where each queue stood at that time; without force, never further than the group is."""
        topic = self._topics.get(header.topic)
        if topic is None:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR,
                f"[reset-offset] reset offset failed, no topic in this broker. topic={header.topic}",
            )
        table: dict[MessageQueue, int] = {}
        for queue_id in range(topic.write_queues):
            committed = self._offsets.query(header.group, header.topic, queue_id)
            if committed is None or committed < 0:
                raise RequestRefused(
                    ResponseCode.SYSTEM_ERROR, f"THe consumer group <{header.group}> not exist"
                )
            if header.timestamp_ms == NOW:
                wanted = self._store.max_queue_offset(header.topic, queue_id)
            else:
                wanted = self._store.offset_by_time(header.topic, queue_id, header.timestamp_ms)
            wanted = max(wanted, QueueOffset(0))
            queue = MessageQueue(header.topic, self._broker_name, queue_id)
            table[queue] = wanted if header.force else min(wanted, committed)
            yield
        return table

    async def status(self, command: Command, connection: Connection) -> Command:
        header = decode_header(GetConsumerStatusHeader, command.ext)
        group = self._clients.consumer(header.group)
        if group is None:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR, f"No Any Consumer online in the consumer group: [{header.group}]"
            )
        told: dict[str, Mapping[MessageQueue, int]] = {}
        try:
            for member in list(group.members.values()):
                _check_version(member)
                await self._ask_status(member, header, told)
            return reply(command, body=await in_slices(encoding_members_status(told)))
        finally:
            self._told_queues -= sum(map(len, told.values()))

    async def _ask_status(
        self,
        member: Member[Connection],
        header: GetConsumerStatusHeader,
        told: dict[str, Mapping[MessageQueue, int]],
    ) -> None:
        client_id = member.identity.client_id
        wanted = (header.client_address or "").strip()
        if client_id in told or (wanted and wanted != client_id):
            return
        ask = request(
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, GetConsumerStatusHeader(header.topic, header.group)
        )
        try:
            answer = await member.connection.call(ask, STATUS_S)
            if answer.code != ResponseCode.SUCCESS or not answer.body:
                return
            table = await in_slices(reading_member_status(answer.body))
        except RocketeerError as error:  # the others' offsets are worth having
            log.warning(
                "member did not tell its offsets group=%s client=%s reason=%s",
                header.group, client_id, error,
            )  # fmt: skip
            return
        told[client_id] = table
        self._told_queues += len(table)
        if self._told_queues > TOLD_QUEUES_MAX:
            raise RequestRefused(
                ResponseCode.SYSTEM_BUSY,
                f"members of group {header.group} tell of more queues than the {TOLD_QUEUES_MAX} that are kept",
            )

    # --- passed on ---------------------------------------------------------------------------

    def running_info(self, command: Command, connection: Connection) -> Awaitable[Command]:
        header = decode_header(GetConsumerRunningInfoHeader, command.ext)
        return self._relay(command, header.consumer_group, header.client_id, command.body)

    def consume_directly(self, command: Command, connection: Connection) -> Awaitable[Command]:
        """The message, which may be large, is read in the turn of who asks, before there is something to await."""
        header = decode_header(ConsumeMessageDirectlyHeader, command.ext)
        try:
            log_offset = parse_offset_msg_id(header.msg_id or "")[1]
        except BadMessageId as error:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, str(error)) from None
        message = self._store.named_at(log_offset)
        if message is None:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {log_offset}"
            )
        command.ext["brokerName"] = self._broker_name
        return self._relay(command, header.consumer_group, header.client_id or "", encode_record(message))

    def _relay(self, command: Command, group: str, client_id: str, body: bytes) -> Awaitable[Command]:
        known = self._clients.consumer(group)
        connection = None if known is None else known.connection_of(client_id)
        if known is None or connection is None:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online"
            )
        version = known.members[connection].identity.version
        if version < V3_1_8_SNAPSHOT:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR,
                f"The Consumer <{client_id}> Version <{version_name(version)}> too low to finish, "
                "please upgrade it to V3_1_8_SNAPSHOT",
            )
        answered = connection.call(request(command.code, command.ext, body), self._relay_s)
        return self._answer_of(answered, command, group, client_id)

    async def _answer_of(
        self, answered: Awaitable[Command], command: Command, group: str, client_id: str
    ) -> Command:
        try:
            answer = await answered
        except CallTimeout as error:
            raise RequestRefused(
                ResponseCode.CONSUME_MSG_TIMEOUT, f"consumer <{group}> <{client_id}> Timeout: {error}"
            ) from None
        except RemotingError as error:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR, f"invoke consumer <{group}> <{client_id}> Exception: {error}"
            ) from None
        return reply(command, answer.code, answer.remark, answer.ext, answer.body)


def _check_version(member: Member[Connection]) -> None:
    if member.identity.version < V3_0_7_SNAPSHOT:
        raise RequestRefused(
            ResponseCode.SYSTEM_ERROR,
            f"the client does not support this feature. version={version_name(member.identity.version)}",
        )


def _offsets_as_list(table: Mapping[MessageQueue, int]) -> Steps[bytes]:
    """For the C++ client, whose JSON reader knows no objects as keys."""
    rows = []
    for queue, offset in table.items():
        row = {
            "brokerName": queue.broker_name,
            "offset": offset,
            "queueId": queue.queue_id,
            "topic": queue.topic,
        }
        rows.append(fastjson.dumps(row))
        yield
    return b'{"offsetTable":[%b]}' % b",".join(rows)


def members_feature(calls: MemberCalls) -> Feature:
    return Feature("members", handlers=calls.handlers())
