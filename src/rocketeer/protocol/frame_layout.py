"""The layout of a frame, and what may be wrong with one.

Frame, big-endian:

    length i32 | kind u8, header length u24 | header | body
    `-- counts everything behind itself

kind 0 is a JSON header, 1 RocketMQ's binary one.
"""

import struct
from typing import Final, TypeAlias

from rocketeer.errors import BadFrame, FrameTooLarge, ProtocolError

# The whole frame, its length field included; RocketMQ's own default.
FRAME_BYTES_MAX: Final = 16 * 1024 * 1024

JSON: Final = 0
ROCKETMQ: Final = 1

LENGTH = struct.Struct(">i")
PREFIX = struct.Struct(">iI")
assert PREFIX.size == 8, "length, then the kind and header length that it counts"


Frame: TypeAlias = tuple[int, bytes, bytes]
"""One whole frame: kind (JSON or ROCKETMQ), header, body. A plain tuple, because one is made for every request."""


def frame_error(size: int, kind_and_header: int, limit: int) -> ProtocolError | None:
    """What is wrong with a frame that begins with these two numbers; None if nothing is."""
    kind, header_bytes = kind_and_header >> 24, kind_and_header & 0xFFFFFF
    if size + 4 > limit:
        return FrameTooLarge(size=size + 4, limit=limit)
    if size < 4:
        return BadFrame(f"frame announces a length of {size}; it must be at least 4")
    if kind > ROCKETMQ:
        return BadFrame(f"frame announces header serialisation {kind}; 0 (JSON) and 1 (ROCKETMQ) exist")
    if header_bytes > size - 4:
        return BadFrame(f"frame of {size} bytes announces a header of {header_bytes}")
    return None
