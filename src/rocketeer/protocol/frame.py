"""Between the socket and the command: cuts a stream of bytes into frames, holding one incomplete frame.

`frame_layout.py` has what a frame is; what is done for each is compiled, or in plain Python.
"""

from typing import TYPE_CHECKING, Final

from rocketeer.compiled import COMPILED
from rocketeer.errors import FrameTooLarge, ProtocolError
from rocketeer.protocol.frame_layout import FRAME_BYTES_MAX as FRAME_BYTES_MAX
from rocketeer.protocol.frame_layout import JSON as JSON
from rocketeer.protocol.frame_layout import LENGTH
from rocketeer.protocol.frame_layout import PREFIX as PREFIX
from rocketeer.protocol.frame_layout import ROCKETMQ as ROCKETMQ
from rocketeer.protocol.frame_layout import Frame as Frame
from rocketeer.protocol.frame_layout import frame_error as frame_error
from rocketeer.protocol.frames_plain import PieceBuffer as PieceBuffer
from rocketeer.protocol.frames_plain import split_frames as split_frames
from rocketeer.steps import Steps

if COMPILED and not TYPE_CHECKING:
    from rocketeer.protocol._frames import PieceBuffer, split_frames

_SMALL_BYTES = 4096

FILLED_BYTES: Final = 1 << 20
"""From so much on a frame is put together while it comes. Done at its end, with megabytes of fresh memory, it would
keep everybody else waiting for milliseconds."""

RELEASED_BYTES: Final = 1 << 20
"""How much memory of a large frame that will not be finished is given back at a time."""

APART_BYTES: Final = (4 << 20) + (256 << 10)
"""Larger ones, which no message has by RocketMQ's limits, are cut into header and body at the same time."""


def pack_frame(kind: int, header: bytes, body: bytes = b"") -> bytes:
    """The bytes of one frame."""
    return pack_prefix(kind, len(header), len(body)) + header + body


def pack_prefix(kind: int, header_bytes: int, body_bytes: int) -> bytes:
    """The first 8 bytes of a frame whose header and body are written behind it piece by piece."""
    size = 4 + header_bytes + body_bytes
    if size + 4 > FRAME_BYTES_MAX:
        raise FrameTooLarge(size=size + 4, limit=FRAME_BYTES_MAX)
    return PREFIX.pack(size, kind << 24 | header_bytes)


class _LargeFrame:
    """A frame that has begun: one piece, or with `kind` header and body apart."""

    __slots__ = ("_kind", "_parts")

    def __init__(self, parts: list[PieceBuffer], kind: int | None) -> None:
        self._parts = parts
        self._kind = kind

    def fill(self, data: bytes, start: int = 0) -> int:
        for part in self._parts:
            start = part.fill(data, start)
        return start

    def release(self, start: int, end: int) -> None:
        for part in self._parts:
            part.release(start, end)

    def whole(self) -> bytes | Frame | None:
        """The frame, once it has all its bytes."""
        if self._kind is None:
            return self._parts[0].whole()
        body = self._parts[1].whole()
        header = None if body is None else self._parts[0].whole()
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
        """Join what waited with `data`: pieces for `split`, none as long as no whole frame is there."""
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
        """Keep an incomplete tail; small pieces are joined, so that a frame sent byte by byte costs few objects."""
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
            self.error = frame_error(size, mark, self._limit)
            if self.error is not None:
                if not frames:
                    raise self.error
                return frames
            self._need = size + 4 if left >= 8 else 8
        self._keep(data[at:])
        return frames

    def _begin_large(self) -> None:
        """Begin to fill a large frame, once enough of it is there: what a peer only announces takes no memory."""
        _, mark = PREFIX.unpack_from(self._pending[0])
        header_bytes, start = mark & 0xFFFFFF, 0
        if self._need < APART_BYTES:
            large = _LargeFrame([PieceBuffer(self._need)], None)
        else:
            start = PREFIX.size
            body = PieceBuffer(self._need - PREFIX.size - header_bytes)
            large = _LargeFrame([PieceBuffer(header_bytes), body], mark >> 24)
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
