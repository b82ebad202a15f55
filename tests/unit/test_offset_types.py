"""An offset is a LogOffset or a QueueOffset wherever it is named; an int only where users hand it in."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

SOURCES: Final = Path(__file__).parents[2] / "src" / "rocketeer"
NAMED_SO: Final = re.compile(r"offsets?$|^offset_at$|^log_(?:begin|start|end|min|max)$|^(?:min|max)_log$")
PLAIN: Final = frozenset({"int", "I64"})

HANDED_IN: Final = frozenset(
    {
        "admin/plans/messages.py message_at offset",
        "admin/plans/messages.py pull_messages offset",
        "cli/admin/commands/messages.py query_msg_by_offset offset",
        "cli/admin/commands/reading.py consume_message offset",
        "client/aio/lite_pull_consumer.py seek offset",
        "client/aio/pull_consumer.py commit offset",
        "client/aio/pull_consumer.py message_at offset",
        "client/aio/pull_consumer.py pull offset",
        "client/plans/lookups.py message_at offset",
        "client/plans/reading.py checked_place offset",
        "client/plans/reading.py commit offset",
        "client/plans/reading.py pull offset",
        "client/sync/lite_pull_consumer.py seek offset",
        "client/sync/pull_consumer.py commit offset",
        "client/sync/pull_consumer.py message_at offset",
        "client/sync/pull_consumer.py pull offset",
    }
)
"""The public door: what users write, who check it and say which of the two it is."""
NEITHER: Final = {
    "audit/report.py AuditFinding offset": "of the log or of a queue, or an entry's number: as the kind of finding says",
    "audit/report.py add offset": "the same",
    "bench/control.py messages offset": "what tests and load generators hand in",
    "bench/frames.py one offset": "a number in the frame of a load generator that counts places itself",
    "config/limits.py BrokerLimits offsets": "how many there may be",
    "record/dispatch_entry.py DispatchEntry prepared_offset": "what a record points to: of the log, or ~ of it, or a mark",
    "record/layout.py PendingMessage prepared_offset": "the same",
    "record/layout.py StoredMessage prepared_offset": "the same",
    "record/timers.py ended_by prepared_offset": "the same",
    "spark/sink/_row_packer.pyi __init__ offsets": "where Arrow's texts begin",
    "store/base_names.py base_name offset": "of a file's first byte, in the log or in a queue's files",
    "store/consume_queue_ext.py _bytes offset": "where a unit is in its files",
}


def named_plainly(path: Path) -> Iterator[str]:
    """`file function-or-class name` of what is named as an offset and is an int."""
    where = path.relative_to(SOURCES).as_posix()
    for owner in ast.walk(ast.parse(path.read_text())):
        if isinstance(owner, ast.FunctionDef | ast.AsyncFunctionDef):
            args = owner.args
            for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs):
                if NAMED_SO.search(arg.arg) and is_plain(arg.annotation):
                    yield f"{where} {owner.name} {arg.arg}"
            if NAMED_SO.search(owner.name) and is_plain(owner.returns):
                yield f"{where} {owner.name} ->"
        name = getattr(owner, "name", "-")
        for each in ast.iter_child_nodes(owner):
            if isinstance(each, ast.AnnAssign) and is_plain(each.annotation):
                target = each.target
                field = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
                if NAMED_SO.search(field):
                    yield f"{where} {name} {field}"


def is_plain(annotation: ast.expr | None) -> bool:
    """Whether an int without a meaning is in it; of mappings the values count, keys may be any numbers."""
    match annotation:
        case ast.Name(id=name):
            return name in PLAIN
        case ast.Constant(value=str(text)):
            return is_plain(ast.parse(text, mode="eval").body)
        case ast.BinOp(left=left, right=right):
            return is_plain(left) or is_plain(right)
        case ast.Subscript(value=ast.Name(id="Callable")):
            return False
        case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[kind, *_])):
            return is_plain(kind)
        case ast.Subscript(value=ast.Name(id="Mapping" | "dict"), slice=ast.Tuple(elts=[_, value])):
            return is_plain(value)
        case ast.Subscript(slice=ast.Tuple(elts=kinds)):
            return any(map(is_plain, kinds))
        case ast.Subscript(slice=kind):
            return is_plain(kind)
    return False


def test_what_is_named_as_an_offset_has_the_type_of_one() -> None:
    found = {
        each for path in [*SOURCES.rglob("*.py"), *SOURCES.rglob("*.pyi")] for each in named_plainly(path)
    }
    assert sorted(found - HANDED_IN - NEITHER.keys()) == [], (
        "LogOffset or QueueOffset, of rocketeer.model.offsets"
    )
    assert sorted((HANDED_IN | NEITHER.keys()) - found) == [], "exceptions nobody needs any more"


@pytest.mark.parametrize(
    ("annotation", "plain"),
    [
        ("int", True),
        ("int | None", True),
        ("'int | None'", True),
        ("Annotated[int, Option('o', 'offset', 'where')] | None", True),
        ("Plan[Mapping[str, Mapping[MessageQueue, int]]]", True),
        ("tuple[QueueOffset, int]", True),
        ("I64", True),
        ("QueueOffset | None", False),
        ("Mapping[int, QueueOffset]", False),
        ("Callable[[str, int], QueueOffset]", False),
        ("QueueOffsetI64", False),
        ("str", False),
    ],
)
def test_what_counts_as_plain(annotation: str, plain: bool) -> None:
    assert is_plain(ast.parse(annotation, mode="eval").body) is plain
