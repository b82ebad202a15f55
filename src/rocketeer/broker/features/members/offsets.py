"""Where members are, and go back to: consume again from a time (222: every member is told its new offsets by 220),
how far they are (223, asked with 221)."""

import logging
from collections.abc import Awaitable, Mapping
from typing import Final

from rocketeer.broker.clients import ClientTable, ConnectedMember
from rocketeer.broker.offsets import ConsumerOffsets
from rocketeer.broker.topics import TopicTable
from rocketeer.errors import RequestRefused, RocketeerError
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.protocol import fastjson
from rocketeer.protocol.bodies.offsets import (
    encoding_members_status,
    encoding_queue_offsets,
    reading_member_status,
)
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, reply, request
from rocketeer.protocol.headers.base import decode_header
from rocketeer.protocol.headers.offsets import GetConsumerStatusHeader, ResetOffsetHeader
from rocketeer.protocol.versions import V3_0_7_SNAPSHOT, version_name
from rocketeer.remoting.router import Connection, Handler
from rocketeer.remoting.slices import in_slices, run_sliced
from rocketeer.steps import Steps
from rocketeer.store.message_store import MessageStore

log = logging.getLogger(__name__)

STATUS_S: Final = 5.0
CPP: Final = "CPP"
TOLD_QUEUES_MAX: Final = 500_000
"""Most queues that members tell of in answer to 221, for all who asked: kept until the last one answered."""
NOW: Final = -1
"""As a time to go back to: the end of the queue."""


class MemberOffsets:
    """Tells members new offsets, and collects what they say of theirs."""

    def __init__(
        self,
        clients: ClientTable[Connection],
        *,
        topics: TopicTable,
        offsets: ConsumerOffsets,
        store: MessageStore,
        broker_name: str,
    ) -> None:
        self._clients = clients
        self._topics = topics
        self._offsets = offsets
        self._store = store
        self._broker_name = broker_name
        self._told_queues = 0

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: self.reset,
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: self.status,
        }

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

    def _offsets_at(self, header: ResetOffsetHeader) -> Steps[dict[MessageQueue, QueueOffset]]:
        """Where each queue stood at that time; without force, never further than the group is."""
        topic = self._topics.get(header.topic)
        if topic is None:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR,
                f"[reset-offset] reset offset failed, no topic in this broker. topic={header.topic}",
            )
        table: dict[MessageQueue, QueueOffset] = {}
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

    # --- how far they are --------------------------------------------------------------------

    async def status(self, command: Command, connection: Connection) -> Command:
        header = decode_header(GetConsumerStatusHeader, command.ext)
        group = self._clients.consumer(header.group)
        if group is None:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR, f"No Any Consumer online in the consumer group: [{header.group}]"
            )
        told: dict[str, Mapping[MessageQueue, QueueOffset]] = {}
        try:
            for member in list(group.members.values()):
                _check_version(member)
                await self._ask_status(member, header, told)
            return reply(command, body=await in_slices(encoding_members_status(told)))
        finally:
            self._told_queues -= sum(map(len, told.values()))

    async def _ask_status(
        self,
        member: ConnectedMember[Connection],
        header: GetConsumerStatusHeader,
        told: dict[str, Mapping[MessageQueue, QueueOffset]],
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


def _check_version(member: ConnectedMember[Connection]) -> None:
    if member.identity.version < V3_0_7_SNAPSHOT:
        raise RequestRefused(
            ResponseCode.SYSTEM_ERROR,
            f"the client does not support this feature. version={version_name(member.identity.version)}",
        )


def _offsets_as_list(table: Mapping[MessageQueue, QueueOffset]) -> Steps[bytes]:
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
