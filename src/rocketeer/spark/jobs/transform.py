"""`rocketeer spark transform`: topic to topic, by SQL or a Python function; streaming, from a checkpoint."""

import importlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from rocketeer.errors import ConfigError, RocketeerError
from rocketeer.extras import users_code
from rocketeer.spark.failures import BY_OPTION, quiet_errors
from rocketeer.spark.jobs.checkpoints import claim
from rocketeer.spark.jobs.moments import parse_duration_ms
from rocketeer.spark.jobs.progress import JobProgress
from rocketeer.spark.jobs.query.command import json_terms
from rocketeer.spark.jobs.query.sql_text import all_statements, quoted
from rocketeer.spark.jobs.query.statements import analyze, stand_in, used_columns
from rocketeer.spark.jobs.query.tables import TopicTables
from rocketeer.spark.jobs.query.terms import TableTerms
from rocketeer.spark.jobs.running import (
    Run,
    SinkOptionTexts,
    SourceOptionTexts,
    batch_interval,
    job_command,
    key_values,
    say,
)
from rocketeer.spark.jobs.texts import counted
from rocketeer.spark.jobs.topic_sink import DELIVERIES, TopicSink, few_state_partitions
from rocketeer.spark.sink.options import EFFECTIVELY_ONCE
from rocketeer.spark.source.columns import COLUMNS, schema_text, with_all_columns
from rocketeer.spark.source.options import FORMAT, parse_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Transformation: TypeAlias = "str | Callable[[DataFrame], DataFrame]"
FOREVER: Final = "0 seconds"
_STARTS: Final = ("earliest", "latest")


class BadTransform(RocketeerError):
    """The SQL or the function is not one that makes messages of messages."""


@dataclass(frozen=True)
class TransformTerms:
    """From where to where. `docs/jobs.md` explains each."""

    sink: TopicSink
    checkpoint: str | Path
    topics: Sequence[str] = ()
    """What a function reads; SQL names its topics itself."""
    start: str = "earliest"
    interval: str | None = None
    """None: transform what is there and end. Otherwise go on for ever, a batch every so often, like `10 seconds`."""
    watermark: str | None = None
    """How late messages may come, like `10 minutes`: needed to aggregate by time windows. By storeTimestamp."""
    json: Mapping[str, str | None] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    """Further options of the source."""


def transform(spark: "SparkSession", work: Transformation, terms: TransformTerms) -> "StreamingQuery":
    """Start (or continue) a stream that makes messages of messages; raises before it starts if it cannot work.

    `work` is SQL whose tables are topics, or a function from a DataFrame with the source's columns to one with the
    sink's.

        sink = TopicSink("127.0.0.1:9876", "PaidOrders")
        sql = "SELECT body, keys, 'paid' AS tags FROM Orders WHERE tags = 'payment'"
        transform(spark, sql, TransformTerms(sink, "/data/checkpoints/paid")).awaitTermination()
    """
    if terms.start not in _STARTS:
        raise ConfigError(f"start {terms.start!r}: choose {' or '.join(_STARTS)}")
    source = _Source(spark, terms)
    if isinstance(work, str):
        if terms.topics:
            raise ConfigError("SQL names its topics itself: topics to read are for a function")
        frame, topics = source.by_sql(work)
    else:
        frame, topics = source.by_function(work), list(terms.topics)
    if terms.sink.topic in topics:
        raise ConfigError(
            f"topic {terms.sink.topic!r} would be read and written: the stream would feed itself"
        )
    if not frame.isStreaming:
        raise BadTransform(
            "the result does not come from the topics that are read: nothing would ever be written"
        )
    fitted = terms.sink.fitted(frame)
    claim(
        terms.checkpoint, {"job": "transform", "from": sorted(topics), "to": terms.sink.topic}, source.facts
    )
    return terms.sink.start(fitted, terms.checkpoint, f"transform to {terms.sink.topic}", terms.interval)


class _Source:
    """Topics as streaming tables."""

    def __init__(self, spark: "SparkSession", terms: TransformTerms) -> None:
        self._spark = spark
        self._terms = terms
        self._json = dict(terms.json)
        self.facts: dict[str, Any] = {}
        # Schemas that were found out stay as they are: a stream must not change its columns when it is started again.
        noted = _noted_facts(terms.checkpoint).get("json", {})
        for topic, schema in noted.items():
            if topic in self._json and self._json[topic] is None:
                self._json[topic] = schema
        self._tables = TopicTables(spark, TableTerms(terms.sink.nameserver, json=self._json))

    def by_sql(self, sql: str) -> "tuple[DataFrame, list[str]]":
        statements = all_statements(sql)
        if len(statements) != 1:
            raise BadTransform(f"one SELECT is needed, there are {len(statements)} statements")
        names: dict[str, str] = {}

        def provide(name: str) -> None:
            topic = names[name] = self._tables.resolve(name)
            self._tables.opened(topic, stand_in(self._spark, topic)).createOrReplaceTempView(quoted(name))

        try:
            used = used_columns(analyze(self._spark, statements[0], provide))
            if not names:
                raise BadTransform("the SQL names no topic: write SELECT ... FROM a topic")
            for name, topic in names.items():
                self.stream([topic], used.get(topic)).createOrReplaceTempView(quoted(name))
            with quiet_errors():
                frame = self._spark.sql(statements[0])
        finally:
            for name in names:
                self._spark.catalog.dropTempView(name)
        if not frame.columns:
            raise BadTransform("the SQL is a command: a SELECT is needed")
        return frame, list(names.values())

    def by_function(self, function: "Callable[[DataFrame], DataFrame]") -> "DataFrame":
        from pyspark.sql import DataFrame

        if not self._terms.topics:
            raise ConfigError("a function needs topics to read")
        for topic in self._terms.topics:
            if self._tables.resolve(topic) != topic:
                raise ConfigError(f"there is no topic {topic!r}")
        with users_code():
            frame = function(self.stream(self._terms.topics, None))
        if not isinstance(frame, DataFrame):
            raise BadTransform(f"the function returned {type(frame).__name__}, not a DataFrame")
        return frame

    def stream(self, topics: Sequence[str], columns: Iterable[str] | None) -> "DataFrame":
        """The topics from now on; of columns that are not asked for there is only NULL."""

        terms = self._terms
        wanted = set(COLUMNS) if columns is None else set(columns) or {"queueOffset"}
        if terms.watermark is not None:
            wanted.add("storeTimestamp")
        read = [name for name in COLUMNS if name in wanted]
        options = {"nameserver": terms.sink.nameserver, "startingOffsets": terms.start, **terms.options}
        options["subscribe"] = ",".join(topics)
        parse_options(options, streaming=True)
        frame = self._spark.readStream.format(FORMAT).options(**options).schema(schema_text(read)).load()
        if terms.watermark is not None:
            frame = frame.withWatermark("storeTimestamp", terms.watermark)
        whole = with_all_columns(frame, read)
        if len(topics) != 1:
            if self._json:
                raise ConfigError(
                    "JSON bodies are opened for one topic; the function can call from_json itself"
                )
            return whole
        opened = self._tables.opened(topics[0], whole)
        schema = self._tables.json_schema(topics[0])
        if schema is not None:
            self.facts.setdefault("json", {})[topics[0]] = schema.json()
        return opened


def _noted_facts(checkpoint: str | Path) -> dict[str, Any]:
    from rocketeer.spark.jobs.checkpoints import NOTE
    from rocketeer.spark.jobs.lake.notes import read_json

    note = Path(str(checkpoint).removeprefix("file://")) / NOTE
    return dict(read_json(note).get("facts", {})) if note.exists() else {}


def load_function(text: str) -> "Callable[[DataFrame], DataFrame]":
    """`module:function`; the module is looked for where a script started here would look."""
    module_name, colon, name = text.partition(":")
    if not colon or not module_name or not name:
        raise ConfigError(f"--function {text!r}: write module:function")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigError(f"--function {text!r}: {error}") from None
    found = getattr(module, name, None)
    if not callable(found):
        raise ConfigError(f"--function {text!r}: {module_name} has no function {name!r}")
    # What the function hands to Spark's workers goes there whole: they need not find the module.
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return found  # type: ignore[no-any-return]


@job_command(goes_on=True, over_loss=BY_OPTION)
def command(
    run: Run,
    to: Annotated[str, typer.Option(help="The topic to write; it must exist.")],
    checkpoint: Annotated[
        str, typer.Option(help="A folder of its own: where it goes on when started again.")
    ],
    sql: Annotated[str | None, typer.Option("-e", "--sql", help="A SELECT; its tables are topics.")] = None,
    file: Annotated[Path | None, typer.Option("-f", "--file", help="A file with the SELECT.")] = None,
    function: Annotated[
        str | None, typer.Option(metavar="MODULE:FUNCTION", help="Instead: takes and returns a DataFrame.")
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option("-t", "--topic", help="With --function: what to read; may be repeated."),
    ] = None,
    forever: Annotated[bool, typer.Option("--forever", help="Go on until stopped.")] = False,
    interval: Annotated[str | None, typer.Option(help="With --forever: a batch every so often.")] = None,
    start: Annotated[str, typer.Option(help="earliest or latest; for the first run.")] = "earliest",
    watermark: Annotated[
        str | None, typer.Option(help="'10 minutes': how late messages may be, to aggregate by time.")
    ] = None,
    delivery: Annotated[str, typer.Option(help=" or ".join(DELIVERIES))] = EFFECTIVELY_ONCE,
    id_column: Annotated[
        str | None, typer.Option(help="Of the result: unique in a batch; spares a shuffle.")
    ] = None,
    json: Annotated[
        list[str] | None, typer.Option(metavar="TOPIC", help="Open its JSON bodies into columns.")
    ] = None,
    json_schema: Annotated[
        list[str] | None, typer.Option(metavar="TOPIC=SCHEMA", help="The same with a schema.")
    ] = None,
    option: SourceOptionTexts = None,
    sink_option: SinkOptionTexts = None,
) -> None:
    """Make messages of messages, topic to topic; started again, it goes on where it stopped."""
    if sum(given is not None for given in (sql, file, function)) != 1:
        raise ConfigError("give one of --sql, --file and --function")
    work: Transformation = (
        load_function(function) if function is not None else sql or Path(str(file)).read_text("utf-8")
    )
    sink = TopicSink(
        run.needed_nameserver(), to, delivery, id_column, key_values("--sink-option", sink_option)
    )
    terms = TransformTerms(
        sink,
        checkpoint,
        topic or (),
        start,
        batch_interval(forever, interval, FOREVER),
        None if watermark is None else f"{parse_duration_ms('--watermark', watermark)} milliseconds",
        json_terms(json or [], json_schema or []),
        key_values("--option", option),
    )
    with run.spark("transform") as spark:
        few_state_partitions(spark)
        rows = JobProgress("transform", quiet=run.quiet).watch(transform(spark, work, terms))
        say(f"transformed {counted(rows, 'message')} into {to}")
