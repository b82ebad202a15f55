"""A parsed SQL92 expression: the nodes, and RocketMQ's rules on what may be combined with what.

The functions make nodes and refuse what RocketMQ's parser refuses; `sql_parser` calls them, `sql_compile` reads the
nodes. Types are known before any message is seen: a property is text or missing, everything else is constant or
three-valued (True, False, None for unknown).
"""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from rocketeer.filter.java_numbers import INT_MAX, LONG_MAX

DEPTH_MAX: Final = 150
"""Deepest nesting of operators within operators; parentheses, and terms side by side, do not count."""

ConstantType: TypeAlias = Literal["int", "long", "double", "string", "bool", "null"]
CompareOp: TypeAlias = Literal["<", "<=", ">", ">="]
TextOp: TypeAlias = Literal["CONTAINS", "STARTSWITH", "ENDSWITH"]


@dataclass(frozen=True, slots=True)
class Constant:
    type: ConstantType
    value: str | int | float | bool | None
    depth: int = 0

    def __str__(self) -> str:
        if self.value is None:
            return "NULL"
        if isinstance(self.value, str):
            return "'" + self.value.replace("'", "''") + "'"
        if isinstance(self.value, bool):
            return str(self.value).upper()
        return repr(self.value)


@dataclass(frozen=True, slots=True)
class Property:
    name: str
    depth: int = 0

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Negate:
    """A minus sign: a number's opposite, unknown for everything else."""

    operand: "SqlNode"
    depth: int

    def __str__(self) -> str:
        return f"-{self.operand}" if self.operand.depth == 0 else f"-({self.operand})"


@dataclass(frozen=True, slots=True)
class Cast:
    """A property alone where a condition is wanted: never true, because a property is text."""

    operand: Property
    depth: int = 1

    def __str__(self) -> str:
        return f"NOT (NOT {self.operand})"  # what makes a condition of it anywhere, not only at the top


@dataclass(frozen=True, slots=True)
class Not:
    operand: "Condition"
    depth: int

    def __str__(self) -> str:
        return f"NOT ({self.operand})"


@dataclass(frozen=True, slots=True)
class Junction:
    """AND or OR over any number of terms, looked at in their order."""

    op: Literal["AND", "OR"]
    terms: tuple["Condition", ...]
    depth: int

    def __str__(self) -> str:
        return f" {self.op} ".join(f"({term})" for term in self.terms)


@dataclass(frozen=True, slots=True)
class Compare:
    op: CompareOp
    left: "SqlNode"
    right: "SqlNode"
    depth: int

    def __str__(self) -> str:
        return f"{_operand(self.left)} {self.op} {_operand(self.right)}"


@dataclass(frozen=True, slots=True)
class Equal:
    """Two missing values are equal; a missing one equals no other: unknown on the left, false on the right."""

    left: "SqlNode"
    right: "SqlNode"
    depth: int

    def __str__(self) -> str:
        return f"{_operand(self.left)} = {_operand(self.right)}"


@dataclass(frozen=True, slots=True)
class IsNull:
    operand: "SqlNode"
    depth: int

    def __str__(self) -> str:
        return f"{_operand(self.operand)} IS NULL"


@dataclass(frozen=True, slots=True)
class In:
    operand: Property
    values: tuple[str, ...]
    negated: bool
    depth: int = 1

    def __str__(self) -> str:
        values = ", ".join(str(Constant("string", value)) for value in self.values)
        return f"{self.operand} {'NOT ' if self.negated else ''}IN ({values})"


@dataclass(frozen=True, slots=True)
class TextTest:
    """RocketMQ 5's tests of a text: false, also when negated, for an empty search or what is no text."""

    op: TextOp
    operand: "SqlNode"
    search: str
    negated: bool
    depth: int

    def __str__(self) -> str:
        search = Constant("string", self.search)
        return f"{_operand(self.operand)} {'NOT ' if self.negated else ''}{self.op} {search}"


Condition: TypeAlias = Constant | Cast | Not | Junction | Compare | Equal | IsNull | In | TextTest
"""What has a truth value; of constants only TRUE, FALSE and NULL."""

SqlNode: TypeAlias = Condition | Property | Negate


def _operand(node: SqlNode) -> str:
    return str(node) if node.depth == 0 or isinstance(node, Negate) else f"({node})"


def count_terms(node: SqlNode) -> int:
    """How many nodes an evaluation may have to look at; the values of an IN are looked up in one go."""
    if isinstance(node, Junction):
        return 1 + sum(map(count_terms, node.terms))
    if isinstance(node, Compare | Equal):
        return 1 + count_terms(node.left) + count_terms(node.right)
    if isinstance(node, Not | Negate | IsNull | TextTest | Cast | In):
        return 1 + count_terms(node.operand)
    return 1


class InvalidOperands(ValueError):
    """Why two nodes cannot be combined; the parser adds the position."""


def integer(digits: str) -> Constant:
    # Of texts with thousands of digits only the length matters.
    value = int(digits) if len(digits) <= 19 else LONG_MAX + 1
    if value > LONG_MAX:
        raise InvalidOperands(f"{digits[:24]} does not fit into 64 bits")
    return Constant("int" if value <= INT_MAX else "long", value)


def floating(text: str) -> Constant:
    value = float(text)
    if value == float("inf"):
        raise InvalidOperands(f"{text[:24]} is larger than a double can be")
    if value == 0.0:
        raise InvalidOperands(f"{text[:24]} is smaller than a double above zero can be (write 0 for zero)")
    return Constant("double", value)


def negate(node: SqlNode) -> SqlNode:
    if isinstance(node, Negate) and isinstance(node.operand, Negate):
        return node.operand  # three minus signs are one: a long row of them stays flat
    return Negate(node, _deeper(node))


def condition(node: SqlNode) -> Condition:
    """The node where a truth value is wanted."""
    if isinstance(node, Property):
        return Cast(node)
    if isinstance(node, Negate) or (isinstance(node, Constant) and node.type not in ("bool", "null")):
        raise InvalidOperands(f"{_short(node)} is not a condition")
    return node


def negation(node: SqlNode) -> Condition:
    operand = condition(node)
    return operand.operand if isinstance(operand, Not) else Not(operand, _deeper(operand))


def junction(op: Literal["AND", "OR"], nodes: list[SqlNode]) -> Condition:
    terms: list[Condition] = []
    for node in nodes:
        term = condition(node)
        if isinstance(term, Junction) and term.op == op:
            terms += term.terms
        else:
            terms.append(term)
    return Junction(op, tuple(terms), _deeper(*terms))


def compare(op: CompareOp, left: SqlNode, right: SqlNode) -> Condition:
    for node in (left, right):
        number = isinstance(node, Constant) and node.type in ("int", "long", "double")
        if not number and not isinstance(node, Property | Negate):
            raise InvalidOperands(f"{_short(node)} cannot be compared by {op}")
    return Compare(op, left, right, _deeper(left, right))


def equal(left: SqlNode, right: SqlNode) -> Condition:
    for node in (left, right):
        if isinstance(node, Constant) and node.type == "null":
            raise InvalidOperands("NULL cannot be compared (write IS NULL)")
    if (
        isinstance(left, Constant)
        and left.type == "bool"
        and isinstance(right, Constant)
        and right.type != "bool"
    ):
        raise InvalidOperands(f"{left} cannot be compared with {_short(right)}")
    return Equal(left, right, _deeper(left, right))


def is_null(node: SqlNode) -> Condition:
    return IsNull(node, _deeper(node))


def between(node: SqlNode, low: SqlNode, high: SqlNode, *, negated: bool) -> Condition:
    if negated:
        return junction("OR", [compare("<", node, low), compare(">", node, high)])
    if isinstance(low, Constant) and isinstance(high, Constant) and _is_above(low, high):
        raise InvalidOperands(f"the lower bound {_short(low)} is above the upper bound {_short(high)}")
    return junction("AND", [compare(">=", node, low), compare("<=", node, high)])


def _is_above(low: Constant, high: Constant) -> bool:
    """Whether one number is above another; other constants are refused by the comparison itself."""
    return (
        isinstance(low.value, int | float) and isinstance(high.value, int | float) and low.value > high.value
    )


def one_of(node: SqlNode, values: list[str], *, negated: bool) -> Condition:
    if not isinstance(node, Property):
        raise InvalidOperands(f"IN wants a property before it, not {_short(node)}")
    return In(node, tuple(dict.fromkeys(values)), negated)


def text_test(op: TextOp, node: SqlNode, search: str, *, negated: bool) -> Condition:
    return TextTest(op, node, search, negated, _deeper(node))


def _deeper(*nodes: SqlNode) -> int:
    depth = 1 + max(node.depth for node in nodes)
    if depth > DEPTH_MAX:
        raise InvalidOperands(f"operators are nested more than {DEPTH_MAX} deep")
    return depth


def _short(node: SqlNode) -> str:
    text = str(node)
    return text if len(text) <= 40 else text[:40] + "..."
