"""The messages a report is about: topics of a cluster, of a lake, or of both without overlap, as one DataFrame."""

import re
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from rocketeer.errors import ConfigError, NoRoute
from rocketeer.model.queue import MessageQueue
from rocketeer.model.topic import DLQ_PREFIX, RETRY_PREFIX, is_system_topic
from rocketeer.spark.jobs.lake.folder import lake_offsets
from rocketeer.spark.jobs.query.tables import TopicTables
from rocketeer.spark.jobs.query.terms import TableTerms
from rocketeer.spark.source.options import parse_options
from rocketeer.spark.source.reading import open_view

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_topics(
    spark: "SparkSession", terms: TableTerms, topics: Sequence[str], columns: Iterable[str] | None = None
) -> "DataFrame":
    """All of these topics under each other; with `columns` only those are read, and the others are NULL."""
    if not topics:
        raise ConfigError("no topic to read")
    return TopicTables(spark, terms).joined(topics, columns)


def chosen_topics(
    spark: "SparkSession", terms: TableTerms, topics: Sequence[str], pattern: str | None
) -> list[str]:
    """The topics a person named, those a pattern fits, or without either all but the system's."""
    if topics and pattern is not None:
        raise ConfigError("name topics, or give a pattern for their names; not both")
    tables = TopicTables(spark, terms)
    if topics:
        return list(dict.fromkeys(tables.resolve(topic) for topic in topics))
    try:
        fits = re.compile(pattern or ".*").fullmatch
    except re.error as error:
        raise ConfigError(f"--pattern {pattern!r} is no regular expression: {error}") from None
    found = [topic for topic in tables.names() if not _is_for_the_system(topic) and fits(topic)]
    if not found:
        raise ConfigError(f"no topic fits {pattern!r}" if pattern else "there are no topics")
    return found


def _is_for_the_system(topic: str) -> bool:
    return (
        is_system_topic(topic)
        or topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
        or topic.endswith("_REPLY_TOPIC")
    )


def known_queues(terms: TableTerms, topics: Sequence[str]) -> set[MessageQueue]:
    """Every queue of these topics, also the empty ones."""
    found: set[MessageQueue] = set()
    if terms.lake is not None:
        found |= {queue for queue in lake_offsets(terms.lake) if queue.topic in topics}
    live = terms.live
    for topic in topics if live is not None else ():
        with closing(open_view(parse_options({**(live or {}), "subscribe": topic}, streaming=False))) as view:
            try:
                found |= view.queues()
            except NoRoute:
                if terms.lake is None:
                    raise
    return found
