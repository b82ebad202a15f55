"""The record of a run: changes of files by the broker, and what its clients did, in one order.

    total u32 | kind u8 | flag u8 | path bytes u16 | inode u64 | a i64 | b i64 | path | data        little-endian

Why the order can be trusted. Both sides append whole records to one file (O_APPEND), so the records have one order.

- A change of a file is noted after it was made, by the thread that made it, before that thread goes on. A sync is
  noted before it is asked for (SYNC_BEGIN) and after it came back (SYNC_END). So if the program made a change and
  then, by its own reasoning, asked for a sync that should cover it, the change stands before that SYNC_BEGIN.
- A client notes a request before it sends it (SENT) and an answer after it received it (ANSWERED). What the broker did
  before it answered, on purpose, stands before ANSWERED; what a request causes stands behind its SENT.

Hence, cutting the record at any point: a promise counts only if all that the broker did for it is in the part before
the cut, so nothing is demanded that a correct broker has not brought to disk (no false alarm); and a message is
allowed as soon as its SENT is there, which is before its first byte can be. A change made and not yet noted at the cut
is left out: it was not synced by anything noted, so a disk may have lost it.

The price: an answer counts a little late. A broker that answers too early is caught only in that window, so the shim
makes syncs of the log slow, which makes it wide.
"""

import json
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

HEAD = struct.Struct("<IBBHQqq")
assert HEAD.size == 32, "as in shim.c"


class Kind(IntEnum):
    """1 to 12 as in shim.c; the load driver writes the rest."""

    OPEN = 1
    WRITE = 2
    TRUNCATE = 3
    SYNC_BEGIN = 4
    SYNC_END = 5
    RENAME = 6
    UNLINK = 7
    LINK = 8
    MKDIR = 9
    RMDIR = 10
    MAPPED = 11
    START = 12
    POWER_FAILED = 31
    SENT = 32
    ANSWERED = 33


CREATES, TRUNCATES = 1, 2  # flags of OPEN
RANGE, ALL, FAILED = 1, 2, 16  # flags of SYNC_BEGIN and SYNC_END


@dataclass(frozen=True, slots=True)
class Op:
    """One record; what `a` and `b` are depends on the kind (offset and length, new size, range)."""

    kind: Kind
    flag: int
    path: str
    inode: int
    a: int
    b: int
    data: bytes

    @property
    def fields(self) -> dict[str, Any]:
        """What a client noted."""
        found: dict[str, Any] = json.loads(self.data)
        return found


def read_trace(path: Path) -> list[Op]:
    """All whole records; the process may have been killed while it wrote the last one."""
    return list(_records(path.read_bytes()))


def _records(raw: bytes) -> Iterator[Op]:
    at = 0
    while at + HEAD.size <= len(raw):
        total, kind, flag, path_bytes, inode, a, b = HEAD.unpack_from(raw, at)
        if at + total > len(raw):
            return
        start = at + HEAD.size
        path = raw[start : start + path_bytes].decode()
        yield Op(Kind(kind), flag, path, inode, a, b, raw[start + path_bytes : at + total])
        at += total


class Notes:
    """The load driver's end of the record."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def sent(self, **fields: Any) -> None:
        self._note(Kind.SENT, fields)

    def answered(self, **fields: Any) -> None:
        self._note(Kind.ANSWERED, fields)

    def _note(self, kind: Kind, fields: dict[str, Any]) -> None:
        data = json.dumps(fields).encode()
        self._append(HEAD.pack(HEAD.size + len(data), kind, 0, 0, 0, 0, 0) + data)

    def _append(self, record: bytes) -> None:
        if os.write(self._fd, record) != len(record):
            raise OSError("half a record was written: the record is spoilt")

    def power_failed(self, state: str) -> None:
        """From here on the disk is what the folder `state`, beside the record, holds."""
        path = state.encode()
        self._append(HEAD.pack(HEAD.size + len(path), Kind.POWER_FAILED, 0, len(path), 0, 0, 0) + path)

    def close(self) -> None:
        os.close(self._fd)
