"""Between the socket and the command: cuts a stream of bytes into frames, holding one incomplete frame.

Frame, big-endian:

    length i32 | kind u8, header length u24 | header | body
    `-- counts everything behind itself

kind 0 is a JSON header, 1 RocketMQ's binary one.
"""

import struct
from typing import TYPE_CHECKING, Final, TypeAlias

from rocketeer.compiled import COMPILED
from rocketeer.errors import BadFrame, FrameTooLarge, ProtocolError

# The whole frame, its length field included; RocketMQ's own default.
FRAME_BYTES_MAX: Final = 16 * 1024 * 1024

JSON: Final = 0
ROCKETMQ: Final = 1

LENGTH = struct.Struct(">i")
PREFIX = struct.Struct(">iI")
assert PREFIX.size == 8, "length, then the kind and header length that it counts"


Frame: TypeAlias = tuple[int, bytes, bytes]
"""One whole frame: kind (JSON or ROCKETMQ), header, body. A plain tuple, because one is made for every request."""


def pack_frame(kind: int, header: bytes, body: bytes = b"") -> bytes:
    """The bytes of one frame."""
    size = 4 + len(header) + len(body)
    if size + 4 > FRAME_BYTES_MAX:
        raise FrameTooLarge(size=size + 4, limit=FRAME_BYTES_MAX)
    return PREFIX.pack(size, kind << 24 | len(header)) + header + body


def pack_prefix(kind: int, header_bytes: int, body_bytes: int) -> bytes:
    """The first 8 bytes of a frame whose header and body are written behind it piece by piece."""
    size = 4 + header_bytes + body_bytes
    if size + 4 > FRAME_BYTES_MAX:
        raise FrameTooLarge(size=size + 4, limit=FRAME_BYTES_MAX)
    return PREFIX.pack(size, kind << 24 | header_bytes)


def split_frames(data: bytes, limit: int) -> tuple[list[Frame], int]:
    """The whole frames at the front of `data`, and where they end: the rest is incomplete, broken or nothing."""
    frames: list[Frame] = []
    at = 0
    end = len(data)
    unpack = PREFIX.unpack_from
    while end - at >= 8:
        size, mark = unpack(data, at)
        stop = at + 4 + size
        kind = mark >> 24
        header_end = at + 8 + (mark & 0xFFFFFF)
        if size < 4 or stop - at > limit or header_end > stop or kind > ROCKETMQ or stop > end:
            break
        frames.append((kind, data[at + 8 : header_end], data[header_end:stop]))
        at = stop
    return frames, at


split_frames_plain = split_frames
if COMPILED and not TYPE_CHECKING:
    from rocketeer.protocol._frames import split_frames

_SMALL_BYTES = 4096


class FrameSplitter:
    """Bytes in, whole frames out.

    Invariant: what is kept between calls is one incomplete frame, never more than `limit` bytes and the chunk
    that completed it.

    Frames in front of a broken one are always delivered: `feed` then returns them, `error` says what is
    wrong with the bytes behind them, and the next `feed` raises it. With nothing to deliver it raises now.
    """

    __slots__ = ("_limit", "_need", "_pending", "error", "pending_bytes")

    def __init__(self, limit: int = FRAME_BYTES_MAX) -> None:
        self._limit = limit
        self._pending: list[bytes] = []  # joined once, when they are enough
        self._need = 0  # bytes the pending frame needs before parsing is worth while
        self.pending_bytes = 0
        """How much of an incomplete frame waits."""
        self.error: ProtocolError | None = None

    def feed(self, data: bytes | bytearray | memoryview) -> list[Frame]:
        """Return every whole frame; an incomplete tail waits for the next call."""
        whole = self.gather(data)
        return [] if whole is None else self.split(whole)

    def gather(self, data: bytes | bytearray | memoryview) -> bytes | None:
        """What waited with `data` behind it, for `split`; None as long as no whole frame is there."""
        if self.error is not None:
            raise self.error
        if type(data) is not bytes:
            data = bytes(data)
        if not self.pending_bytes:
            return data
        self._keep(data)
        if self.pending_bytes < self._need:
            return None
        whole = b"".join(self._pending)
        self._pending.clear()
        self.pending_bytes = 0
        return whole

    def _keep(self, data: bytes) -> None:
        """Of a frame that comes byte by byte not every byte may cost an object."""
        pending = self._pending
        if pending and len(data) < _SMALL_BYTES and len(pending[-1]) < _SMALL_BYTES:
            pending[-1] += data
        else:
            pending.append(data)
        self.pending_bytes += len(data)

    def split(self, data: bytes) -> list[Frame]:
        """Every whole frame of what `gather` gave, or of its end; an incomplete tail waits."""
        assert not self.pending_bytes
        frames, at = split_frames(data, self._limit)
        left = len(data) - at
        if not left:
            return frames
        if left < 4:
            self._need = 4
        else:
            (size,) = LENGTH.unpack_from(data, at)
            mark = PREFIX.unpack_from(data, at)[1] if left >= 8 else 0
            kind, header_bytes = mark >> 24, mark & 0xFFFFFF
            if size < 4 or size + 4 > self._limit or kind > ROCKETMQ or header_bytes > size - 4:
                return self._fail(frames, size, kind, header_bytes)
            self._need = size + 4 if left >= 8 else 8
        self._keep(data[at:])
        return frames

    def _fail(self, frames: list[Frame], size: int, kind: int, header_bytes: int) -> list[Frame]:
        if size + 4 > self._limit:
            self.error = FrameTooLarge(size=size + 4, limit=self._limit)
        elif size < 4:
            self.error = BadFrame(f"frame announces a length of {size}; it must be at least 4")
        elif kind > ROCKETMQ:
            self.error = BadFrame(
                f"frame announces header serialisation {kind}; 0 (JSON) and 1 (ROCKETMQ) exist"
            )
        else:
            self.error = BadFrame(f"frame of {size} bytes announces a header of {header_bytes}")
        if not frames:
            raise self.error
        return frames
