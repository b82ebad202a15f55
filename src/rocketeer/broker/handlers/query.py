"""QUERY_MESSAGE (by key) and VIEW_MESSAGE_BY_ID (by offset in the log)."""

from collections.abc import Awaitable

from rocketeer.errors import RequestRefused
from rocketeer.model.offsets import LogOffset
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, reply
from rocketeer.protocol.frame import FRAME_BYTES_MAX, PieceBuffer
from rocketeer.protocol.headers.base import decode_header
from rocketeer.protocol.headers.query import QueryMessageHeader, ViewMessageHeader
from rocketeer.record.layout import encode_record
from rocketeer.remoting.connection import Connection
from rocketeer.remoting.router import Handler
from rocketeer.remoting.slices import run_sliced
from rocketeer.steps import Steps
from rocketeer.store.lookup import Lookup

UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"
REPLY_BYTES_MAX = FRAME_BYTES_MAX - (64 << 10)
"""What a frame can carry besides its header."""


class QueryHandler:
    """Answers with records as they are stored."""

    def __init__(self, lookup: Lookup, *, unique_key_count_max: int, entries_max: int = 200_000) -> None:
        """`entries_max`: so many entries of the index are looked at for one query."""
        self._lookup = lookup
        self._entries_max = entries_max
        self._unique_key_count_max = unique_key_count_max

    def handlers(self) -> dict[int, Handler]:
        return {RequestCode.QUERY_MESSAGE: self.query, RequestCode.VIEW_MESSAGE_BY_ID: self.view}

    def query(self, command: Command, connection: Connection) -> Command | Awaitable[Command]:
        return run_sliced(self._query(command))

    def _query(self, command: Command) -> Steps[Command]:
        header = decode_header(QueryMessageHeader, command.ext)
        count_max = header.max_count
        if command.ext.get(UNIQUE_KEY_QUERY) == "true":
            count_max = self._unique_key_count_max
        found = yield from self._lookup.querying(
            header.topic, header.key, header.begin_ms, header.end_ms, count_max,
            entries_max=self._entries_max, bytes_max=REPLY_BYTES_MAX,
        )  # fmt: skip
        ext = {
            "indexLastUpdateTimestamp": str(found.index_last_ms),
            "indexLastUpdatePhyoffset": str(found.index_last_offset),
        }
        if not found.messages:
            remark = "can not find message, maybe time range not correct"
            if found.is_partial:
                remark += f": stopped after the {self._entries_max} entries that limitQueryEntries allows"
            return reply(command, ResponseCode.QUERY_NOT_FOUND, remark, ext)
        records = []
        for message in found.messages:
            records.append(encode_record(message))
            yield
        body = PieceBuffer(sum(map(len, records)))  # megabytes: not all at once
        for record in records:
            body.fill(record, 0)
            yield
        return reply(command, ext=ext, body=body.whole() or b"")

    def view(self, command: Command, connection: Connection) -> Command:
        header = decode_header(ViewMessageHeader, command.ext)
        message = self._lookup.named_at(LogOffset(header.offset))
        if message is None:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {header.offset}"
            )
        return reply(command, body=encode_record(message))
