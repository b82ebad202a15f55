"""`rocketeer spark trace`: the histories of messages, from what traced clients wrote to the trace topic."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from rocketeer.errors import ConfigError, RocketeerError
from rocketeer.model.topic import TRACE_TOPIC
from rocketeer.spark.jobs.chosen_messages import read_topics
from rocketeer.spark.jobs.moments import HELP, parse_span
from rocketeer.spark.jobs.progress import JobProgress
from rocketeer.spark.jobs.query.tables import TopicTables
from rocketeer.spark.jobs.query.terms import TableTerms
from rocketeer.spark.jobs.running import Run, job_command
from rocketeer.spark.jobs.terminal import console
from rocketeer.spark.jobs.trace.message_histories import STATES, trace, trace_events
from rocketeer.spark.jobs.trace.summary import by_group, by_topic, json_ready, print_histories, print_summary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["by_group", "by_topic", "trace", "trace_events"]


class Slowest(StrEnum):
    """Which part of a life to order by."""

    PUBLISH = "publish"
    WAIT = "wait"
    CONSUME = "consume"


_COLUMN: Final = {
    Slowest.PUBLISH: "publishMs",
    Slowest.WAIT: "storeToConsumeMs",
    Slowest.CONSUME: "consumeMs",
}


class NoTraces(RocketeerError):
    """There are no traces to read: nobody has written any."""


def read_traces(
    spark: "SparkSession", terms: TableTerms, topic: str = TRACE_TOPIC, names: Sequence[str] = ()
) -> DataFrame:
    """Trace messages; with `names`, ids or keys, only those that speak of one of them."""
    if topic not in TopicTables(spark, terms).names():
        raise NoTraces(
            f"there is no topic {topic!r}: brokers make it with traceTopicEnable=true, and clients write to it "
            "with trace=True"
        )
    if not names:
        return read_topics(spark, terms, [topic], ["body"])
    rows = read_topics(spark, terms, [topic], ["body", "keys"])
    wanted = f.array(*[f.lit(name) for name in names])
    # Java's clients note a batch's ids as one word, with commas.
    return rows.where(f.arrays_overlap(f.split("keys", "[ ,]"), wanted))


def chosen_histories(
    histories: DataFrame,
    *,
    ids: Sequence[str] = (),
    keys: Sequence[str] = (),
    topics: Sequence[str] = (),
    states: Sequence[str] = (),
    since: datetime | None = None,
    until: datetime | None = None,
) -> DataFrame:
    """Histories with one of the ids, and of the keys, topics, states, as far as given; begun in [since, until)."""
    if ids:
        histories = histories.where(f.col("msgId").isin(*ids))
    if keys:
        histories = histories.where(
            f.arrays_overlap(f.split("keys", " "), f.array(*[f.lit(key) for key in keys]))
        )
    if topics:
        histories = histories.where(f.col("topic").isin(*topics))
    if states:
        histories = histories.where(f.col("state").isin(*states))
    began = f.coalesce("published", f.col("consumptions")[0]["began"])
    if since is not None:
        histories = histories.where(began >= f.lit(since))
    if until is not None:
        histories = histories.where(began < f.lit(until))
    return histories


@job_command()
def command(
    run: Run,
    message_id: Annotated[
        list[str] | None, typer.Option("--id", help="A message's id; may be repeated.")
    ] = None,
    key: Annotated[list[str] | None, typer.Option("--key", help="A message's key; may be repeated.")] = None,
    topic: Annotated[list[str] | None, typer.Option("-t", "--topic", help="May be repeated.")] = None,
    group: Annotated[
        str | None, typer.Option("-g", "--group", help="Only this group's consumptions count.")
    ] = None,
    state: Annotated[list[str] | None, typer.Option(help=f"{', '.join(STATES)}; may be repeated.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help=f"Published then or later. {HELP}")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Published before.")] = None,
    slowest: Annotated[
        Slowest | None, typer.Option(help="Order messages by this part of their histories.")
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="Show so many messages one by one.")] = 20,
    store_times: Annotated[
        bool, typer.Option("--store-times", help="Read -t too, for the brokers' own times of storing.")
    ] = False,
    trace_topic: Annotated[str, typer.Option(help="Where the traces are.")] = TRACE_TOPIC,
    lake: Annotated[str | None, typer.Option(help="Read a lake, with -n beside the brokers.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Tell histories of messages: published, stored, each consumption; what took long, what was never consumed."""
    begin, end = parse_span(since, until, datetime.now(UTC))
    states = [one.replace("-", " ") for one in state or ()]
    unknown = [one for one in states if one not in STATES]
    if unknown:
        raise ConfigError(f"--state {unknown[0]!r}: choose of {', '.join(STATES)}")
    if store_times and not topic:
        raise ConfigError("--store-times reads the topics themselves: name them with -t")
    nameserver = run.nameserver if lake is not None else run.needed_nameserver()
    # Traces come after what they tell of, so there is a begin to what must be read, but no end.
    terms = TableTerms(nameserver=nameserver, lake=lake, since=begin)
    with run.spark("trace") as spark:
        found = read_traces(spark, terms, trace_topic, [*(message_id or ()), *(key or ())])
        messages = (
            read_topics(spark, terms, topic, ["msgId", "storeTimestamp"]) if store_times and topic else None
        )
        histories = chosen_histories(
            trace(found, group=group, messages=messages),
            ids=message_id or (), keys=key or (), topics=topic or (), states=states, since=begin, until=end,
        ).persist()  # fmt: skip
        with JobProgress("trace", quiet=run.quiet).during(spark, "reading"):
            topics = by_topic(histories).collect()
            groups = by_group(histories).collect()
            order = f.desc(_COLUMN[slowest]) if slowest is not None else f.desc("published")
            shown = histories.orderBy(order, "msgId").limit(limit).collect() if limit else []
    if as_json:
        parts = {"topics": topics, "groups": groups, "lives": shown}
        print(json.dumps({name: json_ready(rows) for name, rows in parts.items()}, ensure_ascii=False))
        return
    show = console()
    if not topics:
        show.print("no traces of such messages")
        return
    print_summary(topics, groups, show)
    print_histories(shown, show)
