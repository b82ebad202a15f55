"""Reads imports of compiled sources (.pyx, .pxd, .pxi, .h) and holds them to the layers of pyproject.toml.

import-linter sees Python modules only. What it says about `import`, this says about `import`, `cimport`, `include`,
`cdef extern from` and `#include` of compiled sources, and about compiled modules that Python ones import: they point
downwards only, and into one's own room or a lower one. Of a room in `FACES` others import that module. Pure packages
name no module and no header of IO, declare no function of C but those in `PURE_C`, and neither they nor their Python
modules call what opens or prints. So this is about names: what an object does that was handed over is not seen, nor
an import whose name is put together.
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
SUFFIXES = (".pyx", ".pxd", ".pxi", ".h")
FROM = re.compile(r"^\s*from\s+([\w.]+)\s+c?import\s+(.+)")
IMPORT = re.compile(r"^\s*c?import\s+([\w., ]+)")
INCLUDE = re.compile(r"""^\s*include\s+["']([^"']+)["']""")
NAMED = re.compile(r"""\b(?:import_module|__import__)\(\s*["']([\w.]+)["']""")
STATEMENT = re.compile(r"[;:]\s+(?=(?:from|c?import)\s)")
C_INCLUDE = re.compile(r"""^\s*#\s*include\s*["<]([^">]+)[">]""")
HEADER = re.compile(r"""^\s*cdef\s+extern\s+from\s+["']<?([^"'<>]+)>?["']""")
IO_OF_C = (
    "posix", "libc.stdio", "libc.time", "libc.signal", "cpython.pythread", "sys/", "fcntl.h", "netinet/", "poll.h",
    "pthread.h", "sched.h", "signal.h", "stdio.h", "time.h", "unistd.h",
)  # fmt: skip
NO_IO = ("sys/mman.h",)  # memory may be given back
PURE_C = frozenset(
    {
        "memchr", "memcmp", "memcpy", "memmove", "memset", "strlen",
        "calloc", "free", "malloc", "realloc",
        "__builtin_prefetch", "PyOS_string_to_double",
    }
)  # fmt: skip
PURE_C_OF = {
    f"{ROOT}.protocol._frames": frozenset({"madvise"})
}  # as `free`, of its own memory, some at a time
NAMES_OF_C = ("libc.stdlib", "libc.string")
CALLED = ("open", "print", "input")
CALL = re.compile(rf"""(?<![\w."'])({"|".join(CALLED)})\s*\(""")
EXTERN = re.compile(r"""^(\s*)cdef\s+extern\s+(?:from\s+(\*|["'][^"']+["']))?""")
DECLARED = re.compile(r"""(\w+)\s*(?:["'](\w+)["'])?\s*\(""")
PROTOTYPE = re.compile(
    r"""^\s*(?!static\b|return\b|else\b|#)(?:extern\s+)?\w[\w\s*]*?[\s*](\w+)\s*\([^{;]*\)\s*;"""
)
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

    def is_pure(self, importer: str) -> bool:
        return any(
            _is_within(importer, source) and "time" in names for source, names in self.forbidden.items()
        )

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
            if self.is_pure(importer) and module.startswith(IO_OF_C) and module not in NO_IO:
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
    text = path.read_text()
    for number, line in enumerate(text.splitlines(), 1):  # also of C that stands in a compiled source
        if match := C_INCLUDE.match(line):
            yield number, _header(match[1], path, source)
    for number, line in [] if path.suffix == ".h" else statements(text):
        for match in NAMED.finditer(line):
            yield number, match[1]
        if match := FROM.match(line):
            names = [name.split()[0] for name in match[2].strip("() ").split(",") if name.strip()]
            for module in _from_modules(match[1], names, package):
                yield number, module
        elif match := IMPORT.match(line):
            for name in match[1].split(","):
                yield number, name.split()[0]
        elif match := INCLUDE.match(line) or HEADER.match(line):
            yield number, _header(match[1], path, source)


def statements(text: str) -> Iterator[tuple[int, str]]:
    """As `logical_lines`, with what stands behind a colon or semicolon by itself if it imports."""
    for number, line in logical_lines(text):
        for statement in STATEMENT.split(line):
            yield number, statement


def calls_of(path: Path, source: Path, importer: str) -> Iterator[tuple[int, str]]:
    """(line, what is wrong) with what a module of a pure package calls, or declares to call it."""
    text = path.read_text()
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLED:
                yield node.lineno, f"calls {node.func.id}"
        return
    pure = PURE_C | PURE_C_OF.get(importer, frozenset())
    for number, name in functions_of_c(path, source):
        if name not in pure:
            yield number, f"declares {name}, a function of C that is not in PURE_C"
    if path.suffix != ".h":
        for number, line in logical_lines(text):
            for match in CALL.finditer(line):
                yield number, f"calls {match[1]}"


def functions_of_c(path: Path, source: Path) -> Iterator[tuple[int, str]]:
    """(line, name) of every function that stands in no source of ours and that this one can call."""
    text = path.read_text()
    in_c, in_text = path.suffix == ".h", False
    block: int | None = None  # of declarations: how far its head is indented
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.partition("#")[0]
        if in_c:
            if match := PROTOTYPE.match(line):
                yield number, match[1]
        elif not in_text:
            if block is not None and bare.strip() and len(bare) - len(bare.lstrip()) <= block:
                block = None
            match = EXTERN.match(bare)
            if match and not _is_ours(match[2] or "", path, source):
                block, bare = len(match[1]), bare[match.end() :]
            if block is not None and '"""' not in bare:
                yield from ((number, match[2] or match[1]) for match in DECLARED.finditer(bare))
        if line.count('"""') % 2 and path.suffix != ".h":
            was_in_c, was_in_text = in_c, in_text
            in_c = block is not None and not was_in_c  # C that stands in a compiled source
            in_text = block is None and not was_in_text
    for number, line in [] if path.suffix == ".h" else statements(text):
        if match := FROM.match(line):
            names = [name.split()[0] for name in match[2].strip("() ").split(",") if name.strip()]
            if match[1] in NAMES_OF_C:
                yield from ((number, name) for name in names)
            elif match[1] == "libc":
                yield from ((number, f"all of libc.{name}") for name in names if f"libc.{name}" in NAMES_OF_C)
        elif match := IMPORT.match(line):
            yield from ((number, f"all of {name}") for name in NAMES_OF_C if name in match[1])


def _is_ours(header: str, path: Path, source: Path) -> bool:
    """Whether the functions declared to be of this header are in a source of ours, which is looked at by itself."""
    return header not in ("", "*") and _header(header.strip("\"'<>"), path, source) != header.strip("\"'<>")


def _header(name: str, path: Path, source: Path) -> str:
    """The module that a file included by this name is, or the name itself if it is none of ours.

    setup.py lets compilers look in several folders: ours is whatever lies anywhere by that name.
    """
    included = (path.parent / name).resolve()
    if not (included.exists() or name.startswith(".")):  # `time.h` is C's, with quotes as well
        included = next((found.resolve() for found in sorted(source.rglob(Path(name).name))), included)
        if not included.exists():
            return name
    if not included.is_relative_to(source.resolve()):
        return name
    return ".".join(included.relative_to(source.resolve()).with_suffix("").parts)


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
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            modules = NAMED.findall(ast.unparse(ast.Call(node.func, node.args[:1], [])))
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
        if rules.is_pure(importer):
            room = importer.split(".")[1]
            found += [
                Breach(path, line, f"{room} is pure, and {text}")
                for line, text in calls_of(path, source, importer)
            ]
    return found


def main(root: Path) -> int:
    found = breaches(root / "src", Rules.read(root / "pyproject.toml"))
    for breach in found:
        print(breach)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent))
