"""Cuts whole frames off the front of bytes and fills large ones, in plain Python: the twins of `_frames.pyx`."""

from rocketeer.protocol.frame_layout import PREFIX, Frame, frame_error


def split_frames(data: bytes, limit: int) -> tuple[list[Frame], int]:
    """The whole frames at the front of `data`, and where they end: the rest is incomplete, broken or nothing."""
    frames: list[Frame] = []
    at = 0
    end = len(data)
    unpack = PREFIX.unpack_from
    while end - at >= PREFIX.size:
        size, mark = unpack(data, at)
        stop = at + 4 + size
        if stop > end or frame_error(size, mark, limit) is not None:
            break
        header_end = at + 8 + (mark & 0xFFFFFF)
        frames.append((mark >> 24, data[at + 8 : header_end], data[header_end:stop]))
        at = stop
    return frames, at


class PieceBuffer:
    """Bytes of a known size that come piece by piece."""

    __slots__ = ("_data", "_size")

    def __init__(self, size: int) -> None:
        if size < 0:
            raise ValueError(size)
        self._data = bytearray()
        self._size = size

    def fill(self, data: bytes, start: int) -> int:
        """Take what is missing from `data`, from `start` on; where what was taken ends."""
        if not 0 <= start <= len(data):
            raise ValueError(start)
        end = min(len(data), start + self._size - len(self._data))
        self._data += memoryview(data)[start:end]
        return end

    def release(self, start: int, end: int) -> None:
        """Give the memory of these bytes back: nobody will read them."""

    def whole(self) -> bytes | None:
        """All of it, once; None as long as some is missing."""
        return bytes(self._data) if len(self._data) == self._size else None
