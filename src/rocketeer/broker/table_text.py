"""The text of a table that may be large: its pieces as they are at one moment, put together in steps.

A table of a hundred thousand topics has tens of megabytes: one join of them would keep everybody waiting.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Final, NamedTuple, TypeVar

from rocketeer.errors import FrameTooLarge
from rocketeer.protocol.command import Command
from rocketeer.protocol.frame import FILLED_BYTES, FRAME_BYTES_MAX, PieceBuffer
from rocketeer.remoting.slices import in_slices, run_sliced
from rocketeer.steps import Steps

T = TypeVar("T")

PACKED: Final = "rocketeerPacked"
ZLIB: Final = "zlib"
"""What a slave of ours asks for a table with: compressed, it may be larger than a frame."""

FEW_ENTRIES: Final = 4_096
"""Most entries of a short table."""
STEP_BYTES: Final = 1 << 16
STEP_PIECES: Final = 512


class TableText(NamedTuple):
    """`begin`, the pieces with `between` between two of them, `end`."""

    begin: bytes
    pieces: Sequence[bytes]
    """The pieces in their order; nobody changes the sequence any more."""
    between: bytes
    end: bytes

    def whole(self) -> bytes:
        """All of it at once."""
        return self.begin + self.between.join(self.pieces) + self.end

    def joining(self, bytes_max: int | None = None) -> Steps[list[bytes]]:
        """The same in parts that follow each other; FrameTooLarge when they have more than `bytes_max`."""
        parts = [self.begin]
        some: list[bytes] = []
        size = joined = 0
        for piece in self.pieces:
            some.append(piece)
            size += len(piece)
            if size >= STEP_BYTES or len(some) == STEP_PIECES:
                some.append(b"")  # what follows is a piece: before it, too, there is something between
                parts.append(self.between.join(some))
                joined += size
                if bytes_max is not None and joined > bytes_max:
                    raise FrameTooLarge(size=sum(map(len, self.pieces)), limit=bytes_max)
                some, size = [], 0
                yield
        if not some and len(parts) > 1:  # nothing followed
            parts[-1] = parts[-1].removesuffix(self.between)
        parts.append(self.between.join(some) + self.end)
        return parts


class TableReplies:
    """Runs table replies: a short one at once, large ones one at a time. Each holds megabytes until it is
    written, and who asks for it a hundred times must not have a hundred made."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    def run(self, steps: Steps[T], entries: int) -> T | Awaitable[T]:
        return run_sliced(steps) if entries <= FEW_ENTRIES else self._alone(steps)

    async def _alone(self, steps: Steps[T]) -> T:
        async with self._turn:
            return await in_slices(steps)


def wants_packed(command: Command) -> bool:
    return command.ext.get(PACKED) == ZLIB


def joining_body(text: TableText, *, any_size: bool = False) -> Steps[bytes]:
    """The text as the body of a reply; FrameTooLarge when no frame can carry it, and it may not have `any_size`."""
    parts = yield from text.joining(None if any_size else FRAME_BYTES_MAX)
    size = sum(map(len, parts))
    if size < FILLED_BYTES:
        return b"".join(parts)
    buffer = PieceBuffer(size)  # megabytes of fresh memory are no matter of one step
    for part in parts:
        buffer.fill(part, 0)
        yield
    whole = buffer.whole()
    assert whole is not None
    return whole
