"""Names in prose are names of today: paths exist, and code that docs, docstrings and comments quote is in the code."""

import ast
import re
import subprocess
from collections.abc import Collection
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROSE = [
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "README.md",
    *sorted(str(p.relative_to(ROOT)) for p in [*ROOT.glob("docs/*.md"), *ROOT.glob("docs/adr/*.md")]),
]
PROSE.remove("docs/keys.md")  # a table of RocketMQ's names, made from one and tested with it
FOREIGN = {
    "AvailableNow", "BACKUP", "Chinese", "Dname", "IOException", "backticks", "capture_exception", "decode_x", "encode_x",
    "filesystem", "filterGroups", "pushFilters", "redaction", "regex", "rocketmq_client_", "runbroker", "runserver",
    "sentry_sdk", "simpleStreamReader",
}  # fmt: skip
"""Names of other programs, and of nothing in particular."""
FOREIGN_ON = {
    "CONTRIBUTING.md": {"helper", "manager"},
    "docs/apps.md": {"ROCKETEER_APP_CONCURRENCY", "ROCKETEER_APP_GROUPS__billing__CONCURRENCY", "fake_session"},
    "docs/clients.md": {
        "awaitTerminationMillisWhenShutdown", "fetchMessageQueuesInBalance", "pullBlockIfNotFound", "registerTopics",
    },
    "docs/deployment.md": {"ADDRESS", "CLASS", "Restart", "stop_grace_period"},
    "docs/groups.md": {"waitStoreMsgOK"},
    "docs/jobs.md": {"AWS_", "Paid", "sql_or_function"},
    "docs/metrics.md": {
        "HeadWaitTimeMills", "_milliseconds", "process_", "python_gc_", "rocketmq_broker_commitlog_diff",
        "rocketmq_timer_", "rocketmq_timer_message_snapshot",
    },
    "docs/migrating.md": {
        "AIOKafkaConsumer", "AIOKafkaProducer", "AsyncResult", "KafkaConsumer", "acks_late", "apply_async", "autoretry_for",
        "bootstrap_servers", "broker_url", "enable_auto_commit", "enable_idempotence", "max_retries", "retry_backoff",
        "send_and_wait", "send_orderly_with_sharding_key", "set_name_server_address", "set_property", "task_serializer",
    },
    "docs/reference.md": {"pullBlockIfNotFound"},
    "docs/replication.md": {"waitStoreMsgOK"},
    "docs/spark-sink.md": {"SelectMessageQueueByHash"},
    "docs/spark.md": {
        "PythonMicroBatchStream", "SupportsRealTimeMode", "Threshold", "Tier4", "addBatch", "addPyFile", "conda",
        "kubernetes", "pyFiles", "realTime", "reuse",
    },
}  # fmt: skip
"""Such names on single pages."""
ELSEWHERE = (".", "acl/", "client/sync/NAME", "conf/", "config/", "corrupt/", "play", "run", "timer/")
"""Paths of RocketMQ's installation and of a broker's store begin so, and one that stands for many."""
QUOTED = re.compile(r"`([^`\n]+)`")
DOCSTRING = re.compile(r'"""[\s\S]*?"""')
WORD = re.compile(r"[A-Za-z_]\w{2,}")
COMMENT = re.compile(r"(?:^|\s)#(.*)")
FENCED = re.compile(r"```[\s\S]*?```")
CLASS = re.compile(r"(?<![\w/.<])[A-Z]\w*[a-z]\w*\b")
MODULE = re.compile(r"(?<![\w/])[a-z_]+/[a-z_]+\b(?![/.])")
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
                found.update(WORD.findall(COMMENT.sub("", DOCSTRING.sub("", text))))
    return found


def exists(path: str) -> bool:
    path = path.rstrip("/")
    return any(f"/{name}/".find(f"/{path}/") >= 0 for name in files())


def unknown(text: str, foreign: Collection[str] = ()) -> list[str]:
    wrong = []
    for quoted in QUOTED.findall(text):
        if PATH.fullmatch(quoted) and not quoted.startswith(ELSEWHERE) and not exists(quoted):
            wrong.append(quoted)
        wrong += [
            f"{word} in {quoted}"
            for word in WORD.findall(quoted)
            if word not in known() and word not in foreign
        ]
    return wrong


@cache
def classes() -> dict[str, set[str]]:
    """The classes of src, each with what it has: methods, attributes."""
    found: dict[str, set[str]] = {}
    for name in files():
        if not name.startswith("src/"):
            continue
        text = (ROOT / name).read_text(errors="replace")
        if name.endswith(".py"):
            for kind in ast.walk(ast.parse(text)):
                if isinstance(kind, ast.ClassDef):
                    members = found.setdefault(kind.name, set())
                    for each in ast.walk(kind):
                        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                            members.add(each.name)
                        elif isinstance(each, ast.Attribute):
                            members.add(each.attr)
        elif name.endswith(".pyx"):
            for part in re.split(r"^cdef class ", text, flags=re.MULTILINE)[1:]:
                members = found.setdefault(part[: re.search(r"\W", part).start()], set())  # type: ignore[union-attr]
                members.update(re.findall(r"^    c?p?def .*?(\w+)\(", part, re.M))
    return found


@pytest.mark.parametrize("name", PROSE)
def test_pages_name_what_exists(name: str) -> None:
    text = (ROOT / name).read_text()
    assert unknown(FENCED.sub("", text), FOREIGN_ON.get(name, ())) == []
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
    assert [link for link in links if not ((ROOT / name).parent / link).exists()] == []


def test_docstrings_and_comments_name_what_exists() -> None:
    wrong = {}
    for name in files():
        if name.startswith(("src/", "tests/", "tools/")) and name.endswith((".py", ".pyx", ".pxd")):
            text = (ROOT / name).read_text()
            if found := [
                each for part in DOCSTRING.findall(text) + COMMENT.findall(text) for each in unknown(part)
            ]:
                wrong[name] = found
    assert wrong == {}


def test_drawings_of_the_architecture_name_classes_and_modules_that_exist() -> None:
    drawn = "\n".join(FENCED.findall((ROOT / "ARCHITECTURE.md").read_text()))
    named = set(CLASS.findall(drawn))
    assert len(named) > 20
    assert named - classes().keys() == {"Arrow", "GiB"}
    modules = [path for path in MODULE.findall(drawn) if not path.startswith(ELSEWHERE)]
    assert len(modules) >= 5
    assert [path for path in modules if not exists(f"{path}.py")] == []


def test_the_walk_of_a_send_names_methods_that_exist() -> None:
    """`Class.method` in ARCHITECTURE.md: a class of ours that has that method."""
    named = re.findall(r"\b([A-Z][A-Za-z]+)\.([a-z_]+)\b(?!\.)", (ROOT / "ARCHITECTURE.md").read_text())
    named = [(kind, method) for kind, method in named if method not in ("md", "py")]
    assert len(named) > 5
    assert [each for each in named if each[1] not in classes().get(each[0], set())] == []


def test_every_compiled_module_is_in_the_decision_about_them() -> None:
    text = (ROOT / "docs/adr/0004-compiled-inner-steps.md").read_text()
    compiled = [Path(name) for name in files() if name.endswith(".pyx") and "/bench/" not in name]
    assert [str(path) for path in compiled if path.parent.name != "engine" and path.name not in text] == []
