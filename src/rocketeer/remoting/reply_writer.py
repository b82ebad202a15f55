"""What is written to one peer: replies of a run together, large ones without a copy, and never more than it reads."""

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from rocketeer.protocol.command import Command, encode, encode_head
from rocketeer.protocol.frame import pack_prefix
from rocketeer.remoting.encrypted import EncryptedTransport
from rocketeer.remoting.held_bytes import UNREAD_NOTED_BYTES, UnreadReplies

if TYPE_CHECKING:
    from rocketeer.remoting.streams import Stream

WRITE_BYTES_MAX = 64 << 20
"""A peer that leaves more replies than this unread is cut off."""

GATHER_BYTES_MIN = 16 << 10
GATHER_PIECE_BYTES = 1 << 10
"""From so many bytes on, in pieces that have so many on average, replies are written without being joined first."""

LARGE_BODY_BYTES = 256 << 10
"""A body of this size is not copied once more to stand behind its header."""


class ReplyWriter(asyncio.Protocol, ABC):
    """The writing half of a `Connection`: a part of it, so that no write is a call longer."""

    __slots__ = ("_counts_written", "_run_replies", "_stream", "_transport", "_unread", "_written_bytes")

    def __init__(self, unread: UnreadReplies) -> None:
        self._unread = unread
        self._transport: asyncio.Transport | EncryptedTransport | None = None
        """There is one in every state but NEW and CLOSED."""
        self._stream: Stream | None = None
        """The transport, if it is one of ours."""
        self._counts_written = True
        """Our own transports do it themselves, but do not know what waits to be encrypted."""
        self._run_replies: list[bytes | memoryview] | None = None
        """Those of the run of `Process` that is going on: they are written together when it ends."""
        self._written_bytes = 0

    @abstractmethod
    def close(self, reason: str, *, abort: bool = False) -> None:
        """Close because of what the peer did, with one log line; `abort` drops unsent replies too."""

    @property
    def closed(self) -> bool:
        """Whether it is gone or going; a write may find the peer gone a turn before the transport says so."""
        return self._transport is None or self._transport.is_closing()

    @property
    def unread_bytes(self) -> int:
        """What we wrote and the peer has not taken yet."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    @property
    def taken_bytes(self) -> int:
        """How much of what was written has left, since the connection began."""
        return self._written_bytes - self.unread_bytes if self._stream is None else self._stream.taken_bytes

    def send(self, command: Command) -> None:
        """Send a reply or a push; silently dropped when the peer has gone."""
        if len(command.body) < LARGE_BODY_BYTES:
            self.write(encode(command))
            return
        head = encode_head(command)
        prefix = pack_prefix(command.serialize, len(head), len(command.body))
        self.write_parts([prefix + head, command.body])

    def write(self, data: bytes | memoryview) -> None:
        """Write a whole frame; inside `data_received` it waits for the others of the same run."""
        if self._run_replies is not None:
            self._run_replies.append(data)
            return
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        transport.write(data)
        if self._counts_written:
            self._count_written(len(data))

    def _count_written(self, size: int) -> None:
        self._written_bytes += size
        self.replies_unread(self.unread_bytes)

    def replies_unread(self, unread_bytes: int) -> None:
        """Note how much was written and not taken; close the connection if that is too much."""
        if unread_bytes > WRITE_BYTES_MAX:
            self.close(f"the peer left more than {WRITE_BYTES_MAX} bytes of replies unread", abort=True)
        elif unread_bytes >= UNREAD_NOTED_BYTES:
            self._unread.note(self)

    def _write_all(self, parts: list[bytes | memoryview]) -> None:
        """Write a frame's pieces: small ones joined, large ones as they are, which is cheaper."""
        if len(parts) == 1:
            self.write(parts[0])
            return
        size = sum([len(part) for part in parts])
        if size < max(GATHER_BYTES_MIN, len(parts) * GATHER_PIECE_BYTES):
            self.write(b"".join(parts))
        else:
            transport = self._transport
            if transport is not None and not transport.is_closing():
                transport.writelines(parts)
                if self._counts_written:
                    self._count_written(size)

    def write_parts(self, parts: list[bytes | memoryview]) -> None:
        """Write one frame that is still in pieces (a pull reply: header and slices of the log)."""
        if self._run_replies is not None:
            self._run_replies.extend(parts)
        else:
            self._write_all(parts)
