"""The two message ids: where a record lies (offset id, from the store), which send it was (UNIQ_KEY, client).

In hexadecimal, 32 digits with IPv4 or 56 with IPv6:
    offset id   store host (8 or 20 bytes) | log offset i64
    UNIQ_KEY    ip (4 or 16 bytes) | pid u16 | instance u32 | ms since the month began u32 | counter u16
"""

import itertools
import os
from datetime import datetime, tzinfo
from ipaddress import ip_address
from itertools import islice
from typing import Final, Protocol

from rocketeer.errors import BadMessageId
from rocketeer.model.offsets import LogOffset
from rocketeer.record.hosts import V4_BYTES, V6_BYTES

_ID_BYTES: Final = (V4_BYTES + 8, V6_BYTES + 8)
_HEX: Final = tuple(f"{byte:02X}" for byte in range(256))
"""Half the time of formatting a number: one id is made for every send."""


class NowSource(Protocol):
    def now_ms(self) -> int: ...


def offset_msg_id(store_host: bytes, log_offset: LogOffset) -> str:
    """The id by which a broker finds a record at once.

    >>> offset_msg_id(bytes.fromhex("7f00000100002a9f"), 123456789)
    '7F00000100002A9F00000000075BCD15'
    """
    return (store_host + log_offset.to_bytes(8, "big")).hex().upper()


def parse_offset_msg_id(text: str) -> tuple[bytes, LogOffset]:
    """The store host and the log offset in an offset id."""
    raw = _id_bytes(text)
    offset = int.from_bytes(raw[-8:], "big", signed=True)
    if offset < 0:
        raise BadMessageId(f"message id {text!r} has the negative log offset {offset}")
    return raw[:-8], LogOffset(offset)


def _id_bytes(text: str) -> bytes:
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        raw = b""
    # fromhex forgives spaces, so the text's length counts too.
    if len(raw) not in _ID_BYTES or len(text) != 2 * len(raw):
        raise BadMessageId(f"message id {text!r} is not 32 (IPv4) or 56 (IPv6) hexadecimal digits")
    return raw


class UniqKeys:
    """Makes UNIQ_KEYs, unique over clients, processes and time. Threads may share it: no lock is needed.

    After a fork both processes would go on alike: the child calls `reset(pid=os.getpid())`.
    The month begins in local time, as in the Java client; `tz` sets another zone.
    """

    def __init__(
        self, ip: str, pid: int, clock: NowSource, *, instance: int | None = None, tz: tzinfo | None = None
    ) -> None:
        self._ip = ip_address(ip).packed
        self._now_ms = clock.now_ms
        self._tz = tz
        self.reset(pid=pid, instance=instance)
        self._month_ms = _month_ms(self._now_ms(), tz)

    def reset(self, *, pid: int, instance: int | None = None) -> None:
        """Start anew as another process. `instance` tells apart what ip and pid do not (containers all have
        pid 1); random if not given."""
        if instance is None:
            instance = int.from_bytes(os.urandom(4), "big")
        self._prefix = f"{self._ip.hex().upper()}{pid & 0xFFFF:04X}{instance & 0xFFFFFFFF:08X}"
        self._counter = itertools.count()  # next() on it is atomic

    def next(self) -> str:
        """A new id, in well under a microsecond."""
        number = next(self._counter)
        return f"{self._until_now()}{_HEX[number >> 8 & 0xFF]}{_HEX[number & 0xFF]}"

    def take(self, count: int) -> list[str]:
        """Return this many new ids of one moment."""
        prefix, counters = self.take_parts(count)
        return [f"{prefix}{_HEX[each >> 8 & 0xFF]}{_HEX[each & 0xFF]}" for each in counters]

    def take_parts(self, count: int) -> tuple[str, list[int]]:
        """`take` in parts: what the ids begin with, and the counters whose low 16 bits end them."""
        return self._until_now(), list(islice(self._counter, count))

    def _until_now(self) -> str:
        """The id's prefix up to the current millisecond, without the counter."""
        now = self._now_ms()
        begin, end = self._month_ms
        if not begin <= now < end:
            # A new month, or a clock set back over a month's start.
            begin, end = self._month_ms = _month_ms(now, self._tz)
        return "%s%08X" % (self._prefix, now - begin)  # noqa: UP031 faster


def decode_uniq_key_time(text: str, now_ms: int, tz: tzinfo | None = None) -> int:
    """The ms a UNIQ_KEY was made, taken to lie within the month before `now_ms` (the id holds no month)."""
    span = int.from_bytes(_id_bytes(text)[-6:-2], "big")
    begin, _ = _month_ms(now_ms, tz)
    if begin + span >= now_ms:
        begin, _ = _month_ms(begin - 1, tz)
    return begin + span


def _month_ms(now_ms: int, tz: tzinfo | None) -> tuple[int, int]:
    """The first ms of the month `now_ms` is in, and of the next."""
    now = datetime.fromtimestamp(now_ms / 1000, tz)
    first = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0, fold=0)
    after = first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)
    return round(first.timestamp() * 1000), round(after.timestamp() * 1000)
