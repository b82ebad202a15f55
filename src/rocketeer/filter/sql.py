"""SQL92 filters as broker and client use them: an expression in, a yes or no for each message out."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from rocketeer.errors import BadSqlExpression as BadSqlExpression
from rocketeer.filter import sql_tree as tree
from rocketeer.filter.sql_compile import compile_condition
from rocketeer.filter.sql_parser import parse_sql
from rocketeer.filter.sql_tokens import DEFAULT_BOUNDS, Bounds
from rocketeer.filter.sql_values import Incomparable, Truth
from rocketeer.model.subscription import SQL92, Subscription


class SqlFilter:
    """A compiled expression.

    >>> cheap_and_red = SqlFilter("price < 10 AND color = 'red'")
    >>> cheap_and_red.matches(b"price\\x015\\x02color\\x01red"), cheap_and_red.matches(b"price\\x015")
    (True, False)
    """

    __slots__ = ("_evaluate", "_steps", "condition", "expression", "terms")

    def __init__(self, expression: str, bounds: Bounds = DEFAULT_BOUNDS) -> None:
        """BadSqlExpression, with the position, when it is none."""
        self.expression = expression
        self.condition = parse_sql(expression, bounds)
        self.terms = tree.count_terms(self.condition)
        self._evaluate: Callable[[bytes], Truth] | None = None
        self._steps: tuple[Callable[[bytes], Truth], ...] | None = None

    def truth(self, properties: bytes) -> Truth:
        """True, False, or None for unknown. Raises Incomparable where RocketMQ's evaluation throws."""
        if self._evaluate is None:
            self._evaluate = compile_condition(self.condition)
        return self._evaluate(b"\x02" + properties)

    def matches(self, properties: bytes) -> bool:
        """Whether a message with these properties (as stored) is wanted: the expression is true, nothing less."""
        properties = b"\x02" + properties
        if self._steps is None:  # most expressions are matched by compiled code (`records.py`)
            self._steps = _steps(self.condition)
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


_remembered: OrderedDict[tuple[str, Bounds], SqlFilter] = OrderedDict()
_remembered_chars = 0
_bad: tuple[tuple[str, Bounds], tuple[str, str, int]] | None = None
"""The last one that was none, and why: whoever is refused may be looked at twice."""
_REMEMBERED_MAX: Final = 1024
_REMEMBERED_CHARS_MAX: Final = 1 << 19


def sql_filter(expression: str, bounds: Bounds = DEFAULT_BOUNDS) -> SqlFilter:
    """The compiled expression; the same again for the same text, unless many others were asked for since."""
    global _remembered_chars, _bad
    key = expression, bounds
    known = _remembered.get(key)
    if known is not None:
        _remembered.move_to_end(key)
        return known
    if _bad is not None and _bad[0] == key:
        raise BadSqlExpression(*_bad[1])
    try:
        made = _remembered[key] = SqlFilter(expression, bounds)
    except BadSqlExpression as error:
        _bad = key, (error.reason, expression, error.position - 1)
        raise
    _remembered_chars += len(expression)
    while len(_remembered) > _REMEMBERED_MAX or _remembered_chars > _REMEMBERED_CHARS_MAX:
        (oldest, _), _ = _remembered.popitem(last=False)
        _remembered_chars -= len(oldest)
    return made


def sql_subscription(topic: str, expression: str) -> Subscription:
    """A subscription to the messages for which the expression is true. BadSqlExpression if it is none."""
    sql_filter(expression)
    return Subscription(topic=topic, expression=expression, kind=SQL92)
