"""RocketMQ's bloom filter, bit for bit: which consumers want a message, in a few bytes beside its queue entry.

Each consumer of filters owns `hashes` bit positions, derived from "group#topic". A message's bits are those of all
consumers that want it; a consumer whose bits are not all set can skip the message without looking at it.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_MASK: Final = (1 << 64) - 1
_C1: Final = 0x87C37B91114253D5
_C2: Final = 0x4CF5AD432745937F


@dataclass(frozen=True, slots=True)
class BloomData:
    """The positions one consumer owns, in a filter of `bits` bits."""

    positions: tuple[int, ...]
    bits: int


class BloomFilter:
    """Sized for a rate of false hits (in percent) and a number of consumers.

    >>> BloomFilter(20, 32).bits, BloomFilter(20, 32).hashes
    (112, 3)
    """

    __slots__ = ("bits", "hashes")

    def __init__(self, error_percent: int, consumers: int) -> None:
        if not 1 <= error_percent < 100:
            raise ValueError(f"an error rate of {error_percent} %: it must be from 1 to 99")
        if consumers < 1:
            raise ValueError(f"{consumers} consumers: at least 1 is expected")
        rate = error_percent / 100.0
        self.hashes = math.ceil(_log(0.5, rate))
        bits = math.ceil(consumers * _log(2, 1 / rate) * _log(2, math.e))
        self.bits = 8 * math.ceil(bits / 8)

    def data(self, text: str) -> BloomData:
        """The positions of a consumer, from "group#topic"."""
        hashed = murmur3_64(text.encode("utf-8", "replace"))
        first, second = _signed32(hashed), _signed32(hashed >> 32)
        positions = []
        for turn in range(1, self.hashes + 1):
            combined = _signed32(first + turn * second)
            positions.append((combined if combined >= 0 else ~combined) % self.bits)
        return BloomData(tuple(positions), self.bits)

    def is_valid(self, data: BloomData | None) -> bool:
        """Whether the positions are of a filter like this one."""
        return data is not None and data.bits == self.bits and len(data.positions) == self.hashes

    def union(self, wanted: Iterable[BloomData]) -> bytes:
        """A message's bits: those of all that want it."""
        mask = 0
        for data in wanted:
            mask |= mask_of(data)
        return mask.to_bytes(self.bits // 8, "little")


def mask_of(data: BloomData) -> int:
    """The positions as an integer; bit 0 of the first byte is position 0."""
    mask = 0
    for position in data.positions:
        mask |= 1 << position
    return mask


def murmur3_64(data: bytes) -> int:
    """The first 64 bits of murmur3 (x64, 128 bits), as Guava's `asLong` gives them, unsigned."""
    h1 = h2 = 0
    whole = len(data) & ~15
    for at in range(0, whole, 16):
        k1 = int.from_bytes(data[at : at + 8], "little")
        k2 = int.from_bytes(data[at + 8 : at + 16], "little")
        h1 ^= _mix_k1(k1)
        h1 = ((_rotl(h1, 27) + h2) * 5 + 0x52DCE729) & _MASK
        h2 ^= _mix_k2(k2)
        h2 = ((_rotl(h2, 31) + h1) * 5 + 0x38495AB5) & _MASK
    tail = data[whole:]
    h2 ^= _mix_k2(int.from_bytes(tail[8:], "little"))
    h1 ^= _mix_k1(int.from_bytes(tail[:8], "little"))
    h1 ^= len(data)
    h2 ^= len(data)
    h1 = (h1 + h2) & _MASK
    h2 = (h2 + h1) & _MASK
    return (_final(h1) + _final(h2)) & _MASK


def _mix_k1(k1: int) -> int:
    return _rotl((k1 * _C1) & _MASK, 31) * _C2 & _MASK


def _mix_k2(k2: int) -> int:
    return _rotl((k2 * _C2) & _MASK, 33) * _C1 & _MASK


def _rotl(value: int, by: int) -> int:
    return ((value << by) | (value >> (64 - by))) & _MASK


def _final(value: int) -> int:
    value ^= value >> 33
    value = value * 0xFF51AFD7ED558CCD & _MASK
    value ^= value >> 33
    value = value * 0xC4CEB9FE1A85EC53 & _MASK
    return value ^ value >> 33


def _signed32(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def _log(base: float, value: float) -> float:
    return math.log(value) / math.log(base)
