"""The bytes between master and slave on the HA port: bytes in, values out. Pure.

    slave -> master     report: the end of the slave's log i64
    master -> slave     header: log offset i64 | size i32, then `size` bytes of the log; size 0 is a heartbeat

The log is cut anywhere, never across a file. Big-endian; that is all RocketMQ 4.9.8 knows.

Two of ours understand more, and a peer of 4.9.8 is never sent it. Our slave begins with the report `HELLO`, which a
4.9.8 master takes for "no report yet" and waits. Ours answers it with where its log begins and ends, as two headers
whose sizes are negative; from then on a report of 0 means offset 0, not "the last file".
"""

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from rocketeer.errors import ReplicationError
from rocketeer.model.offsets import LogOffset

REPORT: Final = Struct(">q")
HEADER: Final = Struct(">qi")
assert (REPORT.size, HEADER.size) == (8, 12), "RocketMQ's peers read these"

PURPOSE: Final = "ha"
"""Purpose of a sign-in to the HA port (`security.peer`)."""
HELLO: Final = LogOffset(-1)
"""The first report of a slave of ours."""
PIECE_BYTES_MAX: Final = 1 << 30
"""No log file is larger: a header that announces more is no header."""


class BoundKind(IntEnum):
    """What a header with a negative size says; only ever sent to a slave that said HELLO."""

    LOG_BEGINS = -1
    LOG_ENDS = -2


class StreamHeartbeat(NamedTuple):
    """The master has nothing to send; the next byte it will send has this offset."""

    offset: LogOffset


class Data(NamedTuple):
    """Bytes of the log that begin at `offset`; valid until the next read."""

    offset: LogOffset
    data: memoryview


class LogBound(NamedTuple):
    note: BoundKind
    offset: LogOffset


StreamEvent = StreamHeartbeat | Data | LogBound


class ReportReader:
    """The master's end: feed what the slave sent."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[LogOffset]:
        """Every whole report; an incomplete one waits for the next call."""
        data = self._rest + data
        whole = len(data) - len(data) % REPORT.size
        self._rest = data[whole:]
        return [offset for (offset,) in REPORT.iter_unpack(data[:whole])]


class HaFrameReader:
    """The slave's end: feed what the master sent. Log bytes come out as they come in, whole pieces or not."""

    def __init__(self) -> None:
        self._head = b""
        self._next = LogOffset(0)
        self._left = 0  # bytes of the piece that have not come yet

    def feed(self, data: memoryview) -> Iterator[StreamEvent]:
        """What the bytes say, in order; ReplicationError when they are no stream of ours."""
        at = 0
        while at < len(data):
            if self._left:
                piece = data[at : at + self._left]
                yield Data(self._next, piece)
                self._next = LogOffset(self._next + len(piece))
                self._left -= len(piece)
                at += len(piece)
                continue
            taken = data[at : at + HEADER.size - len(self._head)]
            self._head += taken
            at += len(taken)
            if len(self._head) == HEADER.size:
                offset, size = HEADER.unpack(self._head)
                self._head = b""
                if size > 0:
                    self._begin(offset, size)
                elif size == 0:
                    yield StreamHeartbeat(offset)
                else:
                    yield _noted(offset, size)

    def _begin(self, offset: LogOffset, size: int) -> None:
        if offset < 0 or size > PIECE_BYTES_MAX:
            raise ReplicationError(f"the master announces {size} bytes of its log at {offset}: no HA stream")
        self._next, self._left = offset, size


def _noted(offset: LogOffset, size: int) -> LogBound:
    try:
        return LogBound(BoundKind(size), offset)
    except ValueError:
        raise ReplicationError(f"a header says size {size} at {offset}: no HA stream") from None


def note(kind: BoundKind, offset: LogOffset) -> bytes:
    return HEADER.pack(offset, kind)
