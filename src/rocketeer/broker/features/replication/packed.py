"""Tables on their way to a slave, compressed between two of ours: a frame has 16 MB at most, a table may have more.

A slave asks for it with a field that RocketMQ's brokers pass over; whoever does not ask gets the table as it is.
"""

import asyncio
import zlib
from collections.abc import Awaitable, Mapping
from inspect import isawaitable
from typing import Final

import msgspec

from rocketeer.broker.table_text import PACKED, ZLIB, wants_packed
from rocketeer.errors import BadBody
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import Command
from rocketeer.remoting.router import Connection, Handler

ASKING: Final = {PACKED: ZLIB}
TABLE_BYTES_MAX: Final = 512 << 20
LEVEL: Final = 1  # names repeat themselves: already this one makes a twentieth of them

TABLES: Final = (
    RequestCode.GET_ALL_TOPIC_CONFIG,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    RequestCode.GET_ALL_CONSUMER_OFFSET,
    RequestCode.GET_ALL_DELAY_OFFSET,
    RequestCode.GET_BROKER_TABLE,
)


def packed_tables(handlers: Mapping[int, Handler]) -> dict[int, Handler]:
    """The handlers that tell tables, able to compress their answers."""
    return {code: _packing(handlers[code]) for code in TABLES}


def _packing(handler: Handler) -> Handler:
    async def packed(command: Command, connection: Connection) -> Command:
        answer = handler(command, connection)
        told = await answer if isawaitable(answer) else answer
        assert told is not None, "a table is always answered"
        body = await asyncio.to_thread(zlib.compress, told.body, LEVEL)
        return msgspec.structs.replace(told, body=body, ext={**told.ext, **ASKING})

    def tell(command: Command, connection: Connection) -> Command | Awaitable[Command | None] | None:
        return packed(command, connection) if wants_packed(command) else handler(command, connection)

    return tell


async def unpacked(answer: Command) -> bytes:
    """The table of an answer; BadBody when it is not what it says."""
    if answer.ext.get(PACKED) != ZLIB:
        return answer.body
    return await asyncio.to_thread(_unpack, answer.body)


def _unpack(body: bytes) -> bytes:
    reader = zlib.decompressobj()
    try:
        table = reader.decompress(body, TABLE_BYTES_MAX)
    except zlib.error as error:
        raise BadBody(f"the master's table cannot be unpacked: {error}") from None
    if not reader.eof:
        raise BadBody(f"the master's table is cut, or has more than {TABLE_BYTES_MAX} bytes")
    return table
