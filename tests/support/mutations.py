"""Frames that are nearly right: recorded requests of every code with fields, bodies, lengths and order changed.

All of it comes from one `random.Random`: the same seed makes the same bytes.
"""

import json
import random
import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

WIRE = Path(__file__).parents[1] / "golden" / "data" / "wire"
NAMESRV_PORT = 9876

NEVER = {25, 318}
"""Requests that change settings: what an administrator may do to others is not what is looked for here."""

NUMBERS = ["0", "-1", "1", "7", "32", "65535", "65536", "2147483647", "2147483648", "-2147483648", "9223372036854775807",
           "-9223372036854775808", "1" * 40, "1e9", "0x10", "+5", "007", "", " ", "NaN", "true", "null"]  # fmt: skip
TEXTS = ["", " ", "*", "null", "a", "a||b", "%RETRY%", "%DLQ%g", "../..", "a/b", "a@b", "TBW102", "SCHEDULE_TOPIC_XXXX",
         "\x00", "\x01", "\x02", "\x01\x02" * 50, "é世界\U0001f600", "'", "a = 1", "a = 1 AND (", "x" * 127, "x" * 128,
         "x" * 255, "x" * 256, "x" * 40_000, "TopicTest", "broker-a", "CG", "DELAY\x013\x02", "KEYS\x01k\x02TAGS\x01t\x02"]  # fmt: skip
_SHORT_TEXTS = [text for text in TEXTS if len(text) < 1_000]
_FIELD_NAMES = [f"f{number}" for number in range(300)]
VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    2**31,
    2**63,
    2**70,
    0.5,
    "",
    "x",
    "x" * 1000,
    [],
    {},
    [[[[]]]],
    {"a": {"b": {}}},
]


class Recorded(NamedTuple):
    """A request as some client sent it."""

    to_namesrv: bool
    header: dict[str, Any]
    body: bytes


@cache
def recorded_requests() -> list[Recorded]:
    """One of each shape."""
    found: dict[tuple[bool, int, tuple[str, ...], bool], Recorded] = {}
    for path in sorted(WIRE.glob("*.jsonl")):
        for line in path.open():
            row = json.loads(line)
            if (
                row.get("dir") not in ("request", "oneway")
                or "body_hex" not in row
                or row["header"]["code"] in NEVER
            ):
                continue
            header, body = row["header"], bytes.fromhex(row["body_hex"])
            to_namesrv = row["port"] == NAMESRV_PORT
            key = to_namesrv, header["code"], tuple(sorted(header.get("extFields") or {})), bool(body)
            found.setdefault(key, Recorded(to_namesrv, header, body))
    return list(found.values())


def pack(header: bytes, body: bytes, kind: int = 0) -> bytes:
    return (
        struct.pack(">iI", 4 + len(header) + len(body), kind << 24 | len(header) & 0xFFFFFF) + header + body
    )


def frame_of(header: dict[str, Any], body: bytes, dice: random.Random, *, wild: bool) -> bytes:
    """In JSON, or now and then in the binary form (of which lengths may lie)."""
    if dice.random() < 0.85:
        return pack(
            json.dumps(header, ensure_ascii=dice.random() < 0.5).encode("utf-8", "surrogatepass"), body
        )
    parts = []
    for name, value in (header.get("extFields") or {}).items():
        key, text = str(name).encode("utf-8", "replace"), str(value).encode("utf-8", "replace")
        parts += struct.pack(">h", len(key) & 0x7FFF), key[: len(key) & 0x7FFF]
        parts += struct.pack(">i", _lie(len(text), dice, wild)), text
    fields = b"".join(parts)
    number = lambda name: _bits(header.get(name), 32)  # noqa: E731
    fixed = struct.pack(">hBhiii", _bits(header.get("code"), 16), dice.randrange(14), 409, number("opaque"), number("flag"), 0)  # fmt: skip
    return pack(fixed + struct.pack(">i", _lie(len(fields), dice, wild)) + fields, body, kind=1)


def _bits(value: object, width: int) -> int:
    number = value if isinstance(value, int) and not isinstance(value, bool) else 0
    return (number + (1 << width - 1)) % (1 << width) - (1 << width - 1)


def _lie(size: int, dice: random.Random, wild: bool) -> int:
    return (
        size
        if not wild or dice.random() < 0.97
        else dice.choice((-1, 0, size + 1, size - 1, 2**31 - 1, -(2**31)))
    )


# --- what is changed -----------------------------------------------------------------------------


def mutated(recorded: Recorded, opaque: int, dice: random.Random, *, wild: bool) -> bytes:
    """One request, with none or some of its parts changed; `wild` ones may be no frames at all, which ends a connection."""
    header = {**recorded.header, "opaque": opaque, "extFields": dict(recorded.header.get("extFields") or {})}
    body = recorded.body
    for _ in range(dice.choice((0, 1, 1, 1, 2, 3, 8))):
        changes = (*_HEADER_CHANGES, _outer) if wild else _HEADER_CHANGES
        change: Callable[[dict[str, Any], random.Random], None] = dice.choice(changes)
        if body and dice.random() < 0.4:
            body = dice.choice(_BODY_CHANGES)(body, dice)
        else:
            change(header, dice)
    data = frame_of(header, body, dice, wild=wild)
    return dice.choice(_FRAME_CHANGES)(data, dice) if wild and dice.random() < 0.1 else data


def _field(header: dict[str, Any], dice: random.Random) -> None:
    ext = header["extFields"]
    if ext:
        ext[dice.choice(list(ext))] = dice.choice(NUMBERS if dice.random() < 0.6 else TEXTS)


def _field_kind(header: dict[str, Any], dice: random.Random) -> None:
    ext = header["extFields"]
    if ext:
        ext[dice.choice(list(ext))] = dice.choice(VALUES)


def _field_gone(header: dict[str, Any], dice: random.Random) -> None:
    ext = header["extFields"]
    if ext:
        del ext[dice.choice(list(ext))]


def _field_more(header: dict[str, Any], dice: random.Random) -> None:
    count = dice.choice((1, 5, 300))
    # Of many fields few are long: a header beyond its limit is refused unread, and one in hundreds shows that.
    texts = TEXTS if count < 300 or dice.random() < 0.02 else _SHORT_TEXTS
    header["extFields"].update(zip(_FIELD_NAMES, dice.choices(texts, k=count), strict=False))


def _code(header: dict[str, Any], dice: random.Random) -> None:
    header["code"] = dice.choice(_codes())
    if header["code"] in NEVER:
        header["code"] = 9999


@cache
def _codes() -> tuple[int, ...]:
    codes = [each.header["code"] for each in recorded_requests()]
    return (*codes, *codes, 0, -1, 9999, 2**31 - 1)


def _flag(header: dict[str, Any], dice: random.Random) -> None:
    header["flag"] = dice.choice((0, 1, 2, 3, -1, 2**31 - 1))


def _outer(header: dict[str, Any], dice: random.Random) -> None:
    header[dice.choice(("version", "language", "remark", "opaque", "serializeTypeCurrentRPC", "extra"))] = (
        dice.choice(VALUES[:12])
    )


def _ext_kind(header: dict[str, Any], dice: random.Random) -> None:
    header["extFields"] = dice.choice(({}, {}, {"": ""}, {"topic": "TopicTest", "queueId": "0"}))


_HEADER_CHANGES = (
    _field,
    _field,
    _field,
    _field,
    _field_kind,
    _field_gone,
    _field_more,
    _code,
    _flag,
    _ext_kind,
)


def _body_json(body: bytes, dice: random.Random) -> bytes:
    """A place in the JSON becomes something else."""
    try:
        tree = json.loads(body)
    except ValueError:
        return _body_bytes(body, dice)
    place, where = tree, []
    while isinstance(place, dict | list) and place and dice.random() < 0.8:
        at = dice.choice(list(place) if isinstance(place, dict) else list(range(len(place))))
        where.append(at)
        place = place[at]
    made = dice.choice((*VALUES, dice.choice(NUMBERS), dice.choice(TEXTS), [place] * 50))
    if not where:
        return json.dumps(made).encode("utf-8", "surrogatepass")
    holder = tree
    for at in where[:-1]:
        holder = holder[at]
    if dice.random() < 0.2:
        del holder[where[-1]]
    else:
        holder[where[-1]] = made
    return json.dumps(tree).encode("utf-8", "surrogatepass")


def _body_bytes(body: bytes, dice: random.Random) -> bytes:
    data = bytearray(body)
    for _ in range(dice.choice((1, 2, 10))):
        data[dice.randrange(len(data))] = dice.randrange(256)
    return bytes(data)


def _body_cut(body: bytes, dice: random.Random) -> bytes:
    return body[: dice.randrange(len(body) + 1)]


def _body_long(body: bytes, dice: random.Random) -> bytes:
    return body * dice.choice((2, 10, 200)) if len(body) < 2_000 else body + body[:100]


def _body_other(body: bytes, dice: random.Random) -> bytes:
    return dice.choice(recorded_requests()).body or b"{}"


def _body_random(body: bytes, dice: random.Random) -> bytes:
    return dice.randbytes(dice.choice((1, 20, 3_000)))


_BODY_CHANGES = (
    _body_json,
    _body_json,
    _body_json,
    _body_bytes,
    _body_cut,
    _body_long,
    _body_other,
    _body_random,
)


def _frame_bytes(data: bytes, dice: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(dice.choice((1, 2, 8))):
        changed[dice.randrange(len(changed))] = dice.randrange(256)
    return bytes(changed)


def _frame_length(data: bytes, dice: random.Random) -> bytes:
    size = len(data) - 4
    return (
        struct.pack(">i", dice.choice((size - 1, size + 1, size + 9, 0, 3, 4, -1, 2**31 - 1, 1 << 20)))
        + data[4:]
    )


def _frame_header_length(data: bytes, dice: random.Random) -> bytes:
    return data[:5] + dice.choice((0, 1, len(data), 0xFFFFFF)).to_bytes(3, "big") + data[8:]


def _frame_kind(data: bytes, dice: random.Random) -> bytes:
    return data[:4] + bytes([dice.choice((1, 2, 9, 255))]) + data[5:]


def _frame_cut(data: bytes, dice: random.Random) -> bytes:
    return data[: dice.randrange(len(data))]


_FRAME_CHANGES = (_frame_bytes, _frame_bytes, _frame_length, _frame_header_length, _frame_kind, _frame_cut)
