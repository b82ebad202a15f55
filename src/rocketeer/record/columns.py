"""The variable parts of many records at once: where bodies, topics and properties lie, and the properties' pieces.

Works on whole pull replies and mapped log files with numpy only; `rocketeer.spark` makes Arrow columns of it. No
array here has an entry per byte of a body.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rocketeer.errors import BadRecord
from rocketeer.record.layout import TAIL_BYTES
from rocketeer.record.vectorised import Offsets, body_at

Bytes = NDArray[np.uint8]

_NAME_END: Final = 1
_PIECE_END: Final = 2


@dataclass(frozen=True, slots=True)
class Spans:
    """Begin and end of one part in each record."""

    begin: Offsets
    end: Offsets


@dataclass(frozen=True, slots=True)
class Parts:
    """Where the variable parts of each record lie in the buffer."""

    body: Spans
    topic: Spans
    properties: Spans


def find_parts(data: Bytes, rows: NDArray[Any], offsets: Offsets) -> Parts:
    """Bodies, topics and properties of the records at `offsets`, whose heads are `rows`; raises BadRecord."""
    ends = offsets + rows["size"]
    bodies = body_at(rows, offsets)
    body_ends = bodies + rows["body_bytes"]
    bad = (rows["body_bytes"] < 0) | (body_ends + TAIL_BYTES > ends) | (ends > len(data))
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        raise BadRecord(at=int(offsets[at]), reason=f"size {rows['size'][at]}, body {rows['body_bytes'][at]}")
    topics = body_ends + 1
    topic_ends = topics + data[body_ends]
    properties = topic_ends + 2
    # The length is a signed 16-bit number behind the topic; what it says must be exactly what is left.
    safe = np.minimum(topic_ends, ends - 2)
    lengths = (data[safe].astype(np.int64) << 8) | data[safe + 1]
    bad = (properties > ends) | (properties + lengths != ends)
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        raise BadRecord(at=int(offsets[at]), reason="topic and properties do not fill the record")
    return Parts(Spans(bodies, body_ends), Spans(topics, topic_ends), Spans(properties, ends))


@dataclass(frozen=True, slots=True)
class Pieces:
    """Properties of many records: piece i belongs to record `record[i]`; spans lie in the properties' buffer."""

    record: Offsets
    name: Spans
    value: Spans


def split_pieces(data: Bytes, ends: Offsets) -> Pieces:
    """The well-formed properties in `data`, the records' properties one behind the other, ending at `ends`.

    As `properties.decode_properties` reads them: a piece needs a name and a value; \\x01 in a value belongs to it.
    """
    none = np.empty(0, dtype=np.int64)
    name_ends = np.flatnonzero(data == _NAME_END)
    if not len(name_ends):
        return Pieces(none, Spans(none, none), Spans(none, none))
    # A piece begins where a record does, and behind every mark.
    starts = np.concatenate([[0], ends[:-1]])
    begins_here = np.empty(len(data), dtype=bool)
    begins_here[0] = True
    np.equal(data[:-1], _PIECE_END, out=begins_here[1:])
    begins_here[starts[starts < len(data)]] = True
    begins = np.flatnonzero(begins_here)
    stops = np.append(begins[1:], len(data))
    stops -= data[stops - 1] == _PIECE_END
    records = np.repeat(np.arange(len(ends)), np.diff(np.searchsorted(begins, ends), prepend=0))
    if len(name_ends) == len(begins) and (name_ends > begins).all() and (name_ends + 1 < stops).all():
        return Pieces(records, Spans(begins, name_ends), Spans(name_ends + 1, stops))  # all well-formed
    at = np.searchsorted(name_ends, begins)
    splits = name_ends[np.minimum(at, len(name_ends) - 1)]
    good = (at < len(name_ends)) & (splits > begins) & (splits + 1 < stops)
    begins, splits, stops = begins[good], splits[good], stops[good]
    return Pieces(records[good], Spans(begins, splits), Spans(splits + 1, stops))


def named(data: Bytes, pieces: Pieces, name: bytes) -> Offsets:
    """Which pieces have this name, the last one of each record (that is the one that counts)."""
    length = len(name)
    found = np.flatnonzero(pieces.name.end - pieces.name.begin == length)
    if len(found):
        begins = pieces.name.begin[found]
        same = data[begins] == name[0]
        for at in range(1, length):
            same &= data[begins + at] == name[at]
        found = found[same]
    records = pieces.record[found]
    last = np.ones(len(found), dtype=bool)
    last[:-1] = records[1:] != records[:-1]
    chosen: Offsets = found[last]
    return chosen


_HEX: Final = np.frombuffer(b"".join(b"%02X" % byte for byte in range(256)), dtype=np.uint16)


def hex_text(raw: NDArray[np.uint8]) -> Bytes:
    """Each row of bytes as upper-case hexadecimal digits, one behind the other."""
    return _HEX[raw].view(np.uint8).reshape(-1)
