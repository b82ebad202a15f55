"""The fixed fields of many records at once, as numpy arrays: for scans of whole log files (audit, Spark)."""

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from rocketeer.compiled import COMPILED
from rocketeer.errors import BadRecord
from rocketeer.record import columns_plain, layout
from rocketeer.record.flags import HOSTS_V6
from rocketeer.record.layout import BLANK, BLANK_MAGIC, HEADS, HOST_SIZES, MAGIC, Buffer

steps = columns_plain
if COMPILED and not TYPE_CHECKING:
    from rocketeer.record import _columns as steps

step_through = steps.step_through

OffsetArray: TypeAlias = NDArray[np.int64]


_KINDS: Final = {"i": ">i4", "q": ">i8"}


def _dtype(born_host_bytes: int, store_host_bytes: int) -> np.dtype[Any]:
    hosts = {"born_host": f"V{born_host_bytes}", "store_host": f"V{store_host_bytes}"}
    return np.dtype([(name, hosts.get(name) or _KINDS[kind]) for name, kind in layout.FIELDS])


_FIELDS_BY_HOSTS: Final = tuple(_dtype(*sizes) for sizes in HOST_SIZES)
FIELDS: Final = _FIELDS_BY_HOSTS[0]
assert [kind.itemsize for kind in _FIELDS_BY_HOSTS] == [head.size for head in HEADS]
START: Final = np.dtype([(name, FIELDS[name]) for name in FIELDS.names or () if name in ("size", "magic")])
"""How every record begins, a blank one too."""
assert START.itemsize == BLANK.size, "nothing stands between the two"
_SHIFTED: Final = ("store_ms", "reconsume_times", "prepared_offset", "body_bytes")


def record_offsets(buf: Buffer, start: int = 0, end: int | None = None) -> OffsetArray:
    """Where records begin in buf[start:end], walking by their sizes to the first blank or unwritten place."""
    end = len(buf) if end is None else min(end, len(buf))
    found, at = step_through(buf, start, end)
    if end - at >= BLANK.size:
        size, magic = BLANK.unpack_from(buf, at)
        if magic == MAGIC:
            raise BadRecord(at=at, reason=f"size is {size}, with {end - at} bytes left")
        if magic != BLANK_MAGIC and not size == magic == 0:
            raise BadRecord(at=at, reason=f"magic is {magic & 0xFFFFFFFF:#010x}")
    return np.frombuffer(found, dtype=np.int64)


def fixed_fields(buf: Buffer, offsets: OffsetArray) -> NDArray[Any]:
    """The head of each record at `offsets`, one row each (`FIELDS`, big-endian). A copy: `buf` may go away.

    IPv6 hosts do not fit in a row: they are left zero, other fields are right. `body_at` finds the bodies.
    """
    data = np.frombuffer(buf, dtype=np.uint8)
    rows = _gather(data, offsets, FIELDS)
    hosts = (rows["sys_flag"] & HOSTS_V6) >> 4
    if hosts.any():
        for bits, kind in enumerate(_FIELDS_BY_HOSTS[1:], start=1):
            wide = hosts == bits
            source = _gather(data, offsets[wide], kind)
            for name in _SHIFTED:
                rows[name][wide] = source[name]
            for bit, name in ((1, "born_host"), (2, "store_host")):
                rows[name][wide] = np.zeros(1, "V8") if bits & bit else source[name]
    return rows


def body_at(rows: NDArray[Any], offsets: OffsetArray) -> OffsetArray:
    """Where each record's body begins."""
    heads = np.array([head.size for head in HEADS], dtype=np.int64)
    begins: OffsetArray = offsets + heads[(rows["sys_flag"] & HOSTS_V6) >> 4]
    return begins


def _gather(data: NDArray[np.uint8], offsets: OffsetArray, kind: np.dtype[Any]) -> NDArray[Any]:
    if not len(offsets):
        return np.empty(0, dtype=kind)
    first, last = int(offsets.min()), int(offsets.max())
    if first < 0 or last + kind.itemsize > len(data):
        raise BadRecord(at=first if first < 0 else last, reason=f"no whole head within {len(data)} bytes")
    return sliding_window_view(data, kind.itemsize)[offsets].view(kind).reshape(-1)
