"""Equality and order in SQL92 expressions, by the types of both sides; for `sql_compile`.

A number on one side makes a number of a text on the other, as in Java; which kind, the constant decides.
"""

import operator
from collections.abc import Callable
from typing import Final, TypeAlias

from rocketeer.filter import sql_tree as tree
from rocketeer.filter.java_numbers import compare_doubles, java_double
from rocketeer.filter.sql_values import (
    REPLACEMENT,
    Evaluate,
    Incomparable,
    Number,
    Read,
    Truth,
    always,
    constant_of,
    converter,
    encoded,
    is_true,
    number_of,
    reader,
    text_of,
    widened,
)

Compile: TypeAlias = Callable[[tree.Condition], Evaluate]

_OPERATORS: Final[dict[str, Callable[[Number, Number], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MIRRORED: Final[dict[str, tree.CompareOp]] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


# --- equality --------------------------------------------------------------------------------


def equal(left: tree.SqlNode, right: tree.SqlNode, compile_condition: Compile) -> Evaluate:
    """Compile an equality by the types of both sides; a number on one side makes the other a number."""
    if isinstance(left, tree.Property):
        if isinstance(right, tree.Property):
            return _two_properties(reader(left.name), reader(right.name))
        if isinstance(right, tree.Constant) and isinstance(right.value, str):
            return _property_is_text(reader(left.name), right.value)
        if (number := number_of(right)) is not None:
            return _property_is_number(reader(left.name), number, missing=None)
        if isinstance(right, tree.Negate):  # never a value
            read = reader(left.name)
            return lambda properties: read(properties) is None
        return _property_is_truth(reader(left.name), compile_condition(_as_condition(right)))
    if isinstance(right, tree.Property):
        return _equal_mirrored(left, reader(right.name), compile_condition)
    return _without_properties(_operand(left, compile_condition), _operand(right, compile_condition))


def _two_properties(read_left: Read, read_right: Read) -> Evaluate:
    def evaluate(properties: bytes) -> Truth:
        left, right = read_left(properties), read_right(properties)
        if left is None:
            return True if right is None else None
        return left == right

    return evaluate


def _property_is_text(read: Read, text: str, missing: Truth = None) -> Evaluate:
    wanted = encoded(text)
    if REPLACEMENT in text:  # what was no valid text compares equal to it

        def evaluate_text(properties: bytes) -> Truth:
            value = read(properties)
            return missing if value is None else text_of(value) == text

        return evaluate_text

    def evaluate(properties: bytes) -> Truth:
        value = read(properties)
        return missing if value is None else value == wanted

    return evaluate


def _property_is_number(read: Read, number: tree.Constant, missing: Truth) -> Evaluate:
    convert, wanted = converter(number), number.value

    def evaluate(properties: bytes) -> Truth:
        value = read(properties)
        if value is None:
            return missing
        converted = convert(value)
        if converted is None:
            raise Incomparable
        return converted == wanted

    return evaluate


def _property_is_truth(read: Read, condition: Evaluate) -> Evaluate:
    def evaluate(properties: bytes) -> Truth:
        value, truth = read(properties), condition(properties)
        if value is None:
            return True if truth is None else None
        return truth is not None and (is_true(value)) is truth

    return evaluate


def _equal_mirrored(left: tree.SqlNode, read: Read, compile_condition: Compile) -> Evaluate:
    """The property stands on the right: missing there means false, not unknown."""
    if (number := number_of(left)) is not None:
        return _property_is_number(read, number, missing=False)
    if isinstance(left, tree.Constant) and isinstance(left.value, str):
        return _property_is_text(read, left.value, missing=False)
    if isinstance(left, tree.Negate):
        return lambda properties: True if read(properties) is None else None
    condition = compile_condition(_as_condition(left))

    def evaluate(properties: bytes) -> Truth:
        truth, value = condition(properties), read(properties)
        if truth is None:
            return True if value is None else None
        if value is None:
            return False
        raise Incomparable

    return evaluate


Operand: TypeAlias = Callable[[bytes], str | int | float | bool | None]


def _operand(node: tree.SqlNode, compile_condition: Compile) -> Operand:
    """A value that is no property: constant, or the truth of a condition."""
    if isinstance(node, tree.Negate):
        number = number_of(node)
        value = None if number is None else number.value
        return lambda properties: value
    if isinstance(node, tree.Constant):
        constant = node.value
        return lambda properties: constant
    return compile_condition(_as_condition(node))


def _without_properties(left: Operand, right: Operand) -> Evaluate:
    def evaluate(properties: bytes) -> Truth:
        a, b = left(properties), right(properties)
        if a is None or b is None:
            return True if a is b else None if a is None else False
        return _same(a, b)

    return evaluate


def _same(a: str | int | float | bool, b: str | int | float | bool) -> bool:
    """Two values of which none comes from a message."""
    if isinstance(a, bool):
        if isinstance(b, str):
            raise Incomparable
        return isinstance(b, bool) and a is b
    if isinstance(a, str):
        if isinstance(b, str):
            return a == b
        if isinstance(b, bool):
            return (a.lower() == "true") is b
        return _same_number(a, b)
    if isinstance(b, str):
        return _same_number(b, a)
    return not isinstance(b, bool) and widened(a, b) == widened(b, a)


def _same_number(text: str, number: Number) -> bool:
    converted = converter(constant_of(number))(encoded(text))
    if converted is None:
        raise Incomparable
    return converted == number


# --- order -----------------------------------------------------------------------------------


def compare(node: tree.Compare) -> Evaluate:
    left, right = node.left, node.right
    if isinstance(left, tree.Property) and isinstance(right, tree.Property):
        return _order_of_properties(reader(left.name), reader(right.name), _OPERATORS[node.op])
    if isinstance(left, tree.Property):
        number = number_of(right)
        return always(None) if number is None else _order(reader(left.name), number, node.op)
    if isinstance(right, tree.Property):
        number = number_of(left)
        return always(None) if number is None else _order(reader(right.name), number, _MIRRORED[node.op])
    a, b = number_of(left), number_of(right)
    if a is None or b is None:
        return always(None)
    assert isinstance(a.value, int | float)
    assert isinstance(b.value, int | float)
    return always(_OPERATORS[node.op](widened(a.value, b.value), widened(b.value, a.value)))


def _order(read: Read, number: tree.Constant, op: tree.CompareOp) -> Evaluate:
    convert, holds, bound = converter(number), _OPERATORS[op], number.value
    assert isinstance(bound, int | float)
    above_all = op in (">", ">=")  # NaN comes after every number

    def evaluate(properties: bytes) -> Truth:
        value = read(properties)
        if value is None:
            return None
        converted = convert(value)
        if converted is None:
            raise Incomparable
        return holds(converted, bound) if converted == converted else above_all

    return evaluate


def _order_of_properties(
    read_left: Read, read_right: Read, holds: Callable[[Number, Number], bool]
) -> Evaluate:
    """Compile an order comparison of two properties, both read as doubles."""

    def evaluate(properties: bytes) -> Truth:
        left, right = read_left(properties), read_right(properties)
        if left is None or right is None:
            return None
        a, b = java_double(text_of(left)), java_double(text_of(right))
        if a is None or b is None:
            raise Incomparable
        return holds(compare_doubles(a, b), 0)

    return evaluate


def _as_condition(node: tree.SqlNode) -> tree.Condition:
    assert not isinstance(node, tree.Property | tree.Negate), "the other cases come first"
    return node
