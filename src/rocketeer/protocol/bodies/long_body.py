"""A body that is written piece by piece: a topic may have 65,535 queues, and an answer an entry for each.

One join of them all, and letting go of so many pieces at once, would be one long step. So pieces are joined by the
hundred while they come, and what is larger than any frame is given up as soon as it is.
"""

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Final

from rocketeer.errors import FrameTooLarge
from rocketeer.protocol.bodies.wire import encode
from rocketeer.protocol.frame import FILLED_BYTES, FRAME_BYTES_MAX, PieceBuffer
from rocketeer.steps import Steps, finish

_PIECES_MAX = 256
_PENDING_BYTES_MAX: Final = 1 << 18
_AT_ONCE: Final = 128
SORTED_MAX: Final = 4_096


class LongBody:
    """`write` every piece, then take it `whole`."""

    __slots__ = ("_joined", "_pending", "_pieces", "_size")

    def __init__(self) -> None:
        self._joined: list[bytes] = []
        self._pieces: list[bytes] = []
        self._pending = self._size = 0

    def write(self, piece: bytes) -> None:
        """Add a piece. Raises FrameTooLarge: nobody could be told all of it."""
        self._pieces.append(piece)
        self._pending += len(piece)
        if len(self._pieces) == _PIECES_MAX or self._pending >= _PENDING_BYTES_MAX:
            self._join()

    def _join(self) -> None:
        joined = b"".join(self._pieces)
        self._pieces.clear()
        self._pending = 0
        self._joined.append(joined)
        self._size += len(joined)
        if self._size > FRAME_BYTES_MAX:
            raise FrameTooLarge(size=self._size, limit=FRAME_BYTES_MAX)

    def whole(self) -> bytes:
        return finish(self.joining())

    def joining(self) -> Steps[bytes]:
        """Return the whole body, joined in steps."""
        self._join()
        if self._size < FILLED_BYTES:
            return b"".join(self._joined)
        buffer = PieceBuffer(self._size)  # megabytes of fresh memory are no matter of one step
        for joined in self._joined:
            buffer.fill(joined, 0)
            yield
        whole = buffer.whole()
        assert whole is not None
        return whole


def writing_values(body: LongBody, values: Iterable[object]) -> Steps[None]:
    """JSON values with commas between them, some a step."""
    comma = b""
    rest: Iterator[object] = iter(values)
    while some := list(islice(rest, _AT_ONCE)):
        body.write(comma + encode(some)[1:-1])
        comma = b","
        yield


def encoding_list(name: str, values: Iterable[object], behind: bytes = b"") -> Steps[bytes]:
    """`{"name":[...]}` in steps: there may be very many values. `behind` stands after the list."""
    body = LongBody()
    body.write(b'{"%b":[' % name.encode())
    yield from writing_values(body, values)
    body.write(b"]%b}" % behind)
    return (yield from body.joining())


def in_order(names: Collection[str]) -> Collection[str]:
    """Sorted, if they are not so many that sorting takes long: nobody relies on it."""
    return sorted(names) if len(names) <= SORTED_MAX else names
