"""RocketMQ's own binary command header (serialisation 1), used by clients that switch JSON off.

Big-endian:

    code i16 | language u8 | version i16 | opaque i32 | flag i32
    remark length i32 | remark
    ext length i32 | (name length i16 | name | value length i32 | value) ...
"""

import struct
from typing import NamedTuple

from rocketeer.errors import BadHeader
from rocketeer.protocol.codes import Language

FIXED = struct.Struct(">hBhiii")
assert FIXED.size == 17, "up to and including the remark's length"
INT = struct.Struct(">i")
SHORT = struct.Struct(">h")

_NAMES = {language.value: language.name for language in Language}
_CODES = {language.name: language.value for language in Language}


class Fields(NamedTuple):
    """What a header carries."""

    code: int
    language: str
    version: int
    opaque: int
    flag: int
    remark: str | None
    ext: dict[str, str]


def language_name(value: object) -> str:
    """The name of a language code; anything unheard of is OTHER."""
    return _NAMES.get(value, "OTHER") if isinstance(value, int) else "OTHER"


def decode(header: bytes) -> Fields:
    """The fields of a binary header; raises BadHeader when a length lies or a text is not UTF-8."""
    end = len(header)
    try:
        code, language, version, opaque, flag, remark_bytes = FIXED.unpack_from(header)
        at = FIXED.size + remark_bytes
        if remark_bytes < 0 or at > end:
            raise _bad_length(end, remark_bytes, FIXED.size)
        remark = header[FIXED.size : at].decode()
        (ext_bytes,) = INT.unpack_from(header, at)
        at += INT.size
        if at + ext_bytes != end:
            raise _bad_length(end, ext_bytes, at)
        ext = _decode_ext(header, at, end)
    except struct.error:
        raise BadHeader(f"binary header of {end} bytes ends in the middle of a field") from None
    except UnicodeDecodeError as why:
        raise BadHeader(f"binary header has a text that is not UTF-8: {why.reason}") from None
    return Fields(code, language_name(language), version, opaque, flag, remark or None, ext)


def _decode_ext(header: bytes, at: int, end: int) -> dict[str, str]:
    ext: dict[str, str] = {}
    short, integer = SHORT.unpack_from, INT.unpack_from
    while at < end:
        size = short(header, at)[0]
        start = at + 2
        at = start + size
        if size < 0 or at > end:
            raise _bad_length(end, size, start)
        name = header[start:at].decode()
        size = integer(header, at)[0]
        start = at + 4
        at = start + size
        if size < 0 or at > end:
            raise _bad_length(end, size, start)
        ext[name] = header[start:at].decode()
    return ext


def _bad_length(end: int, size: int, at: int) -> BadHeader:
    return BadHeader(f"binary header of {end} bytes announces a field of {size} bytes at {at}")


def encode(fields: Fields) -> bytes:
    """The binary header; raises BadHeader when a value does not fit its place."""
    try:
        remark = (fields.remark or "").encode()
        parts: list[bytes] = []
        for name, value in fields.ext.items():
            name_bytes = name.encode()
            value_bytes = value.encode()
            parts += (SHORT.pack(len(name_bytes)), name_bytes, INT.pack(len(value_bytes)), value_bytes)
        ext = b"".join(parts)
        language = _CODES.get(fields.language, Language.OTHER)
        head = FIXED.pack(fields.code, language, fields.version, fields.opaque, fields.flag, len(remark))
    except (struct.error, UnicodeError) as why:
        raise BadHeader(f"command with code {fields.code} does not fit a binary header: {why}") from None
    return b"".join((head, remark, INT.pack(len(ext)), ext))
