"""A lake against the topics it was made from: what both have is the same, column by column.

Both sides are summed up by stretches of a queue, so that little is shuffled; only stretches that differ are compared
row by row.
"""

from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Final

from rocketeer.audit.report import AuditReport
from rocketeer.model.queue import MessageQueue
from rocketeer.spark.jobs.lake.folder import Lake, read_files
from rocketeer.spark.jobs.lake.state import LakeState
from rocketeer.spark.jobs.topics import all_topics
from rocketeer.spark.source.options import parse_options
from rocketeer.spark.source.reading import open_view

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DIFFERS: Final = "archived message differs from the topic's"
STRETCH: Final = 4096
_KEY: Final = ["topic", "brokerName", "queueId", "queueOffset"]
_SHOWN: Final = 20

OffsetRanges = list[tuple[MessageQueue, int, int]]
"""Offsets [begin, end) of a queue that lake and topic both have."""


def audit_agreement(
    spark: "SparkSession", lake: Lake, state: LakeState, options: Mapping[str, str], report: AuditReport
) -> None:
    """Compare a lake with its topics; `options` are the source's: where the topics are, without which."""
    there = all_topics(options)
    topics = sorted({queue.topic for queue in state.ranges} & there)
    gone = sorted({queue.topic for queue in state.ranges} - there)
    if gone:
        report.notes.append(f"not there any more, so not compared: {', '.join(gone[:10])}")
    if not topics:
        return
    chosen = {**options, "subscribe": ",".join(topics)}
    shared = shared_ranges(state, chosen)
    report.count(lake_rows_compared=sum(end - begin for _, begin, end in shared))
    if not shared:
        return
    files = [file for file in state.files.values() if lake.place.size(file.path) is not None]
    archived = _within(spark, read_files(spark, lake, files), shared)
    stored = _within(spark, spark.read.format("rocketmq").options(**chosen).load(), shared)
    _compare(archived, stored, report)


def shared_ranges(state: LakeState, options: Mapping[str, str]) -> OffsetRanges:
    with closing(open_view(parse_options(options, streaming=False))) as view:
        queues = view.queues()
        lows, highs = view.lows(queues), view.highs(queues)
    found: OffsetRanges = []
    for queue, ranges in state.archived().items():
        if queue in lows and queue in highs:
            for one in ranges:
                begin, end = max(one.begin, lows[queue]), min(one.end, highs[queue])
                if begin < end:
                    found.append((queue, begin, end))
    return found


def _within(spark: "SparkSession", frame: "DataFrame", shared: OffsetRanges) -> "DataFrame":
    """Only rows of the ranges, as their place and a hash of everything in them."""
    from pyspark.sql import functions as f

    from rocketeer.spark.jobs.replay.rows import joined_ranges

    values = [
        f.array_sort(f.map_entries("properties")) if name == "properties" else f.col(name)
        for name in frame.columns
        if name not in _KEY
    ]
    hashed = frame.select(*_KEY, f.xxhash64(*values).alias("hash"))
    return joined_ranges(spark, hashed, shared).select(*_KEY, "hash")


def _compare(archived: "DataFrame", stored: "DataFrame", report: AuditReport) -> None:
    from pyspark.sql import functions as f

    place = ["topic", "brokerName", "queueId", "stretch"]

    def summed(frame: "DataFrame", side: str) -> "DataFrame":
        stretches = frame.withColumn("stretch", f.floor(f.col("queueOffset") / STRETCH))
        return stretches.groupBy(*place).agg(
            f.count("*").alias(f"{side}Rows"), f.bit_xor("hash").alias(f"{side}Hash")
        )

    both = summed(archived, "lake").join(summed(stored, "topic"), place, "full_outer")
    same = f.col("lakeRows").eqNullSafe(f.col("topicRows")) & f.col("lakeHash").eqNullSafe(f.col("topicHash"))
    odd = both.where(~same).select(*place).collect()
    if not odd:
        return
    spark = archived.sparkSession
    stretches = f.broadcast(spark.createDataFrame([tuple(row) for row in odd], both.select(*place).schema))

    def rows(frame: "DataFrame", side: str) -> "DataFrame":
        placed = frame.withColumn("stretch", f.floor(f.col("queueOffset") / STRETCH)).join(stretches, place)
        return placed.groupBy(*_KEY).agg(f.sort_array(f.collect_list("hash")).alias(f"{side}Hashes"))

    paired = rows(archived, "lake").join(rows(stored, "topic"), _KEY, "full_outer")
    different = paired.where(~f.col("lakeHashes").eqNullSafe(f.col("topicHashes"))).orderBy(*_KEY).cache()
    count = different.count()
    for row in different.limit(_SHOWN).collect():
        name = f"{row.topic}/{row.queueId} of {row.brokerName}"
        found = "none" if row.lakeHashes is None else f"{len(row.lakeHashes)} with another content"
        expected = "none" if row.topicHashes is None else "the topic's message, once"
        report.findings.add(DIFFERS, name, int(row.queueOffset), expected, found, 0)
    report.findings.more(DIFFERS, count)
    different.unpersist()
