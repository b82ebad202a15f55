"""Java's String.hashCode of many keys at once: what an index entry keeps of its key.

    hash("abc") = 'a'*31^2 + 'b'*31 + 'c'   (mod 2^32, UTF-16 units)

All keys are laid end to end; unit i gets the weight 31^-(i+1) (31 is odd, so it has an inverse mod 2^32). The
sum over a key that ends before unit e, times 31^e, is its hash: one pass, whatever the keys' lengths.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint32]

_UNITS_MAX = 1 << 16  # longer runs of keys are cut in pieces, so the tables stay small


def _powers(base: int) -> Hashes:
    table = np.full(_UNITS_MAX + 2, base, np.uint32)
    table[0] = 1
    return np.cumprod(table, dtype=np.uint32)


_POWER = _powers(31)
_WEIGHT = _powers(pow(31, -1, 1 << 32))[1:]


def hash_keys(keys: Sequence[str], prefix_hashes: "Hashes | np.uint32") -> Hashes:
    """hashCode of prefix + key for each key, given the hashCode of its prefix; as unsigned numbers."""
    if not keys:
        return np.empty(0, np.uint32)
    raw = "".join(keys).encode("utf-16-le", "surrogatepass")
    if len(raw) > 2 * _UNITS_MAX:
        return _hash_in_pieces(keys, prefix_hashes)
    lengths = _lengths(keys)
    ends = np.cumsum(lengths)
    if 2 * int(ends[-1]) != len(raw):  # characters beyond 16 bits are two units in Java
        lengths = np.fromiter(map(_java_length, keys), np.int64, len(keys))
        ends = np.cumsum(lengths)
    units = np.frombuffer(raw, "<u2")
    weighted = np.multiply(units, _WEIGHT[: len(units)], dtype=np.uint32)
    hashes: Hashes
    if lengths.all():
        hashes = np.add.reduceat(weighted, ends - lengths, dtype=np.uint32)
    else:  # reduceat has no empty sums
        hashes = np.zeros(len(keys), np.uint32)
        some = lengths > 0
        if some.any():
            hashes[some] = np.add.reduceat(weighted, (ends - lengths)[some], dtype=np.uint32)
    hashes *= _POWER[ends]
    hashes += prefix_hashes * _POWER[lengths]
    return hashes


def _lengths(keys: Sequence[str]) -> NDArray[np.int64]:
    try:
        return np.frombuffer(bytes(map(len, keys)), np.uint8).astype(np.int64)  # twice as fast as the other
    except ValueError:  # a key of 256 characters or more
        return np.fromiter(map(len, keys), np.int64, len(keys))


def _java_length(key: str) -> int:
    return len(key.encode("utf-16-le", "surrogatepass")) // 2


def _hash_in_pieces(keys: Sequence[str], prefix_hashes: "Hashes | np.uint32") -> Hashes:
    prefixes = np.broadcast_to(np.asarray(prefix_hashes, np.uint32), (len(keys),))
    if len(keys) == 1:
        return np.array([_hash_long(keys[0], int(prefixes[0]))], np.uint32)
    half = len(keys) // 2
    return np.concatenate((hash_keys(keys[:half], prefixes[:half]), hash_keys(keys[half:], prefixes[half:])))


def _hash_long(key: str, start: int) -> int:
    for at in range(0, len(key), _UNITS_MAX // 2):  # a character has two units at most
        start = int(hash_keys([key[at : at + _UNITS_MAX // 2]], np.uint32(start))[0])
    return start


def positive(hashes: Hashes) -> NDArray[np.int32]:
    """Math.abs as Java has it, with its one negative answer (for Integer.MIN_VALUE) made 0."""
    signed = np.abs(hashes.view(np.int32))
    signed[signed < 0] = 0
    return signed
