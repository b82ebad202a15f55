"""Names in prose are names of today: paths exist, and code that docs and docstrings quote is somewhere in the code."""

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROSE = [
    "ARCHITECTURE.md",
    *sorted(str(p.relative_to(ROOT)) for p in ROOT.glob("docs/adr/*.md")),
]
FOREIGN = {
    "AvailableNow", "BACKUP", "Chinese", "Dname", "IOException", "backticks", "capture_exception", "decode_x", "encode_x",
    "filterGroups", "pushFilters", "redaction", "regex", "rocketmq_client_", "runbroker", "runserver", "sentry_sdk", "simpleStreamReader",
}  # fmt: skip
"""Names of other programs, and of nothing in particular."""
ELSEWHERE = (".", "acl/", "conf/", "config/", "corrupt/", "run", "timer/")
"""Paths of RocketMQ's installation and of a broker's store begin so."""
QUOTED = re.compile(r"`([^`\n]+)`")
DOCSTRING = re.compile(r'"""[\s\S]*?"""')
WORD = re.compile(r"[A-Za-z_]\w{2,}")
PATH = re.compile(r"[\w.-]*(/[\w.-]+)*\.(py|pyx|pxd|md|sh|tsv|toml)|[a-z_]+(/[a-z_]+)*/")


@cache
def files() -> list[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


@cache
def known() -> set[str]:
    """Every word of code, docstrings left out, and the names of files and folders."""
    found = {word for name in files() for word in re.split(r"[/.]", name)} | FOREIGN
    for name in files():
        if re.search(r"\.(py|pyx|pxd|pyi|h|c|tsv|toml|html|js|sh|java|json|in)$|Makefile$", name):
            text = (ROOT / name).read_text(errors="replace")
            if not re.search(r"\.(py|pyx|pxd)$", name):
                found.update(WORD.findall(text))
            else:
                found.update(WORD.findall(re.sub(r"(^|\s)#.*", "", DOCSTRING.sub("", text))))
    return found


def exists(path: str) -> bool:
    path = path.rstrip("/")
    return any(f"/{name}/".find(f"/{path}/") >= 0 for name in files())


def unknown(text: str) -> list[str]:
    wrong = []
    for quoted in QUOTED.findall(text):
        if PATH.fullmatch(quoted) and not quoted.startswith(ELSEWHERE) and not exists(quoted):
            wrong.append(quoted)
        wrong += [f"{word} in {quoted}" for word in WORD.findall(quoted) if word not in known()]
    return wrong


@pytest.mark.parametrize("name", PROSE)
def test_architecture_and_decisions_name_what_exists(name: str) -> None:
    text = (ROOT / name).read_text()
    assert unknown(re.sub(r"```[\s\S]*?```", "", text)) == []
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
    assert [link for link in links if not ((ROOT / name).parent / link).exists()] == []


def test_docstrings_name_what_exists() -> None:
    wrong = {}
    for name in files():
        if name.startswith("src/") and name.endswith((".py", ".pyx", ".pxd")):
            texts = DOCSTRING.findall((ROOT / name).read_text())
            if found := [each for text in texts for each in unknown(text)]:
                wrong[name] = found
    assert wrong == {}


def test_the_walk_of_a_send_names_methods_that_exist() -> None:
    """`Class.method` in ARCHITECTURE.md: a class of ours that has that method."""
    methods: dict[str, set[str]] = {}
    for name in files():
        if not name.startswith("src/"):
            continue
        text = (ROOT / name).read_text(errors="replace")
        if name.endswith(".py"):
            for kind in ast.walk(ast.parse(text)):
                if isinstance(kind, ast.ClassDef):
                    inside = list(ast.walk(kind))
                    names = methods.setdefault(kind.name, set())
                    names.update(
                        each.name
                        for each in inside
                        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
                    )
                    names.update(each.attr for each in inside if isinstance(each, ast.Attribute))
        elif name.endswith(".pyx"):
            for part in re.split(r"^cdef class ", text, flags=re.MULTILINE)[1:]:
                methods.setdefault(WORD.match(part)[0], set()).update(
                    re.findall(r"^    c?p?def .*?(\w+)\(", part, re.M)
                )  # type: ignore[index]
    named = re.findall(r"\b([A-Z][A-Za-z]+)\.([a-z_]+)\b(?!\.)", (ROOT / "ARCHITECTURE.md").read_text())
    named = [(kind, method) for kind, method in named if method not in ("md", "py")]
    assert len(named) > 5
    assert [each for each in named if each[1] not in methods.get(each[0], set())] == []


def test_every_compiled_module_is_in_the_decision_about_them() -> None:
    text = (ROOT / "docs/adr/0004-compiled-inner-steps.md").read_text()
    compiled = [Path(name) for name in files() if name.endswith(".pyx") and "/bench/" not in name]
    assert [str(path) for path in compiled if path.parent.name != "engine" and path.name not in text] == []
