"""From messages to `Stats`: one pass of Spark over the rows, however many ways they are grouped."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as f

from rocketeer.errors import ConfigError
from rocketeer.model.queue import MessageQueue
from rocketeer.spark.jobs.stats.values import (
    PERCENTILES,
    Measures,
    Part,
    QueueMeasures,
    Spread,
    Stats,
    TopicStats,
    WindowPart,
    skew_of,
    window_for,
)

COLUMNS: Final = (
    "topic", "brokerName", "queueId", "body", "tags", "bornTimestamp", "bornHost", "storeTimestamp",
)  # fmt: skip
"""What is needed of the source's columns: naming them makes reading several times faster."""
GROUPS_MAX: Final = 50_000
TOP: Final = 20
_ACCURACY: Final = 10_000
_KEYS: Final = ("topic", "broker", "queue", "tag", "host", "window")
_BY_TOPIC, _BY_QUEUE, _BY_TAG, _BY_HOST, _BY_WINDOW = (
    ("topic",),
    ("topic", "broker", "queue"),
    ("topic", "tag"),
    ("topic", "host"),
    ("topic", "window"),
)


def stats(
    df: DataFrame,
    *,
    window_ms: int | None = None,
    top: int = TOP,
    queues: Iterable[MessageQueue] = (),
) -> Stats:
    """Messages, bytes, sizes and delays of the source's rows: by topic, queue, tag, producer host and time.

    Without `window_ms` the time the messages span decides, for which their measures are kept on disk meanwhile, as
    nothing is read twice. Of tags and hosts the `top` largest of each topic are given. `queues` are those that exist,
    so that empty ones count for the skew.
    """
    if top < 1:
        raise ConfigError(f"top is {top}: at least one tag and host is shown")
    if window_ms is not None and window_ms < 1:
        raise ConfigError(f"the window is {window_ms} ms: write a time like 10s or 5m")
    rows = _narrow(df)
    if window_ms is not None:
        return _collected(rows, window_ms, top, queues)
    rows = rows.persist(StorageLevel.DISK_ONLY)
    try:
        ends = rows.agg(f.min("store_ms").alias("first"), f.max("store_ms").alias("last")).head()
        assert ends is not None, "an aggregation without groups has one row"
        return _collected(rows, window_for(ends["first"] or 0, ends["last"] or 0), top, queues)
    finally:
        rows.unpersist()


def measures(df: DataFrame, *by: str | Column) -> DataFrame:
    """The same measures grouped by anything: `measures(orders, "tags", f.hour("storeTimestamp"))`.

    `size` and `delay` have the percentiles 0.5, 0.9, 0.95 and 0.99; the delay is in milliseconds.
    """
    kept = [column for column in df.columns if column != "body"]
    rows = df.select(*kept, *_measured(df))
    return rows.groupBy(*by).agg(*_aggregates())


def _measured(df: DataFrame) -> list[Column]:
    stored, born = f.unix_millis(df["storeTimestamp"]), f.unix_millis(df["bornTimestamp"])
    return [
        f.octet_length(df["body"]).cast("long").alias("size"),
        stored.alias("store_ms"),
        (stored - born).alias("delay"),
    ]


def _narrow(df: DataFrame) -> DataFrame:
    return df.select(
        "topic",
        f.col("brokerName").alias("broker"),
        f.col("queueId").alias("queue"),
        f.col("tags").alias("tag"),
        # The port is another one for every connection.
        f.regexp_replace("bornHost", ":[0-9]+$", "").alias("host"),
        *_measured(df),
    )


def _aggregates() -> list[Column]:
    found = [
        f.count("*").alias("messages"),
        f.sum("size").alias("bytes"),
        f.min("store_ms").alias("first_ms"),
        f.max("store_ms").alias("last_ms"),
        f.count_if(f.col("delay") < 0).alias("born_later"),
    ]
    for name in ("size", "delay"):
        found += [
            f.min(name).alias(f"{name}_min"),
            f.percentile_approx(name, list(PERCENTILES), _ACCURACY).alias(name),
            f.max(name).alias(f"{name}_max"),
        ]
    return found


def _collected(rows: DataFrame, window_ms: int, top: int, queues: Iterable[MessageQueue]) -> Stats:
    start = f.floor(f.col("store_ms") / window_ms) * window_ms
    rows = rows.withColumn("window", start.cast("long"))
    sets = [_BY_TOPIC, _BY_QUEUE, _BY_TAG, _BY_HOST, _BY_WINDOW]
    grouped = rows.groupingSets([[f.col(key) for key in keys] for keys in sets], *_KEYS)
    groups = grouped.agg(f.grouping_id().alias("kind"), *_aggregates())
    largest = Window.partitionBy("kind", "topic").orderBy(f.desc("messages"), "tag", "host")
    of_topic = Window.partitionBy("kind", "topic")
    cut = f.col("kind").isin(_kind(_BY_TAG), _kind(_BY_HOST)) & (f.col("place") > top)
    chosen = (
        groups.withColumn("place", f.row_number().over(largest))
        .withColumn("groups", f.count("*").over(of_topic))
        .where(~cut)
    )
    found = chosen.limit(GROUPS_MAX + 1).collect()
    if len(found) > GROUPS_MAX:
        raise ConfigError(
            f"more than {GROUPS_MAX} queues, windows, tags and hosts: choose fewer topics or longer windows"
        )
    return _assembled(found, window_ms, queues)


def _kind(keys: Sequence[str]) -> int:
    """Spark's grouping_id of a set: a bit for each key that is not in it, the last key's lowest."""
    return sum(1 << (len(_KEYS) - 1 - at) for at, key in enumerate(_KEYS) if key not in keys)


def _assembled(rows: Sequence[Row], window_ms: int, queues: Iterable[MessageQueue]) -> Stats:
    by_topic: dict[str, list[Row]] = {}
    for row in rows:
        by_topic.setdefault(row["topic"], []).append(row)
    known: dict[str, set[tuple[str, int]]] = {}
    for queue in queues:
        known.setdefault(queue.topic, set()).add((queue.broker_name, queue.queue_id))
    topics = [_topic(name, by_topic.get(name, []), known.get(name, set())) for name in {*by_topic, *known}]
    topics.sort(key=lambda topic: (-topic.measures.messages, topic.topic))
    return Stats(tuple(topics), window_ms)


def _topic(name: str, rows: Sequence[Row], known: set[tuple[str, int]]) -> TopicStats:
    def of(keys: Sequence[str]) -> Iterator[Row]:
        return (row for row in rows if row["kind"] == _kind(keys))

    there = {(row["broker"], row["queue"]): _measures(row) for row in of(_BY_QUEUE)}
    every = sorted({*there, *known})
    queues = tuple(QueueMeasures(*place, there.get(place, Measures())) for place in every)
    tags, hosts = sorted(of(_BY_TAG), key=_place), sorted(of(_BY_HOST), key=_place)
    windows = sorted(of(_BY_WINDOW), key=lambda row: int(row["window"]))
    return TopicStats(
        name,
        next((_measures(row) for row in of(_BY_TOPIC)), Measures()),
        skew_of(queue.measures.messages for queue in queues),
        queues,
        tuple(Part(row["tag"], _measures(row)) for row in tags),
        tags[0]["groups"] if tags else 0,
        tuple(Part(row["host"], _measures(row)) for row in hosts),
        hosts[0]["groups"] if hosts else 0,
        tuple(WindowPart(row["window"], _measures(row)) for row in windows),
    )


def _place(row: Row) -> int:
    return int(row["place"])


def _measures(row: Row) -> Measures:
    return Measures(
        row["messages"],
        row["bytes"],
        row["first_ms"],
        row["last_ms"],
        _spread(row, "size"),
        _spread(row, "delay"),
        row["born_later"],
    )


def _spread(row: Any, name: str) -> Spread:
    p50, p90, p95, p99 = row[name]
    return Spread(row[f"{name}_min"], p50, p90, p95, p99, row[f"{name}_max"])
