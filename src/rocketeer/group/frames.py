"""The bytes between members: bytes in, values out. Pure.

    every frame     kind u8 | epoch i32 | offset i64 | size u32, then `size` bytes; big-endian

    kind            offset                          bytes                               who
    HELLO           end of the follower's log       JSON `Hello`                        follower, first
    WELCOME         where to go on                  JSON `Welcome`                      leader, once
    REFUSED         0                               why, as text                        leader, last
    DATA            where the bytes stand           bytes of the log                    leader
    BEAT            up to where all is confirmed    number of the beat i64              leader
    ACK             up to where we have the log     nothing                             follower
    PROMISE         0                               number of the beat i64              follower

A promise says: for one lease from the moment this was sent I stand for no election. Frames of another epoch than the
connection's end it.
"""

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple, TypeVar

import msgspec

from rocketeer.config.group import MEMBERS_MAX
from rocketeer.errors import ReplicationError
from rocketeer.group.epochs import EPOCHS_MAX
from rocketeer.model.offsets import LogOffset

PURPOSE: Final = "group"
"""Purpose of a sign-in to the members' port (`security.peer`)."""
NO_OFFSET: Final = LogOffset(0)
HEADER: Final = Struct(">BiqI")
BEAT_NUMBER: Final = Struct(">q")
assert HEADER.size == 17
PAYLOAD_BYTES_MAX: Final = 1 << 20
"""Largest payload of a frame from a leader; DATA frames have a limit of their own."""
HELLO_BYTES_MAX: Final = 64 << 10
"""Largest payload that a leader takes from a peer it does not know yet: twice what EPOCHS_MAX epochs take."""
NAME_CHARS_MAX: Final = 512
DATA_BYTES_MAX: Final = 1 << 30


class FrameKind(IntEnum):
    HELLO = 1
    WELCOME = 2
    REFUSED = 3
    DATA = 4
    BEAT = 5
    ACK = 6
    PROMISE = 7


_KINDS: Final = frozenset(FrameKind)


class Hello(msgspec.Struct, frozen=True):
    """Who wants to follow, and what it has."""

    group: str
    member: int
    incarnation: str
    epoch: int
    epochs: list[tuple[int, LogOffset]]
    log_end: LogOffset


def check_sizes(hello: Hello) -> None:
    """Raise ReplicationError for a HELLO larger than any member's: it would be kept, logged and searched."""
    if not 0 < hello.member <= MEMBERS_MAX:
        raise ReplicationError(f"a member has a number from 1 to {MEMBERS_MAX}, not {hello.member}")
    if len(hello.epochs) > EPOCHS_MAX:
        raise ReplicationError(f"{len(hello.epochs)} epochs, at most {EPOCHS_MAX} are told")
    if max(len(hello.group), len(hello.incarnation)) > NAME_CHARS_MAX:
        raise ReplicationError(f"a group or an incarnation has at most {NAME_CHARS_MAX} characters")


class Welcome(msgspec.Struct, frozen=True):
    epochs: list[tuple[int, LogOffset]]
    log_begin: LogOffset
    log_end: LogOffset


class GroupFrame(NamedTuple):
    kind: FrameKind
    epoch: int
    offset: LogOffset
    payload: bytes


class LogBytes(NamedTuple):
    """A part of a DATA frame, whole or not; valid until the next read."""

    epoch: int
    offset: LogOffset
    data: memoryview


def frame(kind: FrameKind, epoch: int, offset: LogOffset = NO_OFFSET, payload: bytes = b"") -> bytes:
    return HEADER.pack(kind, epoch, offset, len(payload)) + payload


def data_header(epoch: int, offset: LogOffset, size: int) -> bytes:
    return HEADER.pack(FrameKind.DATA, epoch, offset, size)


T = TypeVar("T", Hello, Welcome)


def decode(payload: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(payload, type=kind)
    except msgspec.MsgspecError as error:
        raise ReplicationError(f"a member says what cannot be understood: {error}") from None


class MemberFrameReader:
    """Feed what came; log bytes come out as they come in, every other frame when it is whole."""

    def __init__(self, *, payload_bytes_max: int = PAYLOAD_BYTES_MAX) -> None:
        self._payload_bytes_max = payload_bytes_max
        self._rest = bytearray()
        self._data: tuple[int, LogOffset, int] | None = (
            None  # of a DATA frame: epoch, next offset, bytes to come
        )

    def feed(self, data: memoryview) -> Iterator[GroupFrame | LogBytes]:
        """In order; ReplicationError when the bytes are no stream of members."""
        at = 0
        while at < len(data):
            if self._data is not None:
                epoch, offset, left = self._data
                piece = data[at : at + left]
                at += len(piece)
                following = LogOffset(offset + len(piece))
                self._data = (epoch, following, left - len(piece)) if len(piece) < left else None
                yield LogBytes(epoch, offset, piece)
                continue
            wanted = self._wanted()
            taken = data[at : at + wanted - len(self._rest)]
            self._rest += taken
            at += len(taken)
            if len(self._rest) < wanted or (wanted == HEADER.size and self._is_more()):
                continue
            kind, epoch, offset, _ = HEADER.unpack_from(self._rest)
            payload = bytes(self._rest[HEADER.size :])
            self._rest.clear()
            if self._data is None:
                yield GroupFrame(FrameKind(kind), epoch, offset, payload)

    def _wanted(self) -> int:
        if len(self._rest) < HEADER.size:
            return HEADER.size
        return HEADER.size + int(HEADER.unpack_from(self._rest)[3])

    def _is_more(self) -> bool:
        """Read a whole header; True while its payload is to come, False for log bytes or no payload."""
        kind, epoch, offset, size = HEADER.unpack_from(self._rest)
        if kind not in _KINDS:
            raise ReplicationError(f"a frame of kind {kind}: no member speaks like this")
        if kind == FrameKind.DATA:
            if not 0 < size <= DATA_BYTES_MAX or offset < 0:
                raise ReplicationError(f"{size} bytes of the log announced at {offset}")
            self._data = (epoch, offset, size)
            return False
        if size > self._payload_bytes_max:
            raise ReplicationError(
                f"a frame of {size} bytes announced, at most {self._payload_bytes_max} are taken"
            )
        return bool(size > 0)
