"""Columns of many records, in plain Python: the twins of `_columns.pyx`, for machines without a C compiler."""

import sys
from array import array
from typing import Any

from rocketeer.record.layout import BLANK, HEAD, MAGIC, TAIL_BYTES, Buffer


def step_through(buf: Buffer, start: int, end: int) -> tuple[bytes, int]:
    """Where records begin from `start` on, as 64-bit numbers; and the first place that is no whole record."""
    end = min(end, len(buf))
    found = array("q")
    at = start
    while end - at >= BLANK.size:
        size, magic = BLANK.unpack_from(buf, at)
        if magic != MAGIC or size < HEAD.size + TAIL_BYTES or size > end - at:
            break
        found.append(at)
        at += size
    return found.tobytes(), at


def gather(data: Any, begin: Any, end: Any) -> tuple[bytes, bytes]:
    """Arrays of where spans begin and end in; a column of what lies in them out."""
    view = memoryview(data)
    spans = list(zip(begin.tolist(), end.tolist(), strict=True))
    for number, (first, stop) in enumerate(spans):
        if not 0 <= first <= stop <= len(view):
            raise ValueError(f"span {number} is [{first}, {stop}) in {len(view)} bytes")
    return _column([view[first:stop] for first, stop in spans])


def find_property(data: Any, begin: Any, end: Any, name: bytes, value_begin: Any, value_end: Any) -> int:
    """Write where the values of one property are, -1 for none; returns how many records have none."""
    missing = 0
    for number, (first, stop) in enumerate(zip(begin.tolist(), end.tolist(), strict=True)):
        value_begin[number] = value_end[number] = -1
        for found, value_first, value_stop in _pieces(bytes(data[first:stop])):
            if found == name:
                value_begin[number], value_end[number] = first + value_first, first + value_stop
        missing += int(value_begin[number] < 0)
    return missing


def split_properties(
    data: Any, begin: Any, end: Any
) -> tuple[bytes, tuple[bytes, bytes], tuple[bytes, bytes]]:
    """Where each record's properties begin among all, then all names and all values as columns."""
    starts, names, values = array("i", [0]), list[bytes](), list[bytes]()
    for first, stop in zip(begin.tolist(), end.tolist(), strict=True):
        text = bytes(data[first:stop])
        pieces = [(name, text[value_first:value_stop]) for name, value_first, value_stop in _pieces(text)]
        last = {name: number for number, (name, _) in enumerate(pieces)}
        kept = [piece for number, piece in enumerate(pieces) if last[piece[0]] == number]
        names += [name for name, _ in kept]
        values += [value for _, value in kept]
        starts.append(len(names))
    return starts.tobytes(), _column(names), _column(values)


def _pieces(text: bytes) -> list[tuple[bytes, int, int]]:
    """The well-formed properties: a name and a value, neither empty; \\x01 in a value belongs to it."""
    found = []
    at = 0
    for piece in text.split(b"\x02"):
        name, _, value = piece.partition(b"\x01")
        if name and value:
            found.append((name, at + len(name) + 1, at + len(piece)))
        at += len(piece) + 1
    return found


def _column(parts: list[Any]) -> tuple[bytes, bytes]:
    ends = array("i", [0])
    total = 0
    for part in parts:
        total += len(part)
        if total > 0x7FFFFFFF:
            raise OverflowError(f"{total} bytes in one column")
        ends.append(total)
    return ends.tobytes(), b"".join(parts)


assert sys.byteorder == "little", "arrays here are as Arrow's are"
