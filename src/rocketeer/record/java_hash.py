"""Java's String.hashCode: consume queues hold it for tags, index files for keys, so it must be the same."""

from functools import lru_cache


def java_hash(text: str) -> int:
    """The hash over UTF-16 units, as a signed 32-bit number.

    >>> java_hash("TagA"), java_hash("polygenelubricants")
    (2598919, -2147483648)
    """
    value = 0
    if text.isascii():
        for unit in text.encode("ascii"):
            value = (31 * value + unit) & 0xFFFFFFFF
    else:
        units = text.encode("utf-16-le", "surrogatepass")
        for low, high in zip(units[::2], units[1::2], strict=True):
            value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


REMEMBERED_CHARS = 128


def tag_hash(tag: str) -> int:
    """java_hash of a tag; few tags pass many times, and are remembered if they are short."""
    return _remembered(tag) if len(tag) <= REMEMBERED_CHARS else java_hash(tag)


_remembered = lru_cache(maxsize=1024)(java_hash)
