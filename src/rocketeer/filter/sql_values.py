"""What an SQL92 expression compares: property bytes, and texts that become numbers as Java makes them."""

from collections.abc import Callable
from typing import TypeAlias

from rocketeer.filter import sql_tree as tree
from rocketeer.filter.java_numbers import java_double, java_int, java_long
from rocketeer.record.properties import last_with_value

Truth: TypeAlias = bool | None
Evaluate: TypeAlias = Callable[[bytes], Truth]
Read: TypeAlias = Callable[[bytes], bytes | None]
Number: TypeAlias = int | float

REPLACEMENT = "\ufffd"
"""What stands for bytes that are no valid text: only values that were decoded can be compared with it."""


class Incomparable(Exception):
    """A value that cannot be compared so: a text that is no number, a truth value with a text."""


def always(value: Truth) -> Evaluate:
    return lambda properties: value


def reader(name: str) -> Read:
    """A property's value as bytes; of several with one name the last counts, an empty one is none."""
    needle = b"\x02" + name.encode() + b"\x01"
    skip = len(needle)

    def read(properties: bytes) -> bytes | None:
        at = properties.rfind(needle)
        if at < 0:
            return None
        start = at + skip
        end = properties.find(b"\x02", start)
        value = properties[start:] if end < 0 else properties[start:end]
        return value or last_with_value(needle, properties[: at + 1])

    return read


def converter(number: tree.Constant) -> Callable[[bytes], Number | None]:
    """How a text becomes a number comparable with a constant; the constant's type decides, as in Java."""
    if number.type == "double":
        return lambda value: java_double(text_of(value))
    full = java_int if number.type == "int" else java_long
    digits_max = 9 if number.type == "int" else 18

    def convert(value: bytes) -> int | None:
        # Nearly all are short and plain: no need to look closer.
        return int(value) if value.isdigit() and len(value) <= digits_max else full(text_of(value))

    return convert


def number_of(node: tree.SqlNode) -> tree.Constant | None:
    """The constant number a node stands for, if it does."""
    if isinstance(node, tree.Negate):
        return negated(node)
    return node if isinstance(node, tree.Constant) and node.type in ("int", "long", "double") else None


def negated(node: tree.Negate) -> tree.Constant | None:
    number = number_of(node.operand)
    if number is None:
        return None
    assert isinstance(number.value, int | float)
    return tree.Constant(number.type, -number.value)


def constant_of(number: Number) -> tree.Constant:
    if isinstance(number, float):
        return tree.Constant("double", number)
    return tree.Constant("int" if -(1 << 31) <= number < 1 << 31 else "long", number)


def widened(value: Number, other: Number) -> Number:
    """The value as a double if the other one is a double."""
    return float(value) if isinstance(other, float) else value


def is_true(value: bytes) -> bool:
    return value.lower() == b"true"


def text_of(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")
