"""The command: one request or reply, made from a frame and turned back into one."""

import itertools
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from rocketeer.errors import BadFrame, BadHeader
from rocketeer.protocol import binary_header, json_header
from rocketeer.protocol.codes import VERSION
from rocketeer.protocol.frame import JSON, ROCKETMQ, FrameSplitter, pack_frame
from rocketeer.protocol.headers.base import Header, encode_header

FLAG_RESPONSE: Final = 1
FLAG_ONEWAY: Final = 2
OUR_LANGUAGE: Final = "PYTHON"

_opaque = itertools.count(1)


class Command(msgspec.Struct, kw_only=True, gc=False):
    """One request or reply; `ext` holds the typed header's texts, `serialize` how the header is written."""

    code: int
    """What is asked for, or how that ended."""
    opaque: int = 0
    """The number by which a reply finds its request."""
    flag: int = 0
    """Bit 0: a reply; bit 1: no reply is expected."""
    language: str = OUR_LANGUAGE
    """Language of the program that wrote it."""
    version: int = VERSION
    """The number of RocketMQ's release that it speaks as."""
    remark: str | None = None
    """Why it was refused."""
    ext: dict[str, str] = {}
    body: bytes = b""
    """What goes with the header."""
    serialize: int = JSON

    @property
    def is_response(self) -> bool:
        """Whether it is a reply."""
        return self.flag & FLAG_RESPONSE != 0

    @property
    def is_oneway(self) -> bool:
        """Whether no reply is expected."""
        return self.flag & FLAG_ONEWAY != 0


Sign = Callable[[Mapping[str, str], bytes], dict[str, str]]
"""The header's fields with a signature over them and the body."""


def signed(command: Command, sign: Sign) -> Command:
    """The same request, signed; the one given stays as it is, since it may be asked again."""
    return msgspec.structs.replace(command, ext=sign(command.ext, command.body))


def next_opaque() -> int:
    """A number that pairs a request with its reply; it repeats after 2^31 calls."""
    return next(_opaque) & 0x7FFFFFFF


def request(
    code: int, header: Header | Mapping[str, str] | None = None, body: bytes = b"", *, oneway: bool = False
) -> Command:
    """A new request with the next opaque."""
    flag = FLAG_ONEWAY if oneway else 0
    return Command(code=int(code), opaque=next_opaque(), flag=flag, ext=_texts(header), body=body)


def reply(
    to: Command,
    code: int = 0,
    remark: str | None = None,
    ext: Header | Mapping[str, str] | None = None,
    body: bytes = b"",
) -> Command:
    """The answer to a request: its opaque and its serialisation."""
    return Command(
        code=int(code),
        opaque=to.opaque,
        flag=FLAG_RESPONSE,
        remark=remark,
        ext=_texts(ext),
        body=body,
        serialize=to.serialize,
    )


def _texts(header: Header | Mapping[str, str] | None) -> dict[str, str]:
    if header is None:
        return {}
    return encode_header(header) if isinstance(header, Header) else dict(header)


def decode_frame(serialize: int, header: bytes, body: bytes) -> Command:
    """The command of a frame; raises BadHeader."""
    if serialize == JSON:
        outer = json_header.decode_outer(header)
        language = outer.language
        remark = outer.remark
        return Command(
            code=outer.code,
            opaque=outer.opaque,
            flag=outer.flag,
            language=language if type(language) is str else binary_header.language_name(language),
            version=outer.version,
            remark=remark if remark is None or type(remark) is str else str(remark),
            ext=json_header.decode_ext(outer.ext_raw),
            body=body,
        )
    if serialize == ROCKETMQ:
        fields = binary_header.decode(header)
        return Command(
            code=fields.code,
            opaque=fields.opaque,
            flag=fields.flag,
            language=fields.language,
            version=fields.version,
            remark=fields.remark,
            ext=fields.ext,
            body=body,
            serialize=ROCKETMQ,
        )
    raise BadHeader(f"header serialisation {serialize} is unknown; 0 (JSON) and 1 (ROCKETMQ) exist")


def encode_head(command: Command) -> bytes:
    """The header's bytes, without lengths and body; raises BadHeader for what cannot be written."""
    c = command
    if c.serialize == ROCKETMQ:
        return binary_header.encode(
            binary_header.Fields(c.code, c.language, c.version, c.opaque, c.flag, c.remark, c.ext)
        )
    return json_header.encode(
        json_header.OutgoingHeader(c.code, c.flag, c.language, c.opaque, c.version, c.remark, c.ext)
    )


def encode(command: Command) -> bytes:
    """The whole frame of a command, length included."""
    return pack_frame(command.serialize, encode_head(command), command.body)


def encode_call(command: Command, opaque: int, *, oneway: bool = False) -> bytes:
    """The frame of a request under another opaque, without a copy of it: a command may be asked several times."""
    c = command
    flag = c.flag | FLAG_ONEWAY if oneway else c.flag
    if c.serialize != JSON:
        return encode(msgspec.structs.replace(c, opaque=opaque, flag=flag))
    head = json_header.encode(
        json_header.OutgoingHeader(c.code, flag, c.language, opaque, c.version, c.remark, c.ext)
    )
    return pack_frame(JSON, head, c.body)


def decode(data: bytes) -> Command:
    """The command of exactly one whole frame (recordings, tests, tools)."""
    splitter = FrameSplitter()
    frames = splitter.feed(data)
    if splitter.error is not None:
        raise splitter.error
    if len(frames) != 1 or splitter.pending_bytes:
        raise BadFrame(f"{len(data)} bytes are not exactly one frame")
    return decode_frame(*frames[0])
