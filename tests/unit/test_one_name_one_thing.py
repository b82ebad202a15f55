"""One name means one thing: a class, or an alias of a type, has a name that no other module gives to something else.

Names that begin with an underscore belong to their module and may be anywhere.
"""

import ast
import re
import subprocess
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
SAME_THING = {
    "LogBytesDispatcher": "the compiled way and the plain one, chosen in log_bytes_dispatcher.py",
}
"""Defined twice on purpose, and why."""
CAMEL_CASE = re.compile(r"[A-Z]\w*[a-z]\w*")


def home(path: Path) -> str:
    """The same for a compiled module and its plain twin, and for the clients for threads and for asyncio."""
    folder = str(path.parent).replace("client/sync", "client/aio")
    stem = path.stem.removeprefix("_").removesuffix("_plain")
    return f"{folder}/{'aio' if (folder, stem) == ('src/rocketeer/admin', 'blocking') else stem}"


def named_in(text: str, suffix: str) -> set[str]:
    """Classes and aliases that a module defines; not those it only passes on, nor `Name = None`."""
    if suffix == ".pyx":
        return set(re.findall(r"^(?:cdef )?(?:class|struct) (\w+)", text, re.MULTILINE))
    names: set[str] = set()
    statements = list(ast.parse(text).body)
    while statements:
        each = statements.pop()
        if isinstance(each, ast.ClassDef):
            names.add(each.name)
        elif isinstance(each, ast.If | ast.Try):
            statements += [*each.body, *each.orelse]
        elif isinstance(each, ast.Assign | ast.AnnAssign) and not isinstance(each.value, ast.Constant):
            target = each.targets[0] if isinstance(each, ast.Assign) else each.target
            if isinstance(target, ast.Name) and CAMEL_CASE.fullmatch(target.id):
                names.add(target.id)
    return names


def test_a_class_or_an_alias_has_a_name_of_its_own() -> None:
    listed = subprocess.run(["git", "ls-files", "src"], cwd=ROOT, capture_output=True, text=True, check=True)
    homes: dict[str, set[str]] = defaultdict(set)
    for name in listed.stdout.splitlines():
        path = Path(name)
        if path.suffix in (".py", ".pyi", ".pyx") and (ROOT / path).is_file():
            for each in named_in((ROOT / path).read_text(), path.suffix):
                homes[each].add(home(path))
    assert len(homes) > 1000
    twice = {
        name: sorted(found)
        for name, found in homes.items()
        if len(found) > 1 and not name.startswith("_") and name not in SAME_THING
    }
    assert twice == {}
