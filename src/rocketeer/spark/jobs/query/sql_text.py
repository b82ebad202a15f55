"""SQL as a person types it: where statements end, and names in backticks. Pure; Spark parses what comes out."""

import re
from typing import Final

# What a `;` may hide in, and what ends a statement. A quote or comment without an end runs to the end of the text.
_PIECES: Final = re.compile(
    r"""
      (?P<comment> --[^\n]* | /\*.*?(?:\*/|\Z) )
    | (?P<quoted>  '(?:\\.|[^'\\])*(?:'|\\?\Z) | "(?:\\.|[^"\\])*(?:"|\\?\Z) | `[^`]*(?:`|\Z) )
    | (?P<end>     ; )
    | (?P<other>   [^-/'"`;]+ | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_QUOTED_NAME: Final = re.compile(r"`((?:[^`]|``)*)`")


def split_statements(text: str) -> tuple[list[str], str]:
    """The statements that a `;` ended, without it, and what is left behind the last one.

    >>> split_statements("select ';' from a; -- b;\\nselect 2")
    (["select ';' from a"], ' -- b;\\nselect 2')
    """
    done: list[str] = []
    current: list[str] = []
    for piece in _PIECES.finditer(text):
        if piece.lastgroup == "end":
            done.append("".join(current).strip())
            current = []
        else:
            current.append(piece[0])
    return [statement for statement in done if says_something(statement)], "".join(current)


def says_something(text: str) -> bool:
    """Whether there is more than space and comments."""
    return any(piece.lastgroup != "comment" and piece[0].strip() for piece in _PIECES.finditer(text))


def all_statements(text: str) -> list[str]:
    """Every statement of a text; the last one needs no `;`."""
    done, rest = split_statements(text)
    return [*done, rest.strip()] if says_something(rest) else done


def quoted(name: str) -> str:
    """A name as Spark's SQL takes it, whatever its characters.

    >>> quoted("%DLQ%group-1")
    '`%DLQ%group-1`'
    """
    return "`" + name.replace("`", "``") + "`"


def unquoted_parts(name: str) -> list[str]:
    """The parts of a name as Spark shows it.

    >>> unquoted_parts("`default`.`a-b`")
    ['default', 'a-b']
    """
    found = [part.replace("``", "`") for part in _QUOTED_NAME.findall(name)]
    return found or name.split(".")
