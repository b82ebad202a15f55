"""Places in a queue: what a group has consumed (14, 15), a queue's ends, what was when (29-32)."""

from typing import Protocol

from rocketeer.errors import RequestRefused
from rocketeer.model.offsets import QueueOffset
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, reply
from rocketeer.protocol.headers.base import decode_header
from rocketeer.protocol.headers.offsets import (
    EarliestStoreTimeReplyHeader,
    OffsetReplyHeader,
    QueryConsumerOffsetHeader,
    QueueHeader,
    SearchOffsetHeader,
    UpdateConsumerOffsetHeader,
)
from rocketeer.remoting.router import Connection, Handler
from rocketeer.store.message_store import MessageStore

NOT_FOUND = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"


class CommittedOffsets(Protocol):
    """What these handlers ask of the offsets' table."""

    def commit(self, group: str, topic: str, queue_id: int, offset: QueueOffset) -> None: ...

    def query(self, group: str, topic: str, queue_id: int) -> QueueOffset | None: ...


def offset_handlers(offsets: CommittedOffsets, queues: MessageStore) -> dict[int, Handler]:
    def query(command: Command, connection: Connection) -> Command:
        header = decode_header(QueryConsumerOffsetHeader, command.ext)
        offset = offsets.query(header.consumer_group, header.topic, header.queue_id)
        if offset is None or offset < 0:
            # A queue that still has its first message, not far back: a new group reads all of it, wherever it
            # asked to start. Otherwise the client decides by its CONSUME_FROM_... setting.
            first = queues.min_queue_offset(header.topic, header.queue_id)
            if first > 0 or queues.get(header.topic, header.queue_id, QueueOffset(0), 1).suggest_slave:
                raise RequestRefused(ResponseCode.QUERY_NOT_FOUND, NOT_FOUND)
            offset = QueueOffset(0)
        return reply(command, ext=OffsetReplyHeader(offset=offset))

    def update(command: Command, connection: Connection) -> Command:
        header = decode_header(UpdateConsumerOffsetHeader, command.ext)
        offsets.commit(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
        return reply(command)

    def by_time(command: Command, connection: Connection) -> Command:
        header = decode_header(SearchOffsetHeader, command.ext)
        offset = queues.offset_by_time(header.topic, header.queue_id, header.timestamp_ms)
        return reply(command, ext=OffsetReplyHeader(offset=offset))

    def maximum(command: Command, connection: Connection) -> Command:
        header = decode_header(QueueHeader, command.ext)
        offset = queues.max_queue_offset(header.topic, header.queue_id)
        return reply(command, ext=OffsetReplyHeader(offset=offset))

    def minimum(command: Command, connection: Connection) -> Command:
        header = decode_header(QueueHeader, command.ext)
        offset = max(QueueOffset(0), queues.min_queue_offset(header.topic, header.queue_id))
        return reply(command, ext=OffsetReplyHeader(offset=offset))

    def earliest(command: Command, connection: Connection) -> Command:
        header = decode_header(QueueHeader, command.ext)
        store_ms = queues.earliest_ms(header.topic, header.queue_id)
        return reply(command, ext=EarliestStoreTimeReplyHeader(timestamp_ms=store_ms))

    return {
        RequestCode.QUERY_CONSUMER_OFFSET: query,
        RequestCode.UPDATE_CONSUMER_OFFSET: update,
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: by_time,
        RequestCode.GET_MAX_OFFSET: maximum,
        RequestCode.GET_MIN_OFFSET: minimum,
        RequestCode.GET_EARLIEST_MSG_STORETIME: earliest,
    }
