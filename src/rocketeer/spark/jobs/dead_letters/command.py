"""`rocketeer spark dead-letters`: what consumers gave up, by origin, reason and age; exported, or sent again."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as f
from rich.console import Console
from rich.text import Text

from rocketeer.errors import ConfigError
from rocketeer.spark.jobs.dead_letters.resend import RUN, check_targets, resend, target
from rocketeer.spark.jobs.dead_letters.rows import (
    AGES,
    GROUP,
    OLDER,
    ORIGIN,
    REASON,
    DeadLetterFilter,
    chosen,
    dead_letters,
    for_export,
    summary,
    with_origins,
)
from rocketeer.spark.jobs.moments import HELP, parse_span
from rocketeer.spark.jobs.progress import JobProgress
from rocketeer.spark.jobs.results import OutputFormat, cell, check_target, write_result
from rocketeer.spark.jobs.running import Run, job_command, say
from rocketeer.spark.jobs.terminal import columns_table, console
from rocketeer.spark.jobs.texts import bytes_text, counted, plain, second_text, shortened
from rocketeer.spark.jobs.trace.summary import json_ready
from rocketeer.spark.sink.options import AT_LEAST_ONCE, EFFECTIVELY_ONCE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["DeadLetterFilter", "chosen", "dead_letters", "resend", "summary", "with_origins"]


class ExportFormat(StrEnum):
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


class BodyForm(StrEnum):
    BASE64 = "base64"
    TEXT = "text"


_ENDINGS: Final = {
    ".json": ExportFormat.JSON, ".jsonl": ExportFormat.JSON, ".csv": ExportFormat.CSV,
    ".parquet": ExportFormat.PARQUET,
}  # fmt: skip


@job_command()
def command(
    run: Run,
    group: Annotated[
        list[str] | None, typer.Option("-g", "--group", help="Of this consumer group; may be repeated.")
    ] = None,
    message_id: Annotated[
        list[str] | None, typer.Option("--id", help="With this id; may be repeated.")
    ] = None,
    key: Annotated[
        list[str] | None, typer.Option("-k", "--key", help="With this key; may be repeated.")
    ] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", help="With this tag; may be repeated.")] = None,
    origin: Annotated[
        list[str] | None,
        typer.Option("-t", "--origin", metavar="TOPIC", help="Once in this topic; may be repeated."),
    ] = None,
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="A condition: \"properties['region'] = 'eu'\"")
    ] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help=f"Dead since then. {HELP}")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Dead before.")] = None,
    lake: Annotated[str | None, typer.Option(help="Read a lake, with -n beside the brokers.")] = None,
    show: Annotated[
        int, typer.Option("--list", min=0, metavar="N", help="Show so many of them one by one.")
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    export: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write them to a file (Parquet: a folder).")
    ] = None,
    form: Annotated[
        ExportFormat | None, typer.Option("--format", help="Of the export.  [default: by the file's ending]")
    ] = None,
    body: Annotated[BodyForm, typer.Option(help="Bodies in the export.")] = BodyForm.BASE64,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an export that is there.")] = False,
    again: Annotated[
        bool, typer.Option("--resend", help="Show what would be sent again; with --yes send it.")
    ] = False,
    to: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="Send all there.  [default: each to its origin]")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Resend without choosing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Really send.")] = False,
    run_name: Annotated[
        str, typer.Option("--run", help="Another name sends again what was sent before.")
    ] = RUN,
    at_least_once: Annotated[
        bool, typer.Option("--at-least-once", help="For brokers other than Rocketeer's; may send some twice.")
    ] = False,
) -> None:
    """Show, export or send again what consumer groups gave up."""
    begin, end = parse_span(since, until, now := datetime.now(UTC))
    choice = DeadLetterFilter(message_id or (), key or (), tag or (), origin or (), where)
    narrowed = not choice.is_everything or bool(group) or begin is not None or end is not None
    chosen_form = _export_form(export, form, overwrite)
    _check_resend(again, yes, to, narrowed or everything)
    nameserver = run.needed_nameserver() if lake is None or again else run.nameserver
    with run.spark("dead-letters") as spark:
        progress = JobProgress("dead-letters", quiet=run.quiet)
        source = None if lake is None else str(lake)
        read = dead_letters(spark, nameserver, groups=group, lake=source, since=begin, until=end)
        letters = chosen(read, choice).persist()
        with progress.during(spark, "reading"):
            groups = summary(letters, now).collect()
            some = _some(letters, max(show, 20 if again and not yes else 0), to)
        if as_json:
            print(json.dumps({"groups": json_ready(groups), "letters": json_ready(some)}, ensure_ascii=False))
        else:
            print_letters(groups, some, console())
        if chosen_form is not None and export is not None:
            rows = for_export(letters, text=body is BodyForm.TEXT)
            write_result(rows, chosen_form, export, rows_max=0, overwrite=overwrite)
            count = sum(row["messages"] for row in groups)
            say(f"exported {counted(count, 'dead letter')} to {export.absolute()}")
        if again:
            if yes and not at_least_once:
                run.if_stopped("; the same command sends the rest, and nothing twice")
            _resend(
                letters, groups, run.needed_nameserver(), to, run_name, at_least_once, yes, progress, spark
            )


def _export_form(export: Path | None, form: ExportFormat | None, overwrite: bool) -> OutputFormat | None:
    if export is None:
        if form is not None:
            raise ConfigError("--format is for --export FILE")
        return None
    found = form or _ENDINGS.get(export.suffix.lower())
    if found is None:
        raise ConfigError(f"--export {export}: say --format json, csv or parquet")
    chosen_form = OutputFormat(found.value)
    check_target(chosen_form, export, overwrite)
    return chosen_form


def _check_resend(again: bool, yes: bool, to: str | None, narrowed: bool) -> None:
    if not again and (yes or to is not None):
        raise ConfigError(f"{'--yes' if yes else '--to'} is for --resend")
    if again and not narrowed:
        raise ConfigError(
            "choose what to resend (--group, --id, --key, --tag, --origin, --where, --since), or say --all"
        )


def _resend(
    letters: DataFrame,
    groups: Sequence[Row],
    nameserver: str,
    to: str | None,
    run_name: str,
    at_least_once: bool,
    yes: bool,
    progress: JobProgress,
    spark: "SparkSession",
) -> None:
    count = sum(row["messages"] for row in groups)
    where = ", ".join(sorted({to or row[ORIGIN] or "?" for row in groups}))
    if not count:
        say("nothing to send")
    elif not yes:
        check_targets(letters, to)
        say(f"would send {counted(count, 'message')} to {where}; with --yes this is done")
    else:
        delivery = AT_LEAST_ONCE if at_least_once else EFFECTIVELY_ONCE
        with progress.during(spark, "sending"):
            sent = resend(letters, nameserver, to=to, run=run_name, delivery=delivery)
        note = "" if at_least_once else f"; those that run {run_name!r} sent before are not stored again"
        say(f"sent {counted(sent, 'message')} to {where}{note}")


def _some(letters: DataFrame, count: int, to: str | None) -> list[Row]:
    if not count:
        return []
    columns = ["msgId", "offsetMsgId", GROUP, ORIGIN, REASON, "tags", "keys", "storeTimestamp", "body"]
    return (
        letters.select(*columns, target(to).alias("to"))
        .orderBy(f.desc("storeTimestamp"), "msgId")
        .limit(count)
        .collect()
    )


def print_letters(groups: Sequence[Row], some: Sequence[Row], show: Console) -> None:
    """The summary, and some of the letters one by one."""
    if not groups:
        show.print("no dead letters")
        return
    table = columns_table(
        ["group", "origin", "reason"],
        ["messages", "bytes", "oldest (UTC)", *[name for name, _ in AGES], OLDER],
    )
    for row in groups:
        ages = [f"{row[name]:,}" for name in (*[name for name, _ in AGES], OLDER)]
        table.add_row(
            _text(row[GROUP]), _text(row[ORIGIN] or "?"), row[REASON], f"{row['messages']:,}",
            bytes_text(row["bytes"]), _when(row["oldest"]), *ages,
        )  # fmt: skip
    show.print(table)
    if some:
        table = columns_table(["id", "group", "to", "tags", "keys", "dead since (UTC)", "body"], [])
        for row in some:
            table.add_row(
                _text(row["msgId"]), _text(row[GROUP]), _text(row["to"] or "?"), _text(row["tags"] or ""),
                _text(row["keys"] or ""), _when(row["storeTimestamp"]),
                _text(shortened(cell(bytes(row["body"][:200])), 40)),
            )  # fmt: skip
        show.print(table)


def _when(time: datetime) -> str:
    """A time in UTC: Spark gives times of this machine's zone, without saying so."""
    return second_text(round(time.timestamp() * 1000))


def _text(text: str) -> Text:
    return Text(shortened(plain(text), 60))
