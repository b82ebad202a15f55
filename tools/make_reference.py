"""Writes docs/reference.md, the page of every client, option, hook, strategy and error, from the docstrings.

python tools/make_reference.py            write it
python tools/make_reference.py --check    leave with 1 if it is not up to date
"""

import ast
import dataclasses
import inspect
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import rocketeer
import rocketeer.aio
import rocketeer.middlewares
from rocketeer.admin.base import AdminBase
from rocketeer.admin.calling import PlanMethod
from rocketeer.client.core import config

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference.md"
CLIENTS = ("Producer", "TransactionProducer", "PushConsumer", "LitePullConsumer", "PullConsumer")
HOOKS = (
    "RpcHook",
    "RpcContext",
    "FilterMessageHook",
    "QueueListener",
    "OffsetStore",
    "SendHook",
    "SendContext",
    "ConsumeHook",
    "ConsumeContext",
    "TransactionHook",
    "TransactionContext",
)
MIDDLEWARE = ("Middleware", "Context", "PublishContext", "Pause", "Within")
CODECS = ("Codec", "AvroCodec")
STRATEGIES = (
    "Averagely",
    "AveragelyByCircle",
    "ConsistentHash",
    "ByMachineRoom",
    "MachineRoomNearby",
    "ByConfig",
)
VALUES = (
    "Message",
    "ReceivedMessage",
    "SendResult",
    "SendStatus",
    "Retry",
    "RetryPolicy",
    "Failure",
    "Transaction",
    "TransactionResult",
    "PullResult",
    "PullStatus",
    "MessageQueue",
)


def main() -> int:
    text = page()
    if "--check" in sys.argv:
        if PAGE.exists() and PAGE.read_text() == text:
            return 0
        print(f"{PAGE.relative_to(ROOT)} is not up to date: run `make reference`")
        return 1
    PAGE.write_text(text)
    return 0


def page() -> str:
    parts = [
        "# Reference of the Python clients",
        "Written by `make reference` from the docstrings: change those. How the clients behave as a whole is told in "
        "[clients.md](clients.md).",
        "`rocketeer` has the clients for threads, `rocketeer.aio` the same for asyncio: there the methods marked "
        "*await* are awaited, and `with` is `async with`. All other names on this page are in both.",
        "## Clients",
    ]
    for name in CLIENTS:
        parts += client(name)
    parts += ["### Admin", described(rocketeer.Admin), *admin_tasks()]
    parts += ["### App", *app_methods(), "## Options", "Keyword arguments of the clients."]
    for title, kind in (
        ("Of producers and consumers", config.ClientConfig),
        ("Of producers", config.ProducerConfig),
        ("Of consumers", config.ConsumerConfig),
    ):
        parts += [f"### {title}", options(kind)]
    parts += ["## Messages and results", *entries(VALUES), "## Hooks", *entries(HOOKS)]
    parts += ["## Middlewares and dependencies", *entries(MIDDLEWARE)]
    parts += [f"**`{signature('Depends', rocketeer.Depends)}`**", described(rocketeer.Depends)]
    parts += ["### In `rocketeer.middlewares`"]
    for name in rocketeer.middlewares.__all__:
        kind = getattr(rocketeer.middlewares, name)
        parts += [f"**`{signature(name, kind)}`**", described(kind)]
    parts += [
        "## Log records",
        f"**`{signature('LogHandler', rocketeer.LogHandler)}`**",
        described(rocketeer.LogHandler),
    ]
    parts += ["## Codecs", *entries(CODECS)]
    parts += ["## Allocation strategies", described(rocketeer.Strategy), *entries(STRATEGIES)]
    parts += ["## Errors", "All are `RocketeerError`s.", errors()]
    return "\n\n".join(parts) + "\n"


def client(name: str) -> Iterator[str]:
    sync, aio = getattr(rocketeer, name), getattr(rocketeer.aio, name)
    yield f"### {name}"
    yield f"```python\n{signature(name, sync)}\n```"
    yield described(aio)
    for method, function in vars(sync).items():
        if method.startswith("_") or not (inspect.isfunction(function) or isinstance(function, property)):
            continue
        target = function.fget if isinstance(function, property) else function
        waits = " *await*" if inspect.iscoroutinefunction(vars(aio).get(method)) else ""
        head = method if isinstance(function, property) else signature(method, target)
        yield f"**`{head}`**{waits}"
        if doc := inspect.getdoc(target):
            yield doc


def app_methods() -> Iterator[str]:
    """Declared in threads, run on asyncio: there is one for both."""
    kind = rocketeer.App
    yield f"```python\n{signature('App', kind)}\n```"
    yield described(kind)
    for name, value in vars(kind).items():
        if name.startswith("_") or not (inspect.isfunction(value) or isinstance(value, property)):
            continue
        function = value.fget if isinstance(value, property) else value
        if "(Internal.)" in (function.__doc__ or ""):
            continue
        waits = " *await*" if inspect.iscoroutinefunction(function) else ""
        yield f"**`{name if isinstance(value, property) else signature(name, function)}`**{waits}"
        if doc := inspect.getdoc(function):
            yield examples(doc)


def admin_tasks() -> Iterator[str]:
    """Its methods are plans: the same for threads and, awaited, for asyncio."""
    for name, task in vars(AdminBase).items():
        if isinstance(task, PlanMethod):
            yield f"**`{signature(name, task)}`** *await*"
            yield inspect.getdoc(task) or ""


def signature(name: str, of: Any) -> str:
    """Without `self`, and without what only the type checker needs."""
    found = inspect.signature(of)
    kept = [each for each in found.parameters.values() if each.name not in ("self", "clock")]
    shown = [
        each.replace(annotation=inspect.Parameter.empty)
        if each.kind is inspect.Parameter.VAR_KEYWORD
        else each
        for each in kept
    ]
    returns = inspect.Signature.empty if inspect.isclass(of) else found.return_annotation
    text = str(inspect.Signature(shown, return_annotation=returns))
    for long in (
        "rocketeer.model.message.",
        "rocketeer.model.queue.",
        "collections.abc.",
        "typing.",
        "pathlib._local.",  # where Python 3.13 has it
        "pathlib.",
        "concurrent.futures._base.",
    ):
        text = text.replace(long, "")

    text = re.sub(r"rocketeer\.[a-z_.]+\.(\w+)", r"\1", text)
    text = text.replace("Callable[[Sequence[MessageQueue], Message, Any], MessageQueue]", "Selector")
    return f"{name}{text.removesuffix(' -> NoneType').removesuffix(' -> None')}"


def described(kind: Any) -> str:
    """The docstring, its doctests as code."""
    return examples(inspect.getdoc(kind) or "")


def examples(doc: str) -> str:
    blocks = []
    for block in doc.split("\n\n"):
        lines = block.split("\n")
        begin = next((at for at, line in enumerate(lines) if line.startswith(">>>")), None)
        if begin is None:
            blocks.append(block)
            continue
        if lines[:begin]:
            blocks.append("\n".join(lines[:begin]))
        blocks.append("```python\n" + "\n".join(lines[begin:]) + "\n```")
    return "\n\n".join(blocks)


def entries(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        kind = getattr(rocketeer, name)
        yield f"### {name}"
        yield described(kind)
        if members := list(rows_of(kind)):
            yield "\n".join(members)


def rows_of(kind: Any) -> Iterator[str]:
    """Fields, properties and methods, one line each."""
    if issubclass(kind, Enum):
        yield from (f"- `{each.name}`" for each in kind)
        return
    notes = field_docs(kind)
    for name in getattr(kind, "__struct_fields__", ()) or [
        each.name for each in (dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ())
    ]:
        if not name.startswith("_"):
            yield f"- `{name}`" + (f": {notes[name]}" if name in notes else "")
    for name, value in vars(kind).items():
        if name.startswith("_") or not (isinstance(value, property) or inspect.isfunction(value)):
            continue
        function = value.fget if isinstance(value, property) else value
        shown = name if isinstance(value, property) else signature(name, function)
        doc = (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " ")
        yield f"- `{shown}`" + (f": {doc}" if doc else "")


def field_docs(kind: type) -> dict[str, str]:
    """The texts under a class's fields, which Python itself forgets."""
    try:
        source = textwrap.dedent(inspect.getsource(kind))
    except (OSError, TypeError):
        return {}
    body = ast.parse(source).body[0]
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
        ):
            found[field.target.id] = " ".join(str(text.value.value).split())
    return found


def options(kind: Any) -> str:
    notes = field_docs(kind)
    own = set(kind.__annotations__)
    rows = ["| option | default | RocketMQ's name | |", "|---|---|---|---|"]
    for field in dataclasses.fields(kind):
        if field.name not in own or field.name in ("group", "_"):
            continue
        default = field.default
        shown = default.name if isinstance(default, Enum) else repr(default)
        java = field.metadata.get("java")
        note = notes[field.name].replace("|", "\\|")
        rows.append(f"| `{field.name}` | `{shown}` | {f'`{java}`' if java else ''} | {note} |")
    return "\n".join(rows)


def errors() -> str:
    kinds = [getattr(rocketeer, name) for name in dir(rocketeer)]
    found = [kind for kind in kinds if inspect.isclass(kind) and issubclass(kind, rocketeer.RocketeerError)]
    rows = ["| error | is a | |", "|---|---|---|"]
    for kind in sorted(found, key=lambda each: each.__name__):
        bases = ", ".join(f"`{base.__name__}`" for base in kind.__bases__)
        rows.append(f"| `{kind.__name__}` | {bases} | {' '.join((inspect.getdoc(kind) or '').split())} |")
    return "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main())
