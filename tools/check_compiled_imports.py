"""Reads imports of compiled sources (.pyx, .pxd, .pxi) and holds them to the layers of pyproject.toml.

import-linter sees Python modules only. What it says about `import`, this says about `import`, `cimport`, `include`
and `cdef extern from` of compiled sources, and about compiled modules that Python ones import: they point downwards
only, and into one's own room or a lower one. Pure packages do no IO. Of a room in `FACES` others import that module.
Exit code 1 with file:line for each breach.
"""

import ast
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
HEADER = re.compile(r"""^\s*cdef\s+extern\s+from\s+["']<?([^"'<>]+)>?["']""")
IO_OF_C = (
    "posix", "libc.stdio", "libc.time", "libc.signal", "cpython.pythread", "sys/", "fcntl.h", "netinet/", "poll.h",
    "pthread.h", "sched.h", "signal.h", "stdio.h", "time.h", "unistd.h",
)  # fmt: skip
NO_IO = ("sys/mman.h",)  # memory may be given back
FACES = {"engine": f"{ROOT}.engine.sends"}


class Breach(NamedTuple):
    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


class Rules(NamedTuple):
    """Floor of every room, higher imports lower; and what modules, with all below them, may not import."""

    floors: dict[str, int]
    forbidden: dict[str, tuple[str, ...]]

    @classmethod
    def read(cls, pyproject: Path) -> "Rules":
        contracts = tomllib.loads(pyproject.read_text())["tool"]["importlinter"]["contracts"]
        floors: dict[str, int] = {}
        for layers in (contract["layers"] for contract in contracts if contract["type"] == "layers"):
            for height, layer in enumerate(reversed(layers)):
                for room in layer.replace("(", "").replace(")", "").split("|"):
                    floors[room.strip()] = height
        forbidden: dict[str, tuple[str, ...]] = {}
        for contract in (contract for contract in contracts if contract["type"] == "forbidden"):
            ignored = {each.partition(" ")[0] for each in contract.get("ignore_imports", ())}
            for source in contract["source_modules"]:
                every = [f"{ROOT}.{room}" for room in floors] if source == f"{ROOT}.*" else [source]
                for module in set(every) - ignored:
                    forbidden[module] = (*forbidden.get(module, ()), *contract["forbidden_modules"])
        return cls(floors, forbidden)

    def check(self, importer: str, module: str) -> str | None:
        """Why this module of ours may not import that one; None if it may."""
        names = [
            name for source, names in self.forbidden.items() if _is_within(importer, source) for name in names
        ]
        room = importer.split(".")[1]
        if any(_is_within(module, name) for name in names):
            return f"{room} must not import {module}"
        if room not in self.floors:
            return f"{room} is in no layer of pyproject.toml"
        if not module.startswith(f"{ROOT}."):
            if "time" in names and module.startswith(IO_OF_C) and module not in NO_IO:
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
        if not _is_within(module, FACES.get(target, module)):
            return f"{room} imports {module}, of {target} others import {FACES[target]} only"
        return None


def _is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


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
    package = path.relative_to(source).parent.parts
    for number, line in logical_lines(path.read_text()):
        if match := FROM.match(line):
            names = [name.split()[0] for name in match[2].strip("() ").split(",") if name.strip()]
            for module in _from_modules(match[1], names, package):
                yield number, module
        elif match := IMPORT.match(line):
            for name in match[1].split(","):
                yield number, name.split()[0]
        elif match := INCLUDE.match(line) or HEADER.match(line):
            included = (path.parent / match[1]).resolve()
            is_ours = included.exists() or match[1].startswith(".")  # `time.h` is C's, with quotes as well
            if is_ours and included.is_relative_to(source.resolve()):
                yield number, ".".join(included.relative_to(source.resolve()).with_suffix("").parts)
            else:
                yield number, match[1]


def _from_modules(module: str, names: list[str], package: tuple[str, ...]) -> list[str]:
    """What `from module import names` imports; names of the root and of packages above are modules themselves."""
    plain = module.lstrip(".")
    if dots := len(module) - len(plain):
        above = ".".join(package[: len(package) + 1 - dots])
        module = f"{above}.{plain}" if plain else above
    return [f"{module}.{name}" for name in names] if module == ROOT or not plain else [module]


def compiled_imports_of(path: Path, source: Path) -> Iterator[tuple[int, str]]:
    """(line, module) of every compiled module that a Python one imports."""
    package = path.relative_to(source).parent.parts
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [alias.name for alias in node.names]
            modules = _from_modules("." * node.level + (node.module or ""), names, package)
            modules += [f"{module}.{name}" for module in modules for name in names]
        else:
            continue
        for module in modules:
            if source.joinpath(*module.split(".")).with_suffix(".pyx").exists():
                yield node.lineno, module


def breaches(source: Path, rules: Rules) -> list[Breach]:
    found = []
    for path in sorted(source.rglob("*")):
        if path.suffix in SUFFIXES:
            imports = imports_of(path, source)
        elif path.suffix == ".py":
            imports = compiled_imports_of(path, source)
        else:
            continue
        importer = ".".join(path.relative_to(source).with_suffix("").parts)
        for line, module in imports:
            if text := rules.check(importer, module):
                found.append(Breach(path, line, text))
    return found


def main(root: Path) -> int:
    found = breaches(root / "src", Rules.read(root / "pyproject.toml"))
    for breach in found:
        print(breach)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent))
