"""SQL92 filters as broker and client use them: an expression in, a yes or no for each message out."""

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from rocketeer.errors import BadSqlExpression as BadSqlExpression
from rocketeer.filter import sql_tree as tree
from rocketeer.filter.sql_compile import compile_condition
from rocketeer.filter.sql_parser import parse_sql
from rocketeer.filter.sql_values import Incomparable, Truth
from rocketeer.model.subscription import SQL92, Subscription

_REMEMBERED_CHARS_MAX: Final = 4096
"""Longer expressions are compiled each time they are asked for, or endless ones would fill the memory."""


class SqlFilter:
    """A compiled expression.

    >>> cheap_and_red = SqlFilter("price < 10 AND color = 'red'")
    >>> cheap_and_red.matches(b"price\\x015\\x02color\\x01red"), cheap_and_red.matches(b"price\\x015")
    (True, False)
    """

    __slots__ = ("_evaluate", "_steps", "condition", "expression")

    def __init__(self, expression: str) -> None:
        """BadSqlExpression, with the position, when it is none."""
        self.expression = expression
        self.condition = parse_sql(expression)
        self._evaluate = compile_condition(self.condition)
        self._steps = _steps(self.condition)

    def truth(self, properties: bytes) -> Truth:
        """True, False, or None for unknown. Raises Incomparable where RocketMQ's evaluation throws."""
        return self._evaluate(b"\x02" + properties)

    def matches(self, properties: bytes) -> bool:
        """Whether a message with these properties (as stored) is wanted: the expression is true, nothing less."""
        properties = b"\x02" + properties
        try:
            for step in self._steps:
                if not step(properties):
                    return False
        except Incomparable:
            return False
        return True


def _steps(condition: tree.Condition) -> tuple[Callable[[bytes], Truth], ...]:
    """What must all be true; the first that is not ends it, because unknown and a failure mean no as well."""
    terms = (
        condition.terms if isinstance(condition, tree.Junction) and condition.op == "AND" else (condition,)
    )
    return tuple(compile_condition(term) for term in terms)


_remembered = lru_cache(maxsize=1024)(SqlFilter)


def sql_filter(expression: str) -> SqlFilter:
    """The compiled expression; the same again for the same text."""
    if len(expression) > _REMEMBERED_CHARS_MAX:
        return SqlFilter(expression)
    return _remembered(expression)


def sql_subscription(topic: str, expression: str, *, version: int = 0) -> Subscription:
    """A subscription to the messages for which the expression is true. BadSqlExpression if it is none."""
    sql_filter(expression)
    return Subscription(topic=topic, expression=expression, kind=SQL92, version=version)
