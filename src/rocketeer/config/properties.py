"""Java's .properties format: text in, entries with their line numbers out.

line     = blank | comment ("#" or "!" first) | key separator value
a backslash at the end joins the next line, whose leading white space is dropped
separator = white space, "=" or ":" (with white space around it)
escapes  = \\t \\n \\r \\f \\uXXXX; before any other character the backslash is dropped
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from rocketeer.errors import ConfigError

_WHITE = " \t\f"
_LINE_END = re.compile(r"\r\n|\r|\n")
_TRAILING_BACKSLASHES = re.compile(r"\\*$")
_ENTRY = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.|$)", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class PropertyEntry(NamedTuple):
    """One entry of a file; `line` is where its key stands, counted from 1."""

    key: str
    value: str
    line: int


def parse_properties(text: str) -> list[PropertyEntry]:
    r"""Every entry in the order of the text; a key may come twice, and for Java the last one counts.

    >>> parse_properties("# a comment\nbrokerName = broker-a\n")
    [PropertyEntry(key='brokerName', value='broker-a', line=2)]
    """
    entries = []
    for number, line in _logical_lines(text):
        found = _ENTRY.match(line)
        assert found is not None, "the pattern matches the empty text too"
        key, value = found.groups()
        if "\\" in line:
            key, value = _unescape(key, number), _unescape(value, number)
        entries.append(PropertyEntry(key, value, number))
    return entries


def properties_text(properties: Mapping[str, str]) -> str:
    """A .properties file: one key a line, escaped so that it reads back the same."""
    return "".join(f"{key}={_escaped(value)}\n" for key, value in sorted(properties.items()))


def _escaped(value: str) -> str:
    text = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return "\\" + text if text.startswith((" ", "\f")) else text


def entry_spans(text: str) -> list[tuple[str, int, int]]:
    """Key, first line and the line behind the last of every entry; lines are counted from 0."""
    natural = _LINE_END.split(text)
    spans = []
    for entry in parse_properties(text):
        end = entry.line
        while end < len(natural) and _continues(natural[end - 1]):
            end += 1
        spans.append((entry.key, entry.line - 1, end))
    return spans


def load_properties(path: Path) -> list[PropertyEntry]:
    """The entries of a file; what cannot be opened is a ConfigError that says why."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")  # what Java takes every file for
    if "\0" in text:
        raise ConfigError(f"cannot read {path}: it is not a text file")
    try:
        return parse_properties(text)
    except ConfigError as error:
        raise ConfigError(f"{path}, {error}") from None


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Lines without blanks and comments, continued lines joined, each with the number of its first line."""
    logical: list[tuple[int, str]] = []
    started: tuple[int, str] | None = None
    for number, natural in enumerate(_LINE_END.split(text), start=1):
        line = natural.lstrip(_WHITE)
        if started is None:
            if not line or line[0] in "#!":
                continue
            if line[-1] != "\\":
                logical.append((number, line))
                continue
            started = number, ""
        continues = _continues(line)
        started = started[0], started[1] + (line[:-1] if continues else line)
        if not continues:
            logical.append(started)
        if not continues or not started[1]:  # for Java, a line with a backslash only has not begun
            started = None
    if started is not None:  # a backslash on the very last line joins nothing
        logical.append(started)
    return logical


def _continues(line: str) -> bool:
    backslashes = _TRAILING_BACKSLASHES.search(line)
    return backslashes is not None and len(backslashes.group()) % 2 == 1


def _unescape(text: str, line: int) -> str:
    def plain(match: re.Match[str]) -> str:
        escaped = match.group(1)
        if escaped == "u":
            raise ConfigError(f"line {line}: \\u must be followed by four hexadecimal digits")
        if len(escaped) == 5:
            return chr(int(escaped[1:], 16))
        return _CONTROL.get(escaped, escaped)

    # Java's characters are UTF-16 units: a pair of \u escapes may be one character.
    return _ESCAPE.sub(plain, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
