"""Java's String.hashCode: consume queues hold it for tags, index files for keys, so it must be the same."""

from functools import lru_cache


def unsigned_hash(text: str, value: int = 0) -> int:
    """The hash over UTF-16 units, as an unsigned 32-bit number; `value` is that of what stands before the text."""
    if text.isascii():
        for unit in text.encode("ascii"):
            value = (31 * value + unit) & 0xFFFFFFFF
    else:
        units = text.encode("utf-16-le", "surrogatepass")
        for low, high in zip(units[::2], units[1::2], strict=True):
            value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value


def java_hash(text: str) -> int:
    """The hash as Java has it, a signed 32-bit number.

    >>> java_hash("TagA"), java_hash("polygenelubricants")
    (2598919, -2147483648)
    """
    value = unsigned_hash(text)
    return value - (1 << 32) if value & 0x80000000 else value


def index_hash(text: str) -> int:
    """The hash without its sign, as an index keeps it of "topic#key"; the one number that has none becomes 0."""
    value = abs(java_hash(text))
    return 0 if value > 0x7FFFFFFF else value


REMEMBERED_CHARS = 128


def tag_hash(tag: str) -> int:
    """java_hash of a tag; few tags pass many times, and are remembered if they are short."""
    return _remembered(tag) if len(tag) <= REMEMBERED_CHARS else java_hash(tag)


_remembered = lru_cache(maxsize=1024)(java_hash)
