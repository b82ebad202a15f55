"""Writes docs/reference.md, the page of every client, option, hook, strategy and error, from the docstrings.

python tools/make_reference.py            write it
python tools/make_reference.py --check    leave with 1 if it is not up to date

Both leave with 1 if an entry has no text: a method, a function, or a field that its class does not speak of.
"""

import ast
import dataclasses
import inspect
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from enum import Enum
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import rocketeer
import rocketeer.aio
import rocketeer.middlewares
from rocketeer.admin.base import AdminBase
from rocketeer.admin.plan_method import PlanMethod
from rocketeer.client import api
from rocketeer.client.core import config

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference.md"
CLIENTS = ("Producer", "TransactionProducer", "PushConsumer", "LitePullConsumer", "PullConsumer")
HOOKS = (
    "RpcHook",
    "RpcContext",
    "Command",
    "FilterMessageHook",
    "QueueListener",
    "OffsetStore",
    "SendHook",
    "SendContext",
    "Outgoing",
    "ConsumeHook",
    "ConsumeContext",
    "ConsumeCode",
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
    "SendMode",
    "TransactionState",
    "MessageModel",
    "ConsumeFromWhere",
    "TopicConfig",
    "SubscriptionGroup",
    "TlsConfig",
)
FUNCTIONS = ("by_hash", "by_random", "split_batch", "typed_message")
OPTIONS = ("ProducerConfig", "ConsumerConfig", "ProducerOptions", "ConsumerOptions")
CONSTANTS = ("RETRY", "COMMIT", "ROLLBACK", "UNKNOWN", "JSON", "MSGPACK", "PROTOBUF", "AVERAGELY")
TYPES = ("QueueOffset", "LogOffset", "Outcome", "Selector", "Consuming", "Publishing")
WITHOUT_TEXT: list[str] = []
"""Entries of the page that say nothing."""


def main() -> int:
    text = page()
    if WITHOUT_TEXT:
        print("write a docstring for:", *WITHOUT_TEXT, sep="\n  ")
    if "--check" not in sys.argv:
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        print(f"{PAGE.relative_to(ROOT)} is not up to date: run `make reference`")
        return 1
    return 1 if WITHOUT_TEXT else 0


def page() -> str:
    parts = [
        "# Reference of the Python clients",
        "Written by `make reference` from the docstrings: change those. How the clients behave as a whole is told in "
        "[clients.md](clients.md).",
        "`rocketeer` has the clients for threads, `rocketeer.aio` the same for asyncio: there the methods marked "
        "*await* are awaited, and `with` is `async with`. `App` and `LogHandler` are in `rocketeer` only, "
        "middlewares in `rocketeer.middlewares`, and what `Admin` returns is where its list says; all other names "
        "with an entry on this page are in both.",
        "## Clients",
    ]
    for name in CLIENTS:
        parts += client(name)
    parts += ["### Admin", described(rocketeer.Admin), *admin_methods(), *admin_tasks()]
    parts += ["#### What its methods return", "\n".join(admin_results())]
    parts += ["### App", *app_methods(), "## Options", "Keyword arguments of the clients."]
    parts += ["\n".join(f"- `{name}`: {first_line(getattr(rocketeer, name))}" for name in OPTIONS)]
    for title, kind in (
        ("Of producers and consumers", config.ClientConfig),
        ("Of producers", config.ProducerConfig),
        ("Of consumers", config.ConsumerConfig),
    ):
        parts += [f"### {title}", options(kind)]
    parts += ["## Messages and results", *entries(VALUES)]
    parts += ["## Functions, constants and types"]
    for name in FUNCTIONS:
        function = getattr(rocketeer, name)
        parts += [f"**`{signature(name, function)}`**", described(function)]
    parts += ["\n".join(f"- `{name}`: {note_of(name)}" for name in (*CONSTANTS, *TYPES))]
    parts += ["## Hooks", *entries(HOOKS)]
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
    parts += ["## Allocation strategies", *entries(("Strategy", *STRATEGIES))]
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
        yield text_of(target, f"{name}.{method}")


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
        yield examples(text_of(function, f"App.{name}"))


def admin_methods() -> Iterator[str]:
    """What it has besides its plans."""
    for name in ("start", "close", "run", "context"):
        function = getattr(rocketeer.Admin, name)
        waits = " *await*" if inspect.iscoroutinefunction(getattr(rocketeer.aio.Admin, name)) else ""
        yield f"**`{signature(name, function)}`**{waits}"
        yield examples(text_of(function, f"Admin.{name}"))


def admin_tasks() -> Iterator[str]:
    """Its methods are plans: the same for threads and, awaited, for asyncio."""
    for name, task in vars(AdminBase).items():
        if isinstance(task, PlanMethod):
            yield f"**`{signature(name, task)}`** *await*"
            yield text_of(task, f"Admin.{name}")


def admin_results() -> Iterator[str]:
    """The values that the plans bring, and those in them; what all clients have is told elsewhere on the page."""
    found: dict[str, type] = {}
    waiting: list[Any] = [
        task.__signature__.return_annotation
        for task in vars(AdminBase).values()
        if isinstance(task, PlanMethod)
    ]
    while waiting:
        each = waiting.pop()
        waiting += [inner for inner in get_args(each) if not isinstance(inner, str)]
        kind = get_origin(each) or each
        known = kind.__name__ in found or hasattr(rocketeer, kind.__name__) if inspect.isclass(kind) else True
        if known or not kind.__module__.startswith("rocketeer.") or issubclass(kind, Enum):
            continue
        found[kind.__name__] = kind
        waiting += [of for _, of in members_of(kind)]
    for name, kind in sorted(found.items()):
        members = ", ".join(f"`{member}: {type_text(of)}`" for member, of in members_of(kind))
        yield f"- **{name}** (`{kind.__module__}`): {first_line(kind)}" + (f" {members}" if members else "")


def members_of(kind: Any) -> Iterator[tuple[str, Any]]:
    """Fields and properties, with their types."""
    types = get_type_hints(kind)
    for name in field_names(kind):
        yield name, types[name]
    for name, value in vars(kind).items():
        if isinstance(value, property) and not name.startswith("_"):
            yield name, get_type_hints(value.fget).get("return", Any)


def text_of(function: Any, name: str) -> str:
    """The docstring; noted if there is none."""
    text = inspect.getdoc(function) or ""
    if not text:
        WITHOUT_TEXT.append(name)
    return text


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
    text = plain_names(str(inspect.Signature(shown, return_annotation=returns)))
    return f"{name}{text.removesuffix(' -> NoneType').removesuffix(' -> None')}"


def plain_names(text: str) -> str:
    """Types by their names alone, and by the names that users have for them."""
    for long in (
        "rocketeer.model.message.",
        "rocketeer.model.queue.",
        "collections.abc.",
        "typing.",
        "datetime.",
        "pathlib._local.",  # where Python 3.13 has it
        "pathlib.",
        "concurrent.futures._base.",
    ):
        text = text.replace(long, "")
    text = re.sub(r"rocketeer\.[a-z_.]+\.(\w+)", r"\1", text)
    text = re.sub(r"\bOptional\[(\w+)\]", r"\1 | None", text)
    text = text.replace("Callable[[Sequence[MessageQueue], Message, Any], MessageQueue]", "Selector")
    text = re.sub(r"Generator\[Call \| [^\[\]]*, Any, (~\w+)\]", r"Plan[\1]", text)
    text = re.sub(r"~(\w)", r"\1", text)
    text = re.sub(r"Optional\[(\w+)\]", r"\1 | None", text)
    return re.sub(r"(?<![|\w] )\bRetry \| Ordered \| None", "Outcome", text)


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
    notes = {name: text for base in reversed(kind.__mro__) for name, text in field_docs(base).items()}
    if issubclass(kind, Enum):
        for each in kind:
            yield row(kind, each.name, each.name, notes.get(each.name, ""))
        return
    types = {
        name: of for base in reversed(kind.__mro__) for name, of in inspect.get_annotations(base).items()
    }
    for name in field_names(kind):
        yield row(kind, name, f"{name}: {type_text(types[name])}", notes.get(name, ""))
    for name, value in vars(kind).items():
        if not (isinstance(value, property) or inspect.isfunction(value)):
            continue
        if name.startswith("_") and not (name == "__call__" and is_protocol(kind)):
            continue
        function = value.fget if isinstance(value, property) else value
        if isinstance(value, property):
            shown = f"{name}: {type_text(inspect.signature(function).return_annotation)}"
        else:
            shown = signature(name, function)
        yield row(kind, name, shown, (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " "))


def row(kind: type, name: str, shown: str, text: str) -> str:
    """A line of a class's list; what the class itself speaks of needs no text of its own."""
    if not text and f"`{name}" not in (inspect.getdoc(kind) or ""):
        WITHOUT_TEXT.append(f"{kind.__name__}.{name}")
    return f"- `{shown}`" + (f": {text}" if text else "")


def field_names(kind: Any) -> list[str]:
    """Of a Struct, a NamedTuple or a dataclass."""
    names = getattr(kind, "__struct_fields__", None) or getattr(kind, "_fields", None)
    if names is None:
        names = [each.name for each in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else []
    return [name for name in names if not name.startswith("_")]


def type_text(annotation: Any) -> str:
    """A type as users write it."""
    if get_origin(annotation) is Annotated:
        annotation = annotation.__origin__
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return plain_names(text.replace('"', ""))


def is_protocol(kind: type) -> bool:
    return bool(getattr(kind, "_is_protocol", False))


def field_docs(kind: type) -> dict[str, str]:
    """The texts under a class's fields, which Python itself forgets."""
    try:
        source = textwrap.dedent(inspect.getsource(kind))
    except (OSError, TypeError):
        return {}
    body = ast.parse(source).body[0]
    assert isinstance(body, ast.ClassDef)
    return assigned_docs(body.body)


def assigned_docs(statements: list[ast.stmt]) -> dict[str, str]:
    """The texts under assignments, by the name assigned to."""
    found: dict[str, str] = {}
    for statement, text in pairwise(statements):
        target = (
            statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
        )
        is_text = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
        if isinstance(target, ast.Name) and is_text:
            found[target.id] = " ".join(str(text.value.value).split())
    return found


def note_of(name: str) -> str:
    """The text under a constant or a type, in the module that `client.api` has it from."""
    for node in ast.parse(Path(api.__file__).read_text()).body:
        if isinstance(node, ast.ImportFrom) and name in {each.name for each in node.names}:
            module = import_module(str(node.module))
            return assigned_docs(ast.parse(Path(str(module.__file__)).read_text()).body)[name]
    raise KeyError(name)


def first_line(kind: Any) -> str:
    return (inspect.getdoc(kind) or "").partition("\n")[0]


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
