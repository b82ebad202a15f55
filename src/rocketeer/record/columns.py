"""The variable parts of many records at once: where bodies, topics and properties lie, and what is in properties.

Works on whole pull replies and mapped log files; `rocketeer.spark` makes Arrow columns of it. No array here has an
entry per byte of a body. What goes through bytes one by one is compiled where a C compiler was at hand.
"""

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rocketeer.errors import BadRecord
from rocketeer.record.layout import TAIL_BYTES
from rocketeer.record.vectorised import OffsetArray, body_at, steps

Bytes = NDArray[np.uint8]

TextColumn: TypeAlias = tuple[bytes, bytes]
"""A column of texts as Arrow has it: ends as 32-bit numbers (a zero first), and all values one behind the other."""


@dataclass(frozen=True, slots=True)
class Spans:
    """Begin and end of one part in each record."""

    begin: OffsetArray
    end: OffsetArray


@dataclass(frozen=True, slots=True)
class PartSpans:
    """Where the variable parts of each record lie in the buffer."""

    body: Spans
    topic: Spans
    properties: Spans


def find_parts(data: Bytes, rows: NDArray[Any], offsets: OffsetArray) -> PartSpans:
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
    return PartSpans(Spans(bodies, body_ends), Spans(topics, topic_ends), Spans(properties, ends))


def gather(data: Bytes, spans: Spans) -> TextColumn:
    """What lies in the spans, as one column."""
    return steps.gather(data, spans.begin, spans.end)


def split_properties(data: Bytes, spans: Spans) -> tuple[bytes, TextColumn, TextColumn]:
    """All properties of all records: where each record's begin (and the last one's end), names, values.

    As `properties.decode_properties` reads them; of two with one name in a record the last counts.
    """
    return steps.split_properties(data, spans.begin, spans.end)


def find_property(data: Bytes, spans: Spans, name: bytes) -> tuple[Spans, int]:
    """The value of one property in each record, and how many records lack it: their spans begin and end at -1."""
    count = len(spans.begin)
    found = Spans(np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64))
    missing = steps.find_property(data, spans.begin, spans.end, name, found.begin, found.end)
    return found, missing


_HEX: Final = np.frombuffer(b"".join(b"%02X" % byte for byte in range(256)), dtype=np.uint16)


def hex_text(raw: NDArray[np.uint8]) -> Bytes:
    """Each row of bytes as upper-case hexadecimal digits, one behind the other."""
    return _HEX[raw].view(np.uint8).reshape(-1)
