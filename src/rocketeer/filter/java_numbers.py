"""Texts as numbers the way Java reads them: what a property's value is when compared with a number.

Each returns None where Java throws NumberFormatException.
"""

import math
import re
from typing import Final

INT_MIN: Final = -(1 << 31)
INT_MAX: Final = (1 << 31) - 1
LONG_MIN: Final = -(1 << 63)
LONG_MAX: Final = (1 << 63) - 1

# \d is every decimal digit of Unicode, as Character.digit has it; beyond the 16-bit plane Java sees surrogates.
_INTEGER: Final = re.compile(r"([+-]?)(\d+)")
_DOUBLE: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?([fFdD]?)")
_HEX: Final = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+([fFdD]?)")
_NAMED: Final = {
    sign + name: float(sign + value)
    for sign in ("", "+", "-")
    for name, value in (("NaN", "nan"), ("Infinity", "inf"))
}
_SPACES: Final = "".join(map(chr, range(0x21)))
_DIGITS_MAX: Final = 19  # of the largest long


def _integer(text: str, low: int, high: int) -> int | None:
    match = _INTEGER.fullmatch(text)
    if match is None or (not text.isascii() and max(text) > "\uffff"):
        return None
    digits = match[2] if len(match[2]) <= _DIGITS_MAX else _without_zeros(match[2])
    if len(digits) > _DIGITS_MAX:
        return None
    value = -int(digits) if match[1] == "-" else int(digits)
    return value if low <= value <= high else None


def _without_zeros(digits: str) -> str:
    for at, digit in enumerate(digits):
        if int(digit):
            return digits[at:]
    return "0"


def java_int(text: str) -> int | None:
    """The number of a text as Java's Integer.valueOf reads it; None if it is none.

    >>> java_int("+07"), java_int("7.0"), java_int("3000000000"), java_int(" 7")
    (7, None, None, None)
    """
    return _integer(text, INT_MIN, INT_MAX)


def java_long(text: str) -> int | None:
    """The number of a text as Java's Long.valueOf reads it; None if it is none."""
    return _integer(text, LONG_MIN, LONG_MAX)


def java_double(text: str) -> float | None:
    """Double.valueOf: spaces around it, a suffix and hexadecimal notation are allowed.

    >>> java_double(" 1e3d "), java_double("0x1p4"), java_double("1_0")
    (1000.0, 16.0, None)
    """
    text = text.strip(_SPACES)
    if (match := _DOUBLE.fullmatch(text)) is not None:
        return float(text[:-1] if match[1] else text)
    if text in _NAMED:
        return _NAMED[text]
    if (match := _HEX.fullmatch(text)) is not None:
        try:
            return float.fromhex(text[:-1] if match[1] else text)
        except OverflowError:
            return -math.inf if text.startswith("-") else math.inf
    return None


def compare_doubles(left: float, right: float) -> int:
    """Double.compareTo: a total order, -0.0 before 0.0, NaN equal to itself and after everything."""
    if left < right:
        return -1
    if left > right:
        return 1
    if left == right and left != 0.0:
        return 0
    return _rank(left) - _rank(right)


def _rank(value: float) -> int:
    """Among values that < and > cannot tell apart, or of which one is NaN."""
    if math.isnan(value):
        return 2
    return 0 if value == 0.0 and math.copysign(1.0, value) < 0 else 1
