"""The second step of an SQL92 expression: tokens -> tree, by RocketMQ's grammar.

    or       = and (OR and)*
    and      = equality (AND equality)*
    equality = comparison (= comparison | <> comparison | IS [NOT] NULL)*
    comparison = unary (< unary | <= unary | > unary | >= unary | [NOT] BETWEEN unary AND unary
                        | [NOT] IN (string, ...) | [NOT] CONTAINS|STARTSWITH|ENDSWITH string)*
    unary    = + unary | - unary | NOT unary | literal | name | ( or )

There is no recursion: what an open parenthesis interrupts waits in a `_Group`, so depth costs no stack. Unlike
RocketMQ's, the parser does not stop silently at the first token it cannot use: all of the text must be expression.
"""

from typing import Final, cast

from rocketeer.errors import BadSqlExpression
from rocketeer.filter import sql_tree as tree
from rocketeer.filter.sql_tokens import DEFAULT_BOUNDS, Bounds, Token, TokenKind, tokenize

_TEXT_OPS: Final = frozenset({"CONTAINS", "STARTSWITH", "ENDSWITH"})
_COMPARISONS: Final = frozenset({"<", "<=", ">", ">="})
_WORDS: Final = {
    "TRUE": tree.Constant("bool", True),
    "FALSE": tree.Constant("bool", False),
    "NULL": tree.Constant("null", None),
}


def parse_sql(expression: str, bounds: Bounds = DEFAULT_BOUNDS) -> tree.Condition:
    """The tree of an expression; BadSqlExpression, with the position, if it is none.

    >>> str(parse_sql("price > 10 and color = 'red'"))
    "(price > 10) AND (color = 'red')"
    """
    return _Parser(expression, bounds).parse()


class _Group:
    """What stands between two parentheses, as far as it was read: the left sides of operators not yet complete."""

    __slots__ = (
        "ands",
        "compared",
        "comparison",
        "equality",
        "equated",
        "low",
        "opened_at",
        "ors",
        "prefixes",
    )

    def __init__(self, opened_at: int) -> None:
        self.opened_at = opened_at
        self.prefixes: list[str] = []
        self.comparison: tree.SqlNode | None = None
        self.compared: Token | None = None  # the operator whose right side comes next
        self.low: tree.SqlNode | None = None  # of a BETWEEN whose upper bound comes next
        self.equality: tree.SqlNode | None = None
        self.equated: Token | None = None
        self.ands: list[tree.SqlNode] = []
        self.ors: list[tree.SqlNode] = []


class _Parser:
    def __init__(self, expression: str, bounds: Bounds) -> None:
        self._expression = expression
        self._tokens = tokenize(expression, bounds)
        self._at = 0
        self._groups = [_Group(0)]
        self._token = self._tokens[0]

    def parse(self) -> tree.Condition:
        while True:
            try:
                self._operand()
                result = self._operators()
            except tree.InvalidOperands as refused:
                raise BadSqlExpression(str(refused), self._expression, self._token.at) from None
            if result is not None:
                return result

    # --- where an operand must stand ---------------------------------------------------------

    def _operand(self) -> None:
        """Read signs, NOTs and parentheses up to the next literal or name; that completes a unary."""
        again = True
        while again:
            token = self._next()
            if token.kind is TokenKind.SYMBOL and token.text in "+-":
                self._groups[-1].prefixes.append(token.text)
            elif token.kind is TokenKind.SYMBOL and token.text == "(":
                self._groups.append(_Group(token.at))
            elif token.kind is TokenKind.KEYWORD and token.text == "NOT":
                self._groups[-1].prefixes.append("NOT")
            else:
                again = self._unary(self._literal(token))

    def _literal(self, token: Token) -> tree.SqlNode:
        if token.kind is TokenKind.NAME:
            return tree.Property(token.text)
        if token.kind is TokenKind.STRING:
            return tree.Constant("string", token.text)
        if token.kind is TokenKind.INTEGER:
            return tree.integer(token.text)
        if token.kind is TokenKind.FLOAT:
            return tree.floating(token.text)
        if token.kind is TokenKind.KEYWORD and token.text in _WORDS:
            return _WORDS[token.text]
        raise self._unexpected(token, "a property, a value or '('")

    def _unary(self, node: tree.SqlNode) -> bool:
        """An operand is complete: its signs apply first, then the comparison that waited for it.

        True when another operand must follow: it was the lower bound of a BETWEEN.
        """
        group = self._groups[-1]
        for prefix in reversed(group.prefixes):
            if prefix == "-":
                node = tree.negate(node)
            elif prefix == "NOT":
                node = tree.negation(node)
        group.prefixes.clear()
        waiting = group.compared
        if waiting is None:
            group.comparison = node
            return False
        assert group.comparison is not None
        if waiting.kind is TokenKind.SYMBOL:
            group.comparison = tree.compare(cast(tree.CompareOp, waiting.text), group.comparison, node)
        elif group.low is None:
            self._expect(TokenKind.KEYWORD, "AND")
            group.low = node
            return True
        else:
            negated = waiting.text == "NOT"
            group.comparison = tree.between(group.comparison, group.low, node, negated=negated)
            group.low = None
        group.compared = None
        return False

    # --- where an operator, a closing parenthesis or the end must stand ----------------------

    def _operators(self) -> tree.Condition | None:
        """Read until the next operand must come (None), or to the end of the expression."""
        after_is_null = False
        while True:
            group = self._groups[-1]
            token = self._next()
            if not after_is_null and self._comparing(group, token):
                if group.compared is not None:
                    return None
            elif token.kind is TokenKind.SYMBOL and token.text in ("=", "<>"):
                self._end_comparison(group)
                group.equated = token
                return None
            elif token.kind is TokenKind.KEYWORD and token.text == "IS":
                self._end_comparison(group)
                negated = self._take(TokenKind.KEYWORD, "NOT")
                self._expect(TokenKind.KEYWORD, "NULL")
                assert group.equality is not None
                test = tree.is_null(group.equality)
                group.equality = tree.negation(test) if negated else test
                after_is_null = True  # only operators of equality, AND and OR may follow
            elif token.kind is TokenKind.KEYWORD and token.text == "AND":
                self._end_equality(group)
                return None
            elif token.kind is TokenKind.KEYWORD and token.text == "OR":
                self._end_ands(group)
                return None
            elif token.kind is TokenKind.SYMBOL and token.text == ")" and len(self._groups) > 1:
                self._groups.pop()
                if self._unary(self._end_group(group)):
                    return None
                after_is_null = False
            elif token.kind is TokenKind.END and len(self._groups) == 1:
                return tree.condition(self._end_group(group))
            elif token.kind is TokenKind.END:
                raise BadSqlExpression("the parenthesis is not closed", self._expression, group.opened_at)
            else:
                raise self._unexpected(token, "an operator, AND, OR or the end")

    def _comparing(self, group: _Group, token: Token) -> bool:
        """Take the operators of a comparison; True if `token` was one."""
        negated = False
        operator = token
        if token.kind is TokenKind.KEYWORD and token.text == "NOT":
            operator = self._tokens[self._at]
            negated = True
        word = operator.text.upper() if operator.kind in (TokenKind.KEYWORD, TokenKind.NAME) else ""
        left = group.comparison
        assert left is not None
        if operator.kind is TokenKind.SYMBOL and operator.text in _COMPARISONS and not negated:
            group.compared = token
        elif word == "BETWEEN":
            group.compared = token  # its text is NOT when it is negated
            self._at += negated
        elif word == "IN":
            self._at += negated
            group.comparison = tree.one_of(left, self._strings(), negated=negated)
        elif operator.kind is TokenKind.NAME and word in _TEXT_OPS:
            self._at += negated
            search = self._expect(TokenKind.STRING, "a string").text
            group.comparison = tree.text_test(cast(tree.TextOp, word), left, search, negated=negated)
        else:
            return False
        return True

    def _strings(self) -> list[str]:
        self._expect(TokenKind.SYMBOL, "(")
        values = [self._expect(TokenKind.STRING, "a string").text]
        while self._take(TokenKind.SYMBOL, ","):
            values.append(self._expect(TokenKind.STRING, "a string").text)
        self._expect(TokenKind.SYMBOL, ")")
        return values

    # --- completing what waited --------------------------------------------------------------

    def _end_comparison(self, group: _Group) -> None:
        node = group.comparison
        if node is None:  # it ended already, before IS NULL
            return
        group.comparison = None
        if group.equated is None:
            group.equality = node
            return
        assert group.equality is not None
        test = tree.equal(group.equality, node)
        group.equality = tree.negation(test) if group.equated.text == "<>" else test
        group.equated = None

    def _end_equality(self, group: _Group) -> None:
        self._end_comparison(group)
        assert group.equality is not None
        group.ands.append(group.equality)
        group.equality = None

    def _end_ands(self, group: _Group) -> None:
        self._end_equality(group)
        group.ors.append(group.ands[0] if len(group.ands) == 1 else tree.junction("AND", group.ands))
        group.ands = []

    def _end_group(self, group: _Group) -> tree.SqlNode:
        self._end_ands(group)
        return group.ors[0] if len(group.ors) == 1 else tree.junction("OR", group.ors)

    # --- tokens ------------------------------------------------------------------------------

    def _next(self) -> Token:
        self._token = self._tokens[self._at]
        self._at += 1
        return self._token

    def _take(self, kind: TokenKind, text: str) -> bool:
        token = self._tokens[self._at]
        if token.kind is kind and token.text == text:
            self._next()
            return True
        return False

    def _expect(self, kind: TokenKind, wanted: str) -> Token:
        token = self._next()
        if token.kind is not kind or (kind is not TokenKind.STRING and token.text != wanted):
            raise self._unexpected(token, wanted if kind is TokenKind.STRING else f"'{wanted}'")
        return token

    def _unexpected(self, token: Token, wanted: str) -> BadSqlExpression:
        return BadSqlExpression(f"{token} where {wanted} should stand", self._expression, token.at)
