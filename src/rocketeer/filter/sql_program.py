"""An SQL92 tree as rows of plain numbers and bytes: what the compiled evaluator (`_scan.pyx`) runs.

The rows stand for the same functions that `sql_compile` makes. What is rare becomes PUNT: a record that gets there is
left to that function.
"""

from enum import IntEnum
from typing import NamedTuple

from rocketeer.filter import sql_tree as tree
from rocketeer.filter.sql_values import number_of


class Op(IntEnum):
    PUNT = 0
    ALWAYS = 1  # `missing` is the truth
    ALL = 2
    ANY = 3
    NOT = 4
    MISSING = 5  # is the property missing?
    CAST = 6
    ONE_OF = 7  # is the property one of `texts`? `flag` negates
    TEXT = 8  # `order` says where: 0 anywhere, 1 at the start, 2 at the end; `flag` negates
    INTEGER = 9  # compare with `number`, by `order`
    DOUBLE = 10


LESS, LESS_OR_EQUAL, GREATER, GREATER_OR_EQUAL, SAME = range(5)
_ORDERS = {"<": LESS, "<=": LESS_OR_EQUAL, ">": GREATER, ">=": GREATER_OR_EQUAL}
_MIRRORED = {LESS: GREATER, LESS_OR_EQUAL: GREATER_OR_EQUAL, GREATER: LESS, GREATER_OR_EQUAL: LESS_OR_EQUAL}
_PLACES = {"CONTAINS": 0, "STARTSWITH": 1, "ENDSWITH": 2}

TRUE, FALSE, UNKNOWN = 1, 0, -1
PROGRAM_NAMES_MAX = 32
"""Most properties that a compiled program can read."""


class ProgramRow(NamedTuple):
    """One node; children are places of rows."""

    op: int
    slot: int = -1
    order: int = 0
    flag: bool = False
    missing: int = UNKNOWN
    number: int = 0
    double: float = 0.0
    low: int = 0
    high: int = 0
    texts: tuple[bytes, ...] = ()
    children: tuple[int, ...] = ()


class Program(NamedTuple):
    """`rows[-1]` is the whole condition; slots are places in `names`."""

    names: tuple[bytes, ...]
    rows: tuple[ProgramRow, ...]


def program_of(condition: tree.Condition) -> Program:
    builder = _Builder()
    builder.add(condition)
    return Program(tuple(name.encode() for name in builder.slots), tuple(builder.rows))


class _Builder:
    def __init__(self) -> None:
        self.slots: dict[str, int] = {}
        self.rows: list[ProgramRow] = []

    def add(self, node: tree.Condition) -> int:
        self.rows.append(self._row(node))
        return len(self.rows) - 1

    def _slot(self, node: tree.Property) -> int:
        return self.slots.setdefault(node.name, len(self.slots))

    def _row(self, node: tree.Condition) -> ProgramRow:
        if isinstance(node, tree.Junction):
            op = Op.ALL if node.op == "AND" else Op.ANY
            return ProgramRow(op, children=tuple(self.add(term) for term in node.terms))
        if isinstance(node, tree.Not):
            return ProgramRow(Op.NOT, children=(self.add(node.operand),))
        if isinstance(node, tree.Compare):
            return self._compare(node)
        if isinstance(node, tree.Equal):
            return self._equal(node)
        if isinstance(node, tree.IsNull) and isinstance(node.operand, tree.Property):
            return ProgramRow(Op.MISSING, self._slot(node.operand))
        if isinstance(node, tree.Cast):
            return ProgramRow(Op.CAST, self._slot(node.operand))
        if isinstance(node, tree.In):
            return self._texts(node.operand, node.values, negated=node.negated)
        if isinstance(node, tree.TextTest) and isinstance(node.operand, tree.Property):
            return self._text_test(node, node.operand)
        if isinstance(node, tree.Constant):
            return ProgramRow(
                Op.ALWAYS, missing=UNKNOWN if node.value is None else TRUE if node.value else FALSE
            )
        return ProgramRow(Op.PUNT)

    def _compare(self, node: tree.Compare) -> ProgramRow:
        order = _ORDERS[node.op]
        if isinstance(node.left, tree.Property) and (number := number_of(node.right)) is not None:
            return self._number(node.left, number, order)
        if isinstance(node.right, tree.Property) and (number := number_of(node.left)) is not None:
            return self._number(node.right, number, _MIRRORED[order])
        return ProgramRow(Op.PUNT)

    def _equal(self, node: tree.Equal) -> ProgramRow:
        for this, other, missing in ((node.left, node.right, UNKNOWN), (node.right, node.left, FALSE)):
            if not isinstance(this, tree.Property) or isinstance(other, tree.Property):
                continue
            if isinstance(other, tree.Constant) and isinstance(other.value, str):
                return self._texts(this, (other.value,), missing=missing)
            if (number := number_of(other)) is not None:
                return self._number(this, number, SAME, missing=missing)
        return ProgramRow(Op.PUNT)

    def _number(
        self, node: tree.Property, number: tree.Constant, order: int, *, missing: int = UNKNOWN
    ) -> ProgramRow:
        if isinstance(number.value, float):
            return ProgramRow(Op.DOUBLE, self._slot(node), order, missing=missing, double=number.value)
        assert isinstance(number.value, int)
        bits = 31 if number.type == "int" else 63
        return ProgramRow(
            Op.INTEGER,
            self._slot(node),
            order,
            missing=missing,
            number=number.value,
            low=-(1 << bits),
            high=(1 << bits) - 1,
        )

    def _texts(
        self, node: tree.Property, values: tuple[str, ...], *, negated: bool = False, missing: int = UNKNOWN
    ) -> ProgramRow:
        if any(_is_odd(value) for value in values):
            return ProgramRow(Op.PUNT)
        texts = tuple(value.encode() for value in values)
        return ProgramRow(Op.ONE_OF, self._slot(node), flag=negated, missing=missing, texts=texts)

    def _text_test(self, node: tree.TextTest, operand: tree.Property) -> ProgramRow:
        if not node.search:
            return ProgramRow(Op.ALWAYS, missing=FALSE)
        if _is_odd(node.search):
            return ProgramRow(Op.PUNT)
        slot = self._slot(operand)
        texts = (node.search.encode(),)
        return ProgramRow(Op.TEXT, slot, _PLACES[node.op], node.negated, FALSE, texts=texts)


def _is_odd(text: str) -> bool:
    """Whether a text may equal one that was not valid, or cannot be written as bytes at all."""
    return "\ufffd" in text or any("\ud800" <= char <= "\udfff" for char in text)
