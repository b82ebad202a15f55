"""White lists of addresses, in every form that RocketMQ's files have.

*                         everybody
10.0.0.1  ::1             one
192.168.*  10.0.*.7       any value of a part; what is left out behind a last * is any, too
10.0.0.1-20  fe80::1-ff   a range of one part
10.0.0.{1,7}              some values of one part
10.0.0.1,10.0.0.2         any of these
"""

import ipaddress
import re
from collections.abc import Callable
from typing import Final

from rocketeer.errors import ConfigError

AddressTest = Callable[[str], bool]
"""Whether an IP address, as text, is meant."""

_Part = tuple[int, int] | frozenset[int]
_EVERYBODY: Final = frozenset({"*", "*.*.*.*", "*:*:*:*:*:*:*:*"})


def parse_white_list(text: str) -> AddressTest:
    """Read a white list; raises ConfigError for what is no address and no pattern."""
    patterns = [piece.strip() for piece in re.split(r",(?![^{]*})", text.strip())]
    tests = [_one(pattern) for pattern in patterns if pattern]
    return lambda address: any(test(address) for test in tests)


def plain_ip(remote: str) -> str:
    """The address of `ip:port` or `[ip]:port`; an IPv4 address that came by IPv6 is the IPv4 one."""
    host = remote.rpartition(":")[0].strip("[]").partition("%")[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)


def _one(pattern: str) -> AddressTest:
    if pattern in _EVERYBODY:
        return lambda address: True
    version = 6 if ":" in pattern else 4
    parts = _parts_6(pattern) if version == 6 else _parts_4(pattern)

    def test(address: str) -> bool:
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        if parsed.version != version:
            return False
        width = 1 if version == 4 else 2
        packed = parsed.packed
        values = [int.from_bytes(packed[at : at + width]) for at in range(0, len(packed), width)]
        return all(_has(part, value) for part, value in zip(parts, values, strict=True))

    return test


def _has(part: _Part, value: int) -> bool:
    return value in part if isinstance(part, frozenset) else part[0] <= value <= part[1]


def _parts_4(pattern: str) -> list[_Part]:
    texts = pattern.split(".")
    if texts[-1] == "*" and len(texts) < 4:
        texts += ["*"] * (4 - len(texts))
    if len(texts) != 4:
        raise _unusable(pattern, "an IPv4 address has four parts")
    return [_part(text, pattern, base=10, most=255) for text in texts]


def _parts_6(pattern: str) -> list[_Part]:
    if pattern.count("::") > 1:
        raise _unusable(pattern, "`::` may stand once")
    head, gap, tail = pattern.partition("::")
    left = head.split(":") if head else []
    right = tail.split(":") if tail else []
    if not gap and left[-1] == "*" and len(left) < 8:
        left += ["*"] * (8 - len(left))
    missing = 8 - len(left) - len(right)
    if missing < 0 or (not gap and missing):
        raise _unusable(pattern, "an IPv6 address has eight parts")
    # Behind `::` a lone * is a pattern for the rest, not for the last part only.
    filler = "*" if right == ["*"] else "0"
    return [_part(text, pattern, base=16, most=0xFFFF) for text in [*left, *[filler] * missing, *right]]


def _part(text: str, pattern: str, *, base: int, most: int) -> _Part:
    if text == "*":
        return 0, most

    def number(digits: str) -> int:
        try:
            value = int(digits, base) if digits.isalnum() else -1
        except ValueError:
            value = -1
        if not 0 <= value <= most:
            raise _unusable(pattern, f"{digits!r} is no part of an address")
        return value

    if text.startswith("{") and text.endswith("}"):
        return frozenset(number(each.strip()) for each in text[1:-1].split(","))
    low, dash, high = text.partition("-")
    if not dash:
        return number(low), number(low)
    bounds = number(low), number(high)
    if bounds[0] > bounds[1]:
        raise _unusable(pattern, f"the range {text} is empty")
    return bounds


def _unusable(pattern: str, why: str) -> ConfigError:
    return ConfigError(f"the address pattern {pattern!r} cannot be used: {why}")
