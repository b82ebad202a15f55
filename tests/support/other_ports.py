"""What is said at the ports that are not for clients, or something like it: slaves, members of a group, HTTP.

All of it comes from one `random.Random`: the same seed makes the same bytes.
"""

import json
import random
import struct
from typing import Any, Final

from rocketeer.group.frames import HEADER, FrameKind
from rocketeer.security.peer import MAGIC
from support.mutations import TEXTS, VALUES

GROUP_ID: Final = b"the-group-itself"
"""Stands for the group's id, which is another one in each run and just as long."""
FIRST_EPOCH: Final = 1

_METHODS = ("GET", "GET", "GET", "GET", "HEAD", "POST", "PUT", "OPTIONS", "get", "G\x00T", "", "X" * 300)
_PATHS = ("/", "/metrics", "/metrics/exporter", "/nothing", "/login", "/topics", "/static/../..", "/metrics?a=%ff",
          "//", "*", "http://x/metrics", "/é", "/%00", "/" + "x" * 5_000, "")  # fmt: skip
_VERSIONS = ("HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/0.9", "HTTP/9.9", "HTTP/1.1.1", "HTTP", "")
_FIELDS = ("Host", "Accept-Encoding", "Content-Length", "Transfer-Encoding", "Connection", "Cookie", "Upgrade",
           "Expect", "Range", "x" * 500, "", "a b")  # fmt: skip
_FIELD_VALUES = ("x", "gzip", "close", "keep-alive", "chunked", "0", "5", "-1", "99999999999999999999", "100-continue",
                 "h2c", "websocket", "bytes=0-1", "v" * 20_000, "\r", "é", "")  # fmt: skip


def _offset(dice: random.Random) -> int:
    return dice.choice((-1, -1, 0, 0, 1, 4096, dice.randrange(1 << 24), dice.randrange(-(1 << 63), 1 << 63)))


def slave_report(dice: random.Random) -> bytes:
    """A hello, an offset, nonsense, the start of a sign-in."""
    report = struct.pack(">q", _offset(dice))
    return dice.choice((report,) * 6 + (MAGIC, dice.randbytes(dice.randrange(1, 64))))


def member_frame(dice: random.Random, *, is_first: bool) -> bytes:
    """A hello first, then what followers say, and now and then what only leaders do."""
    if dice.random() < 0.02:
        return dice.choice((MAGIC, dice.randbytes(dice.randrange(1, 64))))
    kind = (
        FrameKind.HELLO
        if is_first
        else dice.choice((FrameKind.ACK, FrameKind.ACK, FrameKind.PROMISE, *FrameKind))
    )
    payload = b""
    if kind == FrameKind.HELLO:
        payload = _hello(dice)
    elif kind in (FrameKind.PROMISE, FrameKind.BEAT):
        payload = struct.pack(">q", _offset(dice))
    elif kind in (FrameKind.DATA, FrameKind.REFUSED, FrameKind.WELCOME):
        payload = dice.randbytes(dice.choice((0, 1, 8, 300)))
    epoch, offset, number, size = FIRST_EPOCH, _offset(dice) if not is_first else 0, int(kind), len(payload)
    if dice.random() < 0.05:
        epoch = dice.choice((0, -1, 2, 2**31 - 1))
    if dice.random() < 0.02:
        number = dice.randrange(256)
    if dice.random() < 0.02:
        size = dice.choice((0, size + 1, 1 << 16, 1 << 20, 2**32 - 1))
    return HEADER.pack(number, epoch, offset, size) + payload


def _hello(dice: random.Random) -> bytes:
    hello: dict[str, Any] = {
        "group": GROUP_ID.decode(),
        "member": dice.randrange(2, 12),
        "incarnation": "x",
        "epoch": FIRST_EPOCH,
        "epochs": [(FIRST_EPOCH, 0)] * dice.choice((0, 0, 1, 2, 1_001)),
        "log_end": 0,
    }
    if dice.random() < 0.5:
        hello[dice.choice(list(hello))] = dice.choice((*VALUES, *TEXTS, _offset(dice), [(1, _offset(dice))]))
    text = json.dumps(hello).encode("utf-8", "surrogatepass")
    return text[: dice.randrange(len(text))] if dice.random() < 0.05 else text


def http_request(dice: random.Random) -> bytes:
    """One that is right, or wrong in some place."""
    fields = [("Host", "x")]
    for _ in range(dice.choice((0, 0, 1, 3, 120))):
        fields.append((dice.choice(_FIELDS), dice.choice(_FIELD_VALUES)))
    lines = [f"{dice.choice(_METHODS)} {dice.choice(_PATHS)} {dice.choice(_VERSIONS)}"]
    lines += [f"{name}: {value}" for name, value in fields]
    end = dice.choice(("\r\n",) * 8 + ("\n", "\r"))
    body = dice.choice((b"", b"", b"", b"a=1", b"5\r\nhello\r\n0\r\n\r\n", dice.randbytes(300)))
    return (end.join(lines) + end * 2).encode("utf-8", "surrogatepass") + body
