"""Dead letters as DataFrames: what is in the %DLQ% topics, with where it came from; chosen, and summed up."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from rocketeer.errors import ConfigError, RocketeerError
from rocketeer.model.property_names import ORIGIN_MESSAGE_ID, RETRY_TOPIC
from rocketeer.model.topic import DLQ_PREFIX, dlq_topic
from rocketeer.spark.jobs.query.tables import TopicTables
from rocketeer.spark.jobs.query.terms import TableTerms
from rocketeer.spark.source.columns import COLUMNS, SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GROUP, ORIGIN, ORIGIN_ID, REASON = "consumerGroup", "originTopic", "originMsgId", "reason"
AGES: Final = (("< 1 h", 3600), ("< 1 d", 86_400), ("< 7 d", 7 * 86_400))
OLDER: Final = ">= 7 d"


class NoDeadLetters(RocketeerError):
    """A group without a dead-letter topic."""


@dataclass(frozen=True)
class DeadLetterFilter:
    """Which dead letters; each part narrows it further, a part that is empty does not."""

    ids: Sequence[str] = ()
    """Ids of the dead letter, of its place in the store, or of the place of the message it was."""
    keys: Sequence[str] = ()
    tags: Sequence[str] = ()
    origins: Sequence[str] = ()
    where: str | None = None
    """A condition of Spark SQL over the columns: `properties['colour'] = 'red' AND reconsumeTimes > 3`."""

    @property
    def is_everything(self) -> bool:
        return not (self.ids or self.keys or self.tags or self.origins or self.where)


def dead_letters(
    spark: "SparkSession",
    nameserver: str | None = None,
    *,
    groups: Sequence[str] | None = None,
    lake: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> DataFrame:
    """The dead letters of these consumer groups, or of all: the source's columns and

    consumerGroup, originTopic and originMsgId (where the message was first; null if nobody noted it), and reason.
    """
    tables = TopicTables(spark, TableTerms(nameserver=nameserver, lake=lake, since=since, until=until))
    there = {topic for topic in tables.names() if topic.startswith(DLQ_PREFIX)}
    topics = sorted(there)
    if groups is not None:
        topics = [dlq_topic(group.removeprefix(DLQ_PREFIX)) for group in dict.fromkeys(groups)]
        missing = [topic for topic in topics if topic not in there]
        if missing:
            group = missing[0].removeprefix(DLQ_PREFIX)
            raise NoDeadLetters(f"group {group!r} has no dead letters: there is no topic {missing[0]!r}")
    frame = tables.joined(topics) if topics else spark.createDataFrame([], SCHEMA)
    return with_origins(frame)


def with_origins(frame: DataFrame) -> DataFrame:
    """Rows of %DLQ% topics, however they were read, with what is known of each one's fate."""
    failed = f.col("reconsumeTimes")
    reason = (
        f.when(f.col("properties")[RETRY_TOPIC].isNull(), f.lit("sent there directly"))
        .when(failed <= 1, f.lit("failed once"))
        .otherwise(f.format_string("failed %d times", failed))
    )
    return frame.select(
        *COLUMNS,
        f.substring("topic", len(DLQ_PREFIX) + 1, 1 << 16).alias(GROUP),
        f.col("properties")[RETRY_TOPIC].alias(ORIGIN),
        f.col("properties")[ORIGIN_MESSAGE_ID].alias(ORIGIN_ID),
        reason.alias(REASON),
    )


def chosen(letters: DataFrame, choice: DeadLetterFilter) -> DataFrame:
    """The dead letters that fit; ConfigError if the condition is none."""
    if choice.ids:
        letters = letters.where(
            f.col("msgId").isin(*choice.ids)
            | f.col("offsetMsgId").isin(*choice.ids)
            | f.col(ORIGIN_ID).isin(*choice.ids)
        )
    if choice.keys:
        wanted = f.array(*[f.lit(key) for key in choice.keys])
        letters = letters.where(f.arrays_overlap(f.split("keys", " "), wanted))
    if choice.tags:
        letters = letters.where(f.col("tags").isin(*choice.tags))
    if choice.origins:
        letters = letters.where(f.col(ORIGIN).isin(*choice.origins))
    if choice.where is not None:
        from pyspark.errors import AnalysisException, ParseException

        try:
            letters = letters.where(f.expr(choice.where))
            letters.schema  # noqa: B018 makes Spark look at it
        except (AnalysisException, ParseException) as error:
            first = str(error).strip().split("\n")[0]
            raise ConfigError(f"the condition {choice.where!r} is not understood: {first}") from None
    return letters


def summary(letters: DataFrame, now: datetime) -> DataFrame:
    """By group, origin and reason: messages, bytes, the oldest and newest, and how many of which age."""
    age_s = f.lit(now).cast("timestamp").cast("double") - f.col("storeTimestamp").cast("double")
    counts: list[Column] = []
    low = None
    for name, limit_s in AGES:
        young = age_s < limit_s
        counts.append(f.count_if(young if low is None else young & (age_s >= low)).alias(name))
        low = limit_s
    counts.append(f.count_if(age_s >= AGES[-1][1]).alias(OLDER))
    return (
        letters.groupBy(GROUP, ORIGIN, REASON)
        .agg(
            f.count("*").alias("messages"),
            f.sum(f.octet_length("body")).alias("bytes"),
            f.min("storeTimestamp").alias("oldest"),
            f.max("storeTimestamp").alias("newest"),
            *counts,
        )
        .orderBy(f.desc("messages"), GROUP, ORIGIN, REASON)
    )


def for_export(letters: DataFrame, *, text: bool) -> DataFrame:
    """With bodies as text: those that are no UTF-8 stand as base64 in a column of their own, so nothing is lost."""
    if not text:
        return letters
    readable = f.is_valid_utf8(f.col("body").cast("string"))
    plain = f.when(readable, f.col("body").cast("string")).alias("body")
    packed = f.when(~readable, f.base64("body")).alias("bodyBase64")
    columns = [plain if name == "body" else f.col(name) for name in letters.columns]
    return letters.select(*columns, packed)
