"""Reads imports of compiled sources (.pyx, .pxd, .pxi) and holds them to the layers of pyproject.toml.

import-linter reads Python only. What it says about `import`, this says about `import`, `cimport`, `include` and
`cdef extern from` of files of ours: they point downwards only, and into one's own room or a lower one. Pure packages
do no IO. Exit code 1 with file:line for each breach.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = "rocketeer"
SUFFIXES = (".pyx", ".pxd", ".pxi")
FROM = re.compile(r"^\s*from\s+([\w.]+)\s+c?import\s+(.+)")
IMPORT = re.compile(r"^\s*c?import\s+([\w., ]+)")
INCLUDE = re.compile(r"""^\s*include\s+["']([^"']+)["']""")
HEADER = re.compile(r"""^\s*cdef\s+extern\s+from\s+["']([^"'<>]+)["']""")
IO_OF_C = ("posix", "libc.stdio", "libc.time", "libc.signal", "unistd.h", "sys/")


class Breach(NamedTuple):
    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


class Rules(NamedTuple):
    """Floor of every room, higher imports lower; and what pure rooms and single rooms may not import."""

    floors: dict[str, int]
    forbidden: dict[str, tuple[str, ...]]

    @classmethod
    def read(cls, pyproject: Path) -> "Rules":
        contracts = tomllib.loads(pyproject.read_text())["tool"]["importlinter"]["contracts"]
        floors: dict[str, int] = {}
        forbidden: dict[str, tuple[str, ...]] = {}
        for contract in contracts:
            if contract["type"] == "layers":
                for height, layer in enumerate(reversed(contract["layers"])):
                    for room in layer.replace("(", "").replace(")", "").split("|"):
                        floors[room.strip()] = height
            elif contract["type"] == "forbidden":
                for source in contract["source_modules"]:
                    room = source.removeprefix(f"{ROOT}.").partition(".")[0]
                    if room not in ("*", ""):
                        forbidden[room] = (*forbidden.get(room, ()), *contract["forbidden_modules"])
        return cls(floors, forbidden)

    def check(self, room: str, module: str) -> str | None:
        """Why code of this room may not import the module; None if it may."""
        for name in self.forbidden.get(room, ()):
            if module == name or module.startswith(f"{name}."):
                return f"{room} must not import {module}"
        if room not in self.floors:
            return f"{room} is in no layer of pyproject.toml"
        if not module.startswith(f"{ROOT}."):
            pure = "time" in self.forbidden.get(room, ())
            if pure and module.startswith(IO_OF_C):
                return f"{room} is pure, {module} is not"
            return None
        target = module.split(".")[1]
        if target == room:
            return None
        if target not in self.floors:
            return f"{module} is in no layer of pyproject.toml"
        if self.floors[target] == self.floors[room]:
            return f"{room} imports {module}, a room beside it"
        if self.floors[target] > self.floors[room]:
            return f"{room} imports {module}, which is above it"
        return None


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with what is in parentheses joined; docstrings and comments left out."""
    joined, first, in_text = "", 0, False
    for number, raw in enumerate(text.splitlines(), 1):
        quotes = raw.count('"""')
        if in_text or quotes:
            in_text = in_text != (quotes % 2 == 1)
            continue
        line = raw.partition("#")[0].rstrip()
        first = first if joined else number
        joined = f"{joined} {line.strip()}" if joined else line
        if joined.count("(") > joined.count(")") and re.match(r"\s*from\s", joined):
            continue
        yield first, joined
        joined = ""


def imports_of(path: Path, source: Path) -> Iterator[tuple[int, str]]:
    """(line, module) of everything a compiled source imports; files that it includes count as modules, too."""
    package = ".".join(path.relative_to(source).parent.parts)
    for number, line in logical_lines(path.read_text()):
        if match := FROM.match(line):
            module, names = match[1], match[2].strip("() ")
            if module == ROOT:
                for name in names.split(","):
                    yield number, f"{ROOT}.{name.split()[0]}"
            else:
                yield number, f"{package}{module}" if module.startswith(".") else module
        elif match := IMPORT.match(line):
            for name in match[1].split(","):
                yield number, name.split()[0]
        elif match := INCLUDE.match(line) or HEADER.match(line):
            included = (path.parent / match[1]).resolve()
            if included.is_relative_to(source.resolve()):
                yield number, ".".join(included.relative_to(source.resolve()).with_suffix("").parts)
            else:
                yield number, match[1]


def breaches(source: Path, rules: Rules) -> list[Breach]:
    found = []
    for path in sorted(path for path in source.rglob("*") if path.suffix in SUFFIXES):
        parts = path.relative_to(source).parts
        room = parts[1] if len(parts) > 2 else ""
        for line, module in imports_of(path, source):
            if text := rules.check(room, module):
                found.append(Breach(path, line, text))
    return found


def main(root: Path) -> int:
    found = breaches(root / "src", Rules.read(root / "pyproject.toml"))
    for breach in found:
        print(breach)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent))
