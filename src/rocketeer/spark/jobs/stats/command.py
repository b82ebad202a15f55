"""`rocketeer spark stats`: how many messages, how large, how late, how evenly spread; as tables, JSON or a page."""

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from rocketeer.errors import ConfigError
from rocketeer.spark.jobs.chosen_messages import chosen_topics, known_queues, read_topics
from rocketeer.spark.jobs.moments import HELP, parse_duration_ms, parse_span
from rocketeer.spark.jobs.progress import JobProgress
from rocketeer.spark.jobs.query.terms import TableTerms
from rocketeer.spark.jobs.running import Run, job_command, say
from rocketeer.spark.jobs.stats.html import stats_page
from rocketeer.spark.jobs.stats.measures import COLUMNS, TOP, measures, stats
from rocketeer.spark.jobs.stats.tables import print_stats
from rocketeer.spark.jobs.stats.values import Stats
from rocketeer.spark.jobs.texts import time_text

__all__ = ["Stats", "measures", "stats", "write_page"]

_HASHED_GROUPS: Final = ("spark.sql.objectHashAggregate.sortBased.fallbackThreshold", "20000")
"""Spark sorts all rows from 128 groups on, which costs more than the groups' few MB."""


def write_page(
    found: Stats, path: "str | Path", *, title: str = "Messages", about: Sequence[tuple[str, str]] = ()
) -> None:
    """The HTML report as a file."""
    page = stats_page(found, title=title, about=about, made_ms=int(time.time() * 1000))
    Path(path).write_text(page, encoding="utf-8")


@job_command()
def command(
    run: Run,
    topic: Annotated[
        list[str] | None, typer.Option("-t", "--topic", help="May be repeated.  [default: all]")
    ] = None,
    pattern: Annotated[str | None, typer.Option(help="A regular expression for whole names.")] = None,
    lake: Annotated[str | None, typer.Option(help="Read a lake, with -n beside the brokers.")] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help=f"Stored then or later. {HELP}")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Stored before.")] = None,
    window: Annotated[
        str | None, typer.Option(help="Cut time into 10s, 5m, 1h ...  [default: what fits the span]")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="So many tags and hosts of each topic.")] = TOP,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a report with plots.")] = None,
) -> None:
    """Count and measure messages by topic, queue, tag, producer host and time."""
    begin, end = parse_span(since, until, datetime.now(UTC))
    window_ms = None if window is None else parse_duration_ms("--window", window)
    if window_ms is not None and window_ms < 1:
        raise ConfigError(f"--window {window}: write a time like 10s or 5m")
    if html is not None and not html.absolute().parent.is_dir():
        raise ConfigError(f"--html {html}: the folder does not exist")
    nameserver = run.nameserver if lake is not None else run.needed_nameserver()
    terms = TableTerms(nameserver=nameserver, lake=lake, since=begin, until=end)
    with run.spark("stats") as spark:
        spark.conf.set(*_HASHED_GROUPS)
        topics = chosen_topics(spark, terms, topic or (), pattern)
        rows = read_topics(spark, terms, topics, COLUMNS)
        with JobProgress("stats", quiet=run.quiet).during(spark, "reading"):
            found = stats(rows, window_ms=window_ms, top=top, queues=known_queues(terms, topics))
    if not topic and pattern is None:  # nobody asked for those, and some are the brokers' own
        found = replace(found, topics=tuple(one for one in found.topics if one.measures.messages))
    if html is not None:
        names = [one.topic for one in found.topics]
        title = f"Messages of {names[0]}" if len(names) == 1 else f"Messages of {len(names)} topics"
        write_page(found, html, title=title, about=_about(terms, names))
        say(f"report: {html.absolute()}")
    if as_json:
        print(json.dumps(found.to_json(), ensure_ascii=False))
    else:
        print_stats(found)


def _about(terms: TableTerms, topics: Sequence[str]) -> list[tuple[str, str]]:
    places = [
        *([f"brokers of {terms.nameserver}"] if terms.nameserver else []),
        *([f"lake {terms.lake}"] if terms.lake else []),
    ]
    ends = [
        None if when is None else time_text(int(when.timestamp() * 1000))
        for when in (terms.since, terms.until)
    ]
    asked = " ".join(f"{word} {when}" for word, when in zip(("since", "until"), ends, strict=True) if when)
    shown = ", ".join(topics[:10]) + (f" and {len(topics) - 10} more" if len(topics) > 10 else "")
    return [("From", " and ".join(places)), ("Topics", shown), ("Stored", asked or "at any time")]
