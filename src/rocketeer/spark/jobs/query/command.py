"""`rocketeer spark query`: SQL over topics and the lake, one table per topic; a prompt, or one go."""

import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rocketeer.errors import ConfigError, RocketeerError
from rocketeer.spark.failures import BY_OPTION, explain, interruption, quiet_errors
from rocketeer.spark.jobs.moments import HELP as MOMENTS
from rocketeer.spark.jobs.moments import parse_span, parse_version
from rocketeer.spark.jobs.progress import JobProgress
from rocketeer.spark.jobs.query.prompt import HELP, Prompt
from rocketeer.spark.jobs.query.sql_text import all_statements, quoted
from rocketeer.spark.jobs.query.statements import stand_in
from rocketeer.spark.jobs.query.tables import TopicTables
from rocketeer.spark.jobs.query.terms import ALL, TableTerms
from rocketeer.spark.jobs.results import OutputFormat, check_target, table_lines, write_result
from rocketeer.spark.jobs.running import Run, SourceOptionTexts, job_command, key_values, say, stop_work

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def query_tables(
    spark: "SparkSession",
    topics: Iterable[str],
    *,
    nameserver: str | None = None,
    lake: str | Path | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    json: Mapping[str, str | None] | None = None,
    options: Mapping[str, str] | None = None,
    lake_version: int | datetime | None = None,
) -> "dict[str, DataFrame]":
    """Tables of topics, from the brokers, a lake, or both without overlap; also as temporary views for `spark.sql`.

    `json` names topics (`*`: all) whose JSON bodies are opened into columns, each with its schema or None to find it
    out. A table is the topic as it is now: call again to see what came later.

        query_tables(spark, ["Orders"], nameserver="127.0.0.1:9876", lake="/data/lake", json={"Orders": None})
        spark.sql("SELECT tags, sum(amount) FROM Orders GROUP BY tags").show()
    """
    terms = TableTerms(nameserver, lake, since, until, json or {}, options or {}, lake_version)
    tables = TopicTables(spark, terms)
    found = {topic: tables.frame(tables.resolve(topic)) for topic in topics}
    for topic, frame in found.items():
        frame.createOrReplaceTempView(quoted(topic))
    return found


class Shell:
    """Runs statements and writes their results; errors are raised."""

    def __init__(
        self,
        spark: "SparkSession",
        terms: TableTerms,
        progress: JobProgress,
        *,
        rows_max: int,
        count_misfits: bool,
    ) -> None:
        self._spark = spark
        self._tables = TopicTables(spark, terms)
        self._progress = progress
        self._rows_max = rows_max
        self._count_misfits = count_misfits

    def execute(
        self,
        sql: str,
        form: OutputFormat = OutputFormat.TABLE,
        output: Path | None = None,
        *,
        overwrite: bool = False,
    ) -> None:
        used = self._tables.prepare(sql)
        try:
            with quiet_errors():
                df = self._spark.sql(sql)
                if df.columns:
                    with self._progress.during(self._spark):
                        write_result(df, form, output, rows_max=self._rows_max, overwrite=overwrite)
                for topic, columns in used.items():
                    if self._count_misfits and "body" in columns and self._tables.opens(topic):
                        rows, misfits = self._tables.count_misfits(topic)
                        if misfits:
                            say(
                                f"{topic}: {misfits:,} of {rows:,} messages are no JSON of its schema (NULLs)"
                            )
        finally:
            self._tables.forget()

    def list_tables(self, topic: str) -> None:
        """What `\\d` shows: all tables, or one's columns."""
        if not topic:
            views = {view.name: "view" for view in self._spark.catalog.listTables() if view.isTemporary}
            rows = [(quoted_if_odd(name), where) for name, where in {**self._tables.names(), **views}.items()]
            lines = table_lines(["table", "where"], rows, [False, False])
        else:
            found = self._tables.resolve(topic)
            fields = self._tables.opened(found, stand_in(self._spark, found)).schema.fields
            rows = [(quoted_if_odd(part.name), part.dataType.simpleString()) for part in fields]
            lines = table_lines(["column", "type"], rows, [False, False])
        print("\n".join(lines))

    def guarded(self, sql: str) -> None:
        """The same for a prompt: an error is one line, and the prompt goes on."""
        try:
            self.execute(sql)
        except (RocketeerError, OSError) as error:
            say(str(error))
        except Exception as error:
            stop = interruption(error)
            if stop is not None:
                raise stop from None
            text = explain(error, BY_OPTION)
            if text is None:
                raise
            say(text)

    def guarded_list(self, topic: str) -> None:
        try:
            self.list_tables(topic)
        except (RocketeerError, OSError) as error:
            say(str(error))


def quoted_if_odd(name: str) -> str:
    """A name as SQL wants it."""
    plain = name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit()
    return name if plain else quoted(name)


def json_terms(topics: Iterable[str], schemas: Iterable[str]) -> dict[str, str | None]:
    """`--json TOPIC` and `--json-schema TOPIC=SCHEMA` together."""
    found: dict[str, str | None] = dict.fromkeys(topics, None)
    for text in schemas:
        topic, equals, schema = text.partition("=")
        if not equals or not topic.strip() or not schema.strip():
            raise ConfigError(f"--json-schema {text!r}: write TOPIC=id long, amount double")
        found[topic.strip()] = schema.strip()
    return found


def sql_text(execute: str | None, file: Path | None) -> str | None:
    """What is to be run: given, read from the file or from a pipe; None at a terminal."""
    if execute is not None and file is not None:
        raise ConfigError("give the SQL with -e or in a file, not both")
    if execute is not None:
        return execute
    if file is not None and str(file) != "-":
        return file.read_text(encoding="utf-8")
    return None if sys.stdin.isatty() else sys.stdin.read()


@job_command(over_loss=BY_OPTION)
def command(
    run: Run,
    file: Annotated[
        Path | None, typer.Argument(help="A file with SQL; - is stdin.", show_default=False)
    ] = None,
    execute: Annotated[
        str | None, typer.Option("-e", "--execute", metavar="SQL", help="Run this and leave.")
    ] = None,
    lake: Annotated[
        str | None, typer.Option(help="A lake; tables are it and the live topics together.")
    ] = None,
    as_of: Annotated[
        str | None, typer.Option(help="An older version of the lake: its number, or a moment it was there.")
    ] = None,
    lake_only: Annotated[bool, typer.Option("--lake-only", help="Do not ask the brokers.")] = False,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help=f"Only messages stored then or later. {MOMENTS}")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Only messages stored before.")] = None,
    json: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC", help=f"Open its JSON bodies into columns; '{ALL}' for all topics."),
    ] = None,
    json_schema: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC=SCHEMA", help="The same with a schema: 'Orders=id long, amount double'."),
    ] = None,
    json_count: Annotated[
        bool, typer.Option(help="Count bodies that are no JSON; reads the topic's bodies once more.")
    ] = True,
    form: Annotated[OutputFormat, typer.Option("--format", help="Of the result.")] = OutputFormat.TABLE,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="A file; with Parquet a folder.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what --output names.")] = False,
    rows: Annotated[int, typer.Option(min=1, help="The most rows a table on the terminal shows.")] = 1000,
    option: SourceOptionTexts = None,
) -> None:
    """Ask topics and a lake with Spark SQL; without SQL there is a prompt."""
    if lake_only and lake is None:
        raise ConfigError("--lake-only needs --lake")
    if as_of is not None and lake is None:
        raise ConfigError("--as-of needs --lake")
    begin, end = parse_span(since, until, datetime.now(UTC))
    options = key_values("--option", option)
    stored = "storepath" in {name.lower() for name in options}
    terms = TableTerms(
        nameserver=None
        if lake_only or stored
        else run.nameserver
        if lake is not None
        else run.needed_nameserver(),
        lake=lake,
        since=begin,
        until=end,
        json=json_terms(json or [], json_schema or []),
        options=options,
        lake_version=None if as_of is None else parse_version("--as-of", as_of, datetime.now(UTC)),
    )
    text = sql_text(execute, file)
    statements = None if text is None else all_statements(text)
    if statements == []:
        raise ConfigError("there is no SQL to run")
    if statements is None and (output is not None or form is not OutputFormat.TABLE):
        raise ConfigError("--format and --output go with -e, a file or a pipe; the prompt shows tables")
    check_target(form, output, overwrite)
    with run.spark("query") as spark:
        shell = Shell(
            spark, terms, JobProgress("query", quiet=run.quiet), rows_max=rows, count_misfits=json_count
        )
        if statements is None:
            say("Spark SQL over topics; \\? for help")
            Prompt(shell.guarded, lambda: stop_work(spark), {"\\d": shell.guarded_list}).run()
            return
        *first, last = statements
        for statement in first:
            shell.execute(statement, form if form is not OutputFormat.PARQUET else OutputFormat.TABLE)
        shell.execute(last, form, output, overwrite=overwrite)


__all__ = ["HELP", "Shell", "command", "query_tables"]
