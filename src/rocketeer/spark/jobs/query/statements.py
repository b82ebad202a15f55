"""What a SQL statement needs, before it runs: which tables it names that nobody knows, which columns it uses.

Both answers come from Spark's own analyzer and optimizer, through the JVM: nothing is guessed from the text. The
statement is analyzed against stand-ins, tables without rows that carry their topic in the columns' metadata; what the
optimized plan does not refer to cannot change the result, so it need not be read.
"""

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from rocketeer.errors import RocketeerError
from rocketeer.spark.failures import quiet_errors
from rocketeer.spark.jobs.query.sql_text import unquoted_parts
from rocketeer.spark.source.columns import COLUMNS, SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MARK: Final = "rocketeer.topic"
_NOT_FOUND: Final = "TABLE_OR_VIEW_NOT_FOUND"
TABLES_MAX: Final = 200
# Nodes that name what they use, and pass on the rest under its name; others (a union goes by position) use all.
_SAYS_ALL: Final = frozenset(
    {
        "Project",
        "Aggregate",
        "Filter",
        "Join",
        "Sort",
        "GlobalLimit",
        "LocalLimit",
        "Offset",
        "Window",
        "Generate",
    }
)


class NoSuchTable(RocketeerError):
    """SQL names a table that is neither a topic nor anything Spark knows."""


def stand_in(spark: "SparkSession", topic: str) -> "DataFrame":
    """A table with a topic's columns and no rows; the optimizer does not know that it has none."""
    from pyspark.sql.types import StructField, StructType

    marked = StructType(
        [StructField(part.name, part.dataType, True, {_MARK: topic}) for part in SCHEMA.fields]
    )
    return spark.createDataFrame(spark.sparkContext.emptyRDD(), marked)


def analyze(spark: "SparkSession", sql: str, provide: Callable[[str], None]) -> Any:
    """The statement's QueryExecution, not executed, commands neither. `provide` makes a table of a name or raises."""
    from pyspark.errors import AnalysisException

    asked: set[str] = set()
    with quiet_errors():
        state = spark._jsparkSession.sessionState()
        assert spark._jvm is not None, "a session of Spark Connect has no JVM here"
        skip = spark._jvm.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()
        while True:
            execution = state.executePlan(state.sqlParser().parsePlan(sql), skip)
            try:
                execution.assertAnalyzed()
            except AnalysisException as error:
                name = _missing_table(error)
                if name is None or name in asked or len(asked) == TABLES_MAX:
                    raise
                asked.add(name)
                provide(name)
            else:
                return execution


def _missing_table(error: Any) -> str | None:
    if error.getCondition() != _NOT_FOUND:
        return None
    parts = unquoted_parts(error.getMessageParameters()["relationName"])
    return parts[0] if len(parts) == 1 else None


def used_columns(execution: Any) -> dict[str, set[str]]:
    """Topic -> the columns the statement's result depends on. Topics the plan does not show are not in it: of those,
    and of commands, which do with their rows what they like, all columns count."""
    plan = execution.optimizedPlan()
    if _is_command(execution.analyzed()) or _is_command(plan):
        return {}
    used: set[str] = set()
    columns: list[tuple[str, str, str]] = []
    for tree in [plan, *_items(plan.subqueriesAll())]:
        used.update(_id(part) for part in _items(tree.output()))
        for node in _nodes(tree):
            children = _items(node.children())
            if not children:
                columns += [(_id(part), _topic(part), part.name()) for part in _items(node.output())]
            used.update(_id(part) for part in _items(node.references().toSeq()))
            if node.nodeName() not in _SAYS_ALL:
                used.update(_id(part) for child in children for part in _items(child.output()))
    found: dict[str, set[str]] = {}
    for number, topic, name in columns:
        if topic and name in COLUMNS:
            found.setdefault(topic, set())
            if number in used:
                found[topic].add(name)
    return found


def _is_command(plan: Any) -> bool:
    return any(kind.getSimpleName() == "Command" for kind in _interfaces(plan.getClass()))


def _interfaces(kind: Any) -> Iterator[Any]:
    while kind is not None:
        for one in kind.getInterfaces():
            yield one
            yield from _interfaces(one)
        kind = kind.getSuperclass()


def _nodes(tree: Any) -> Iterator[Any]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += _items(node.children())


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(number) for number in range(sequence.size())]


def _id(attribute: Any) -> str:
    return str(attribute.exprId().toString())


def _topic(attribute: Any) -> str:
    return str(json.loads(attribute.metadata().json()).get(_MARK, ""))
