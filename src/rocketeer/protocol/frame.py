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
from rocketeer.steps import Steps

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


class Filling:
    """Bytes of a known size that come piece by piece."""

    __slots__ = ("_data", "_size")

    def __init__(self, size: int) -> None:
        self._data = bytearray()
        self._size = size

    def fill(self, data: bytes, start: int) -> int:
        """Take what is missing from `data`, from `start` on; where what was taken ends."""
        end = min(len(data), start + self._size - len(self._data))
        self._data += memoryview(data)[start:end]
        return end

    def release(self, start: int, end: int) -> None:
        """Nobody will read these bytes: the machine may have their memory back."""

    def whole(self) -> bytes | None:
        """All of it, once; None as long as some is missing."""
        return bytes(self._data) if len(self._data) == self._size else None


split_frames_plain = split_frames
FillingPlain = Filling
if COMPILED and not TYPE_CHECKING:
    from rocketeer.protocol._frames import Filling, split_frames

_SMALL_BYTES = 4096

FILLED_BYTES: Final = 1 << 20
"""From so much on a frame is put together while it comes. Done at its end, with megabytes of fresh memory, it would
keep everybody else waiting for milliseconds."""

RELEASED_BYTES: Final = 1 << 20
"""So much at a time of one that will not be finished is given back."""

APART_BYTES: Final = (4 << 20) + (256 << 10)
"""Larger ones, which no message has by RocketMQ's limits, are cut into header and body at the same time."""


class _LargeFrame:
    """A frame that has begun: one piece, or with `kind` header and body apart."""

    __slots__ = ("_fillings", "_kind")

    def __init__(self, fillings: list[Filling], kind: int | None) -> None:
        self._fillings = fillings
        self._kind = kind

    def fill(self, data: bytes, start: int = 0) -> int:
        for filling in self._fillings:
            start = filling.fill(data, start)
        return start

    def release(self, start: int, end: int) -> None:
        for filling in self._fillings:
            filling.release(start, end)

    def whole(self) -> bytes | Frame | None:
        """Once it has all its bytes."""
        if self._kind is None:
            return self._fillings[0].whole()
        body = self._fillings[1].whole()
        header = None if body is None else self._fillings[0].whole()
        return None if body is None or header is None else (self._kind, header, body)


class FrameSplitter:
    """Bytes in, whole frames out.

    Invariant: what is kept between calls is one incomplete frame, never more than `limit` bytes and the chunk
    that completed it.

    Frames in front of a broken one are always delivered: `feed` then returns them, `error` says what is
    wrong with the bytes behind them, and the next `feed` raises it. With nothing to deliver it raises now.
    """

    __slots__ = ("_large", "_limit", "_need", "_pending", "_ready", "error", "pending_bytes")

    def __init__(self, limit: int = FRAME_BYTES_MAX) -> None:
        self._limit = limit
        self._pending: list[bytes] = []  # joined once, when they are enough
        self._need = 0  # bytes the pending frame needs before parsing is worth while
        self._large: _LargeFrame | None = None  # has them instead of `_pending`
        self._ready: list[Frame] = []
        self.pending_bytes = 0
        """How much of an incomplete frame waits."""
        self.error: ProtocolError | None = None

    def feed(self, data: bytes | bytearray | memoryview) -> list[Frame]:
        """Return every whole frame; an incomplete tail waits for the next call."""
        frames: list[Frame] = []
        for piece in self.gather(data):
            self.split(piece, frames)
        return frames

    def gather(self, data: bytes | bytearray | memoryview) -> list[bytes]:
        """What waited with `data` behind it, each piece for `split`; none as long as no whole frame is there."""
        if self.error is not None:
            raise self.error
        if type(data) is not bytes:
            data = bytes(data)
        if not self.pending_bytes:
            return [data]
        if self._large is not None:
            return self._fill(self._large, data)
        self._keep(data)
        if self.pending_bytes < self._need:
            if self.pending_bytes >= FILLED_BYTES:
                self._begin_large()
            return []
        whole = b"".join(self._pending)
        self._pending.clear()
        self.pending_bytes = 0
        return [whole]

    def _fill(self, large: _LargeFrame, data: bytes) -> list[bytes]:
        end = large.fill(data)
        self.pending_bytes += end
        if self.pending_bytes < self._need:
            return []
        whole = large.whole()
        assert whole is not None, "as long as it was announced to be"
        self._large = None
        self.pending_bytes = 0
        if isinstance(whole, bytes):
            return [whole, data[end:]] if end < len(data) else [whole]
        self._ready.append(whole)
        return [data[end:]]

    @property
    def has_ready(self) -> bool:
        """Whether a frame that is whole already comes out with the next `split`."""
        return bool(self._ready)

    def _keep(self, data: bytes) -> None:
        """Of a frame that comes byte by byte not every byte may cost an object."""
        pending = self._pending
        if pending and len(data) < _SMALL_BYTES and len(pending[-1]) < _SMALL_BYTES:
            pending[-1] += data
        else:
            pending.append(data)
        self.pending_bytes += len(data)

    def split(self, data: bytes, frames: list[Frame] | None = None) -> list[Frame]:
        """Every whole frame of a piece of `gather`, or of its end, behind `frames`; an incomplete tail waits."""
        assert not self.pending_bytes
        frames = [] if frames is None else frames
        if self._ready:
            frames += self._ready
            self._ready.clear()
        found, at = split_frames(data, self._limit)
        frames += found
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

    def _begin_large(self) -> None:
        """Not before so much of it is there: what a peer only announces takes no memory."""
        _, mark = PREFIX.unpack_from(self._pending[0])
        header_bytes, start = mark & 0xFFFFFF, 0
        if self._need < APART_BYTES:
            large = _LargeFrame([Filling(self._need)], None)
        else:
            start = PREFIX.size
            body = Filling(self._need - PREFIX.size - header_bytes)
            large = _LargeFrame([Filling(header_bytes), body], mark >> 24)
        for piece in self._pending:
            large.fill(piece, start)
            start = 0
        self._pending.clear()
        self._large = large

    def dropping(self) -> Steps[None]:
        """Let go of the frame that has begun, in steps: giving megabytes back takes milliseconds."""
        if self._large is not None:
            for start in range(0, self._need, RELEASED_BYTES):
                self._large.release(start, start + RELEASED_BYTES)
                yield
        self._large = None
        self._pending.clear()
        self.pending_bytes = 0

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
