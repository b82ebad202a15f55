"""The third step of an SQL92 expression: tree -> a function of a message's property bytes, compiled once.

A function gets the properties as stored, with \\x02 before the first: then every name stands between \\x02 and \\x01.
It returns True, False or None (unknown), or raises `Incomparable` where RocketMQ's evaluation throws: such a message
does not match, whatever the rest of the expression says.
"""

from rocketeer.filter import sql_tree as tree
from rocketeer.filter.sql_comparing import compare, equal
from rocketeer.filter.sql_values import (
    REPLACEMENT,
    Evaluate,
    Truth,
    always,
    encoded,
    number_of,
    reader,
    text_of,
)
from rocketeer.filter.sql_values import Incomparable as Incomparable


def compile_condition(node: tree.Condition) -> Evaluate:
    """The function of a condition."""
    if isinstance(node, tree.Compare):
        return compare(node)
    if isinstance(node, tree.Equal):
        return equal(node.left, node.right, compile_condition)
    if isinstance(node, tree.Junction):
        terms = [compile_condition(term) for term in node.terms]
        return _all(terms) if node.op == "AND" else _any(terms)
    if isinstance(node, tree.Not):
        return _not(compile_condition(node.operand))
    if isinstance(node, tree.IsNull):
        return _is_null(node.operand)
    if isinstance(node, tree.In):
        return _in(node)
    if isinstance(node, tree.TextTest):
        return _text_test(node)
    if isinstance(node, tree.Cast):
        return _cast(node.operand)
    assert isinstance(node.value, bool | None)
    return always(node.value)


# --- three-valued logic ----------------------------------------------------------------------


def _not(operand: Evaluate) -> Evaluate:
    def evaluate(properties: bytes) -> Truth:
        truth = operand(properties)
        return None if truth is None else not truth

    return evaluate


def _all(terms: list[Evaluate]) -> Evaluate:
    def evaluate(properties: bytes) -> Truth:
        result: Truth = True
        for term in terms:
            truth = term(properties)
            if truth is False:
                return False
            if truth is None:
                result = None
        return result

    return evaluate


def _any(terms: list[Evaluate]) -> Evaluate:
    def evaluate(properties: bytes) -> Truth:
        result: Truth = False
        for term in terms:
            truth = term(properties)
            if truth:
                return True
            if truth is None:
                result = None
        return result

    return evaluate


def _cast(node: tree.Property) -> Evaluate:
    read = reader(node.name)
    return lambda properties: None if read(properties) is None else False


# --- tests of texts --------------------------------------------------------------------------


def _is_null(node: tree.SqlNode) -> Evaluate:
    if isinstance(node, tree.Property):
        read = reader(node.name)
        return lambda properties: read(properties) is None
    if isinstance(node, tree.Negate):
        return always(number_of(node) is None)
    if isinstance(node, tree.Constant):
        return always(node.value is None)
    condition = compile_condition(node)
    return lambda properties: condition(properties) is None


def _in(node: tree.In) -> Evaluate:
    read = reader(node.operand.name)
    negated = node.negated
    if any(REPLACEMENT in value for value in node.values):
        texts = frozenset(node.values)

        def evaluate_text(properties: bytes) -> Truth:
            value = read(properties)
            return None if value is None else (text_of(value) in texts) is not negated

        return evaluate_text
    values = frozenset(encoded(value) for value in node.values)

    def evaluate(properties: bytes) -> Truth:
        value = read(properties)
        return None if value is None else (value in values) is not negated

    return evaluate


def _text_test(node: tree.TextTest) -> Evaluate:
    if not node.search:
        return always(False)
    test = {"CONTAINS": str.__contains__, "STARTSWITH": str.startswith, "ENDSWITH": str.endswith}[node.op]
    search, negated, operand = node.search, node.negated, node.operand
    if isinstance(operand, tree.Property):
        read = reader(operand.name)

        def evaluate(properties: bytes) -> Truth:
            value = read(properties)
            return value is not None and test(text_of(value), search) is not negated

        return evaluate
    if isinstance(operand, tree.Constant):
        return always(isinstance(operand.value, str) and test(operand.value, search) is not negated)
    if isinstance(operand, tree.Negate):
        return always(False)
    condition = compile_condition(operand)

    def no_text(properties: bytes) -> Truth:
        condition(properties)  # what throws there throws here
        return False

    return no_text
