"""The first step of an SQL92 expression: text -> tokens, each with its position.

Words are RocketMQ's: keywords in any case, names with letters, digits, _ and $, no escapes but '' in strings.
The three words of RocketMQ 5 (CONTAINS, STARTSWITH, ENDSWITH) stay names here: properties may be called so.
"""

import re
from enum import Enum, auto
from typing import Final, NamedTuple

from rocketeer.errors import BadSqlExpression


class Bounds(NamedTuple):
    """How long an expression may be: reading one takes time, and so does evaluating it for every message."""

    chars: int = 16_384
    terms: int = 1_024
    """Words, numbers, operators and parentheses; texts and the commas between them are cheap."""


DEFAULT_BOUNDS: Final = Bounds()
_TOKENS_A_TERM: Final = 4
"""Texts and commas are counted apart: there may be four of them for every term that is allowed."""
KEYWORDS: Final = frozenset({"NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS"})


class TokenKind(Enum):
    KEYWORD = auto()
    NAME = auto()
    INTEGER = auto()
    FLOAT = auto()
    STRING = auto()
    SYMBOL = auto()
    END = auto()


class Token(NamedTuple):
    """`text` is upper case for keywords, without quotes for strings."""

    kind: TokenKind
    text: str
    at: int

    def __str__(self) -> str:
        if self.kind is TokenKind.END:
            return "the end"
        return f"'{self.text}'" if self.kind is not TokenKind.STRING else f"the string '{self.text}'"


# The longest alternative counts, so floats stand before integers and two-character symbols before single ones.
# Line comments are looked for by hand: a search for the end of the line at every sign would take forever.
_TOKEN: Final = re.compile(
    r"""(?P<space>[ \t\n\r\f]+ | /\*[^*]*\*(?:\*|[^*/][^*]*\*)*/)
      | (?P<float>[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)? | \.[0-9]+(?:[eE][+-]?[0-9]+)? | [0-9]+[eE][+-]?[0-9]+)
      | (?P<integer>0|[1-9][0-9]*[lL]?)
      | (?P<string>'(?:''|[^'])*')
      | (?P<word>[A-Za-z_$][A-Za-z0-9_$]*)
      | (?P<symbol><>|<=|>=|[=<>(),+-])""",
    re.VERBOSE,
)


def tokenize(expression: str, bounds: Bounds = DEFAULT_BOUNDS) -> list[Token]:
    """All tokens and the END; BadSqlExpression where none can start, or where there are too many."""
    if len(expression) > bounds.chars:
        reason = f"{len(expression)} characters are more than the {bounds.chars} that limitSqlChars allows"
        raise BadSqlExpression(reason, expression, bounds.chars)
    tokens: list[Token] = []
    terms = 0
    at = 0
    last_line_at = max(expression.rfind("\n"), expression.rfind("\r"))
    while at < len(expression):
        if at < last_line_at and expression.startswith("--", at):
            at = _line_end(expression, at)
            continue
        match = _TOKEN.match(expression, at)
        if match is None:
            raise BadSqlExpression(_what_is_wrong(expression, at), expression, at)
        group = match.lastgroup
        text = match[0]
        if group == "word":
            upper = text.upper()
            if upper in KEYWORDS:
                tokens.append(Token(TokenKind.KEYWORD, upper, at))
            else:
                tokens.append(Token(TokenKind.NAME, text, at))
        elif group == "string":
            tokens.append(Token(TokenKind.STRING, text[1:-1].replace("''", "'"), at))
        elif group == "symbol":
            if text == "-" and _is_last_comment(expression, at, tokens):
                break
            tokens.append(Token(TokenKind.SYMBOL, text, at))
        elif group == "integer":
            if text == "0" and expression[at + 1 : at + 2].isdigit():
                raise BadSqlExpression("a number starts with 0", expression, at)
            tokens.append(Token(TokenKind.INTEGER, text.rstrip("lL"), at))
        elif group == "float":
            tokens.append(Token(TokenKind.FLOAT, text, at))
        at = match.end()
        if group != "string" and group != "space" and text != ",":
            terms += 1
        if terms > bounds.terms or len(tokens) > _TOKENS_A_TERM * bounds.terms:
            reason = f"it has more than the {bounds.terms} words and operators that limitSqlTerms allows"
            raise BadSqlExpression(reason, expression, at)
    tokens.append(Token(TokenKind.END, "", len(expression)))
    return tokens


def _line_end(expression: str, at: int) -> int:
    """Behind the comment that starts at `at`; there is a line end after it."""
    ends = [end for end in (expression.find("\n", at), expression.find("\r", at)) if end >= 0]
    return min(ends) + 1


_BEFORE_OPERATOR: Final = frozenset({TokenKind.NAME, TokenKind.INTEGER, TokenKind.FLOAT, TokenKind.STRING})


def _is_last_comment(expression: str, at: int, tokens: list[Token]) -> bool:
    """`--` behind a whole operand in the last line is a comment: nothing else can stand there."""
    if not expression.startswith("--", at) or not tokens:
        return False
    last = tokens[-1]
    return last.kind in _BEFORE_OPERATOR or last.text in (")", "TRUE", "FALSE", "NULL")


def _what_is_wrong(expression: str, at: int) -> str:
    if expression[at] == "'":
        return "the string has no closing quote"
    if expression.startswith("/*", at):
        return "the comment has no end"
    return f"unexpected character {expression[at]!r}"
