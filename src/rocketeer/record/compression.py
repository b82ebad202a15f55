"""Packed bodies: clients pack before sending and unpack after pulling; the broker stores them as they come.

Output is bounded: a few KB that unpack to gigabytes are refused, not unpacked.
"""

import zlib
from importlib import import_module
from typing import Any, Final

from rocketeer.errors import BodyTooLarge, RocketeerError
from rocketeer.extras import advice
from rocketeer.record.flags import COMPRESSED, COMPRESSION_MASK, Compression

BODY_BYTES_MAX: Final = 64 << 20
LEVEL_DEFAULT: Final = 5


class BadCompression(RocketeerError):
    """A body that is not packed the way its system flag says."""


class BadZstd(Exception):
    """zstandard's own error, whose class is there only if the library is."""


class MissingCompression(RocketeerError):
    """A body packed with a library that is not installed; the text says how to get it."""


def _library(name: str) -> Any:
    """Import lz4 or zstandard; MissingCompression, naming the extra, if it is not installed."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        text = advice(f"a body packed with {name.partition('.')[0]}", error)
        if text is None:
            raise
        raise MissingCompression(text) from None


def compress(body: bytes, kind: Compression = Compression.ZLIB, level: int = LEVEL_DEFAULT) -> bytes:
    """Pack a body; the sender also sets `kind.sys_flag`.

    >>> compress(b"a" * 71).hex()
    '785e4b4ca40a0000c8f01ae8'
    """
    match kind:
        case Compression.ZLIB:
            return zlib.compress(body, level)
        case Compression.LZ4:
            # Java's reader refuses blocks that refer to earlier ones, so they stay unlinked. It knows no
            # levels: all of ours are frames it can read.
            lz4 = _library("lz4.frame")
            packed: bytes = lz4.compress(
                body, block_size=lz4.BLOCKSIZE_MAX4MB, block_linked=False, store_size=False
            )
            return packed
        case Compression.ZSTD:
            squeezed: bytes = _library("zstandard").ZstdCompressor(level=level).compress(body)
            return squeezed


def decompress(body: bytes, sys_flag: int, limit_bytes: int = BODY_BYTES_MAX) -> bytes:
    """The plain body; the same bytes when the flag says they are not packed."""
    if not sys_flag & COMPRESSED:
        return body
    bits = sys_flag & COMPRESSION_MASK
    try:
        match bits:
            case 0 | Compression.ZLIB:
                plain, whole = _zlib(body, limit_bytes)
            case Compression.LZ4:
                plain, whole = _lz4(body, limit_bytes)
            case Compression.ZSTD:
                plain, whole = _zstd(body, limit_bytes)
            case _:
                raise BadCompression(f"compression type {bits >> 8} is unknown (system flag {sys_flag:#x})")
    except (zlib.error, RuntimeError, EOFError, BadZstd) as error:
        kind = Compression(bits or Compression.ZLIB).name.lower()
        raise BadCompression(f"the body of {len(body)} bytes is not valid {kind}: {error}") from error
    if len(plain) > limit_bytes:
        raise BodyTooLarge(f"a packed body of {len(body)} bytes grows over the limit of {limit_bytes} bytes")
    if not whole:
        raise BadCompression(f"the packed body of {len(body)} bytes is cut short")
    return plain


# Each gives what it unpacked, one byte over the limit at most, and whether the end was there.


def _zlib(body: bytes, limit_bytes: int) -> tuple[bytes, bool]:
    unpacker = zlib.decompressobj()
    return unpacker.decompress(body, limit_bytes + 1), unpacker.eof


def _lz4(body: bytes, limit_bytes: int) -> tuple[bytes, bool]:
    unpacker = _library("lz4.frame").LZ4FrameDecompressor()
    plain: bytes = unpacker.decompress(body, limit_bytes + 1)
    return plain, unpacker.eof


def _zstd(body: bytes, limit_bytes: int) -> tuple[bytes, bool]:
    zstandard = _library("zstandard")
    try:
        announced = zstandard.frame_content_size(body)
        if announced <= limit_bytes:
            try:
                return zstandard.ZstdDecompressor().decompress(body, max_output_size=limit_bytes), True
            except zstandard.ZstdError:
                pass  # too large, cut short or wrong: reading it as a stream tells which
        with zstandard.ZstdDecompressor().stream_reader(body) as reader:
            return reader.read(limit_bytes + 1), False
    except zstandard.ZstdError as error:
        raise BadZstd(str(error)) from error
