"""Writes the sync clients' public classes from the asyncio ones: same signatures, same docstrings, typed once.

    python tools/make_sync.py            write src/rocketeer/client/sync/*.py
    python tools/make_sync.py --check    say which files are not up to date, and leave with 1

For each public method of a class in `client/aio` one of these bodies is written:

    own        self._NAME(...)                       the hand-written base class has `_NAME`
    unasync    the asyncio body without its awaits   where the base has the same helpers, blocking
    direct     self._hosted.NAME(...)                plain methods that any thread may call
    call       self._call(self._hosted.NAME(...))    the rest: run on the loop thread, and waited for
"""

import ast
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLIENT = ROOT / "src" / "rocketeer" / "client"
INTERNAL = {"abandon", "assign_first", "heartbeat", "share_listener", "working"}
"""Methods of the asyncio classes that are not for users."""
WORDS = (
    ("async with ", "with "),
    ("async for ", "for "),
    ("async def ", "def "),
    ("await ", ""),
    ("AsyncIterator[", "Iterator["),
    (" on asyncio", " for threads"),
)

Method = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Facade:
    """One generated module: `client/sync/NAME.py`, whose class extends NAME_base's."""

    name: str
    extends: str = ""
    """The facade whose class its base extends: what that one's base has is its own as well."""
    made_when: str = "now"
    """Whether the hosted client is made `now`, or `later`: anew at each start."""
    direct: frozenset[str] = frozenset()
    unasync: bool = False
    futures: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Further methods that bring a future: of which method, and the docstring."""


FACADES = (
    Facade(
        "producer",
        made_when="later",
        futures={
            "send_async": (
                "send",
                "Send and go on; the future brings what `send` returns or raises.\n\n"
                "        A message that no broker would take raises here. With `in_flight_max` sends unanswered\n"
                "        this waits for a place, and raises TooManyInFlight when none gets free in time.\n"
                "        ",
            ),
            "request_async": (
                "request",
                "Send a question and go on; the future brings what `request` returns or raises.",
            ),
        },
    ),
    Facade("transaction_producer", extends="producer", made_when="later"),
    Facade("push_consumer", direct=frozenset({"subscribe", "unsubscribe", "client_id", "reaches_brokers"})),
    Facade("lite_pull_consumer", direct=frozenset({"subscribe", "unsubscribe"})),
    Facade("pull_consumer", unasync=True),
)


def unasync(text: str) -> str:
    for word, blocking in WORDS:
        text = text.replace(word, blocking)
    return text


class Source:
    """A module of `client/aio`: its one public class, and the text around it."""

    def __init__(self, path: Path) -> None:
        self.text = path.read_text()
        self.tree = ast.parse(self.text)
        self.lines = self.text.splitlines(keepends=True)
        self.cls = next(
            node
            for node in self.tree.body
            if isinstance(node, ast.ClassDef) and node.name.lower() == path.stem.replace("_", "")
        )

    def methods(self) -> list[Method]:
        found = [node for node in self.cls.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        return [node for node in found if not node.name.startswith("_") and node.name not in INTERNAL]

    def init(self) -> ast.FunctionDef:
        return next(
            node for node in self.cls.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"
        )

    def docstring(self, node: ast.ClassDef | Method) -> str:
        """As it is written, quotes and all; "" when there is none."""
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            return ast.get_source_segment(self.text, first) or ""
        return ""

    def signature(self, node: Method) -> str:
        """Decorators and `def` line(s), up to the colon; blocking."""
        begin = min([node.lineno, *(each.lineno for each in node.decorator_list)]) - 1
        body = node.body[0]
        head = "".join(self.lines[begin : body.lineno])
        after_returns = node.returns.end_lineno, node.returns.end_col_offset  # type: ignore[union-attr]
        kept = self.lines[begin : after_returns[0] - 1]
        last = self.lines[after_returns[0] - 1][: after_returns[1]]
        assert head, "a method has lines"
        return unasync("".join(kept) + last + ":\n")

    def body(self, node: Method) -> str:
        """The statements behind the docstring; blocking."""
        statements = node.body[1:] if self.docstring(node) else node.body
        first, last = statements[0].lineno - 1, statements[-1].end_lineno
        return unasync("".join(self.lines[first:last]))

    def imports(self) -> str:
        kept = [node for node in self.tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        return "".join(f"{ast.get_source_segment(self.text, node)}\n" for node in kept)

    def constants(self) -> list[str]:
        """Names the module itself defines, beside the class."""
        names = []
        for node in self.tree.body:
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            if isinstance(target, ast.Name):
                names.append(target.id)
        return names


def arguments(node: Method) -> str:
    """The parameters, handed on."""
    args = node.args
    parts = [each.arg for each in (*args.posonlyargs, *args.args) if each.arg != "self"]
    if args.vararg:
        parts.append(f"*{args.vararg.arg}")
    parts += [f"{each.arg}={each.arg}" for each in args.kwonlyargs]
    if args.kwarg:
        parts.append(f"**{args.kwarg.arg}")
    return ", ".join(parts)


def is_overload(node: Method) -> bool:
    return any(getattr(each, "id", "") == "overload" for each in node.decorator_list)


def body_of(facade: Facade, source: Source, own: set[str], node: Method) -> str:
    name = node.name
    is_property = any(getattr(each, "id", "") == "property" for each in node.decorator_list)
    given = arguments(node)
    use = name if is_property else f"{name}({given})"
    if f"_{name}" in own:
        return f"        return self._{name}({given})\n"
    if facade.unasync:
        return source.body(node)
    if name in facade.direct:
        return f"        return self._hosted.{use}\n"
    if isinstance(node, ast.AsyncFunctionDef):
        return f"        return self._call(self._hosted.{use})\n"
    return f"        return self._do(lambda: self._hosted.{use})\n"


def generate(facade: Facade) -> str:
    source = Source(CLIENT / "aio" / f"{facade.name}.py")
    own = {
        node.name
        for base in (facade.name, facade.extends)
        if base
        for node in ast.walk(ast.parse((CLIENT / "sync" / f"{base}_base.py").read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    name = source.cls.name
    doc = unasync(ast.get_docstring(source.tree) or "")
    module = f"rocketeer.client.sync.{facade.name}_base"
    parts = [
        f"# Written by tools/make_sync.py from client/aio/{facade.name}.py: change that, then `make sync`.\n",
        f'"""{doc}\n"""\n\n' if "\n" in doc else f'"""{doc}"""\n\n',
        source.imports(),
        "from collections.abc import Iterator\nfrom concurrent.futures import Future\n",
        "from functools import partial\n",
        f"from rocketeer.client.aio import {facade.name} as aio\n",
        f"from rocketeer.client.aio.{facade.name} import {', '.join(source.constants())}\n"
        if source.constants()
        else "",
        f"from {module} import {name}Base\n\n\n",
        f"class {name}({name}Base):\n    {unasync(source.docstring(source.cls))}\n\n",
    ]
    init = source.init()
    make = f"aio.{name}, {arguments(init)}"
    made = f"partial({make})" if facade.made_when == "later" else f"aio.{name}({arguments(init)})"
    parts.append(f"{source.signature(init)}        self._set_up({made})\n\n")
    for node in source.methods():
        parts.append(source.signature(node))
        if is_overload(node):
            parts[-1] = parts[-1].rstrip("\n") + " ...\n\n"
            continue
        if written := source.docstring(node):
            parts.append(f"        {unasync(written)}\n")
        parts.append(body_of(facade, source, own, node) + "\n")
        for extra, (origin, text) in facade.futures.items():
            if origin == node.name:
                parts.append(future_method(source, node, extra, text))
    return "".join(parts)


def future_method(source: Source, node: Method, name: str, text: str) -> str:
    head, _, returned = source.signature(node).rpartition("->")
    head = head.replace(f"def {node.name}(", f"def {name}(")
    returns = returned.strip().rstrip(":")
    given = arguments(node)
    return f'{head}-> Future[{returns}]:\n        """{text}"""\n        return self._{name}({given})\n\n'


def tidy(text: str, path: Path) -> str:
    """As ruff leaves it: imports nobody uses go, the rest is put in order."""
    for command in (
        ["check", "--quiet", "--fix", "--select", "F401,I", "--stdin-filename", str(path), "-"],
        ["format", "--stdin-filename", str(path), "-"],
    ):
        ran = subprocess.run(
            [sys.executable, "-m", "ruff", *command],
            input=text,
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
        )
        if not ran.stdout:
            raise SystemExit(f"{path.name}: ruff {command[0]}: {ran.stderr}")
        text = ran.stdout
    return text


def main() -> int:
    stale = []
    for facade in FACADES:
        path = CLIENT / "sync" / f"{facade.name}.py"
        text = tidy(generate(facade), path)
        if path.exists() and path.read_text() == text:
            continue
        stale.append(path.relative_to(ROOT))
        if "--check" not in sys.argv:
            path.write_text(text)
    if "--check" in sys.argv and stale:
        print(f"not up to date: {', '.join(map(str, stale))}: run `make sync`")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
