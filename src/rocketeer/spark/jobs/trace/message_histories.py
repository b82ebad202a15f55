"""Trace messages as DataFrames: `trace_events`, a row per line of the clients; `trace`, a row per message's life."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from rocketeer.record.trace import MessageKind, TraceEvent, TraceKind, decode_trace

EVENT_SCHEMA: Final = (
    "kind string, msgId string, time timestamp, groupName string, topic string, tags string, keys string, "
    "storeHost string, bodyBytes int, costMs long, messageKind int, offsetMsgId string, success boolean, "
    "clientHost string, requestId string, retries int, code int, transactionId string, transactionState string, "
    "fromCheck boolean"
)
_BATCH: Final = 4096
CODES: Final = ("success", "time-out", "exception", "returned null", "failed")
"""How a listener ended, by the code in the trace."""

PUBLISH_FAILED, ROLLED_BACK, OPEN, NEVER, UNDER_WAY, FAILED, CONSUMED = (
    "publish failed", "rolled back", "transaction open", "never consumed", "being consumed", "failed", "consumed",
)  # fmt: skip
STATES: Final = (CONSUMED, FAILED, UNDER_WAY, NEVER, OPEN, ROLLED_BACK, PUBLISH_FAILED)


def trace_events(df: DataFrame) -> DataFrame:
    """Every line of the trace messages in `df` (of which `body` is needed); lines of a batch once per message."""
    return df.select("body").mapInArrow(_decoded, EVENT_SCHEMA)


def _decoded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows: list[tuple[Any, ...]] = []
    for batch in batches:
        for body in batch.column(0):
            for event in decode_trace(body.as_py() or b""):
                rows += _rows(event)
            if len(rows) >= _BATCH:
                yield _record_batch(rows)
                rows = []
    yield _record_batch(rows)


def _rows(event: TraceEvent) -> Iterable[tuple[Any, ...]]:
    """A batch of messages is traced as one, with all their ids."""
    for message_id in event.message_id.split(","):
        yield (
            str(event.kind), message_id, event.time_ms * 1000 if event.time_ms > 0 else None, event.group,
            event.topic, event.tags, event.keys, event.store_host, event.body_bytes, event.cost_ms,
            int(event.message_kind), event.offset_message_id, event.success, event.client_host,
            event.request_id, event.retries, int(event.code), event.transaction_id,
            event.transaction_state, event.from_check,
        )  # fmt: skip


_TEXT, _INT, _LONG, _FLAG = pa.string(), pa.int32(), pa.int64(), pa.bool_()
_ARROW: Final = pa.schema(
    [
        ("kind", _TEXT), ("msgId", _TEXT), ("time", pa.timestamp("us", "UTC")), ("groupName", _TEXT),
        ("topic", _TEXT), ("tags", _TEXT), ("keys", _TEXT), ("storeHost", _TEXT), ("bodyBytes", _INT),
        ("costMs", _LONG), ("messageKind", _INT), ("offsetMsgId", _TEXT), ("success", _FLAG),
        ("clientHost", _TEXT), ("requestId", _TEXT), ("retries", _INT), ("code", _INT),
        ("transactionId", _TEXT), ("transactionState", _TEXT), ("fromCheck", _FLAG),
    ]
)  # fmt: skip


def _record_batch(rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(_ARROW.names)
    arrays = [pa.array(values, kind.type) for values, kind in zip(columns, _ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW)


def trace(df: DataFrame, *, group: str | None = None, messages: DataFrame | None = None) -> DataFrame:
    """The histories of messages, from trace messages (`body` is needed) or from `trace_events`; a row per message id:

    msgId, topic, tags, keys, producerGroup, published, publishMs (what sending took), publishOk, storeHost, stored,
    bodyBytes, offsetMsgId, transaction (at, state, fromCheck; null if there was none), consumptions (in order: began,
    group, tookMs, ok, code, retries), tries, failures, retries, storeToConsumeMs (to the first consumption),
    consumeMs (of the last that succeeded), and state.

    `stored` is when the producer had its answer; with `messages` (rows of the topics themselves, their msgId and
    storeTimestamp) it is when the broker stored it. With `group` only consumptions by that group count.
    """
    events = df if "kind" in df.columns else trace_events(df)
    kind = f.col("kind")
    pub, ended = kind == TraceKind.PUB, kind == TraceKind.END_TRANSACTION
    histories = _consumed(events, group)
    ending = f.struct(f.col("time").alias("at"), f.col("transactionState").alias("state"), "fromCheck")
    published = (
        events.where(pub | ended)
        .groupBy("msgId")
        .agg(
            *[f.first(name, ignorenulls=True).alias(name) for name in ("topic", "tags", "keys")],
            _earliest(pub, "groupName", "producerGroup"),
            f.min(f.when(pub, f.col("time"))).alias("published"),
            _earliest(pub, "costMs", "publishMs"),
            f.bool_or(f.when(pub, f.col("success"))).alias("publishOk"),
            _earliest(pub, "storeHost", "storeHost"),
            _earliest(pub, "bodyBytes", "bodyBytes"),
            _earliest(pub, "messageKind", "messageKind"),
            _earliest(pub, "offsetMsgId", "offsetMsgId"),
            f.max_by(f.when(ended, ending), f.when(ended, f.col("time"))).alias("transaction"),
        )
    )
    histories = published.join(histories, "msgId", "full_outer")
    stored = f.timestamp_millis(f.unix_millis("published") + f.col("publishMs"))
    if messages is not None:
        times = messages.groupBy("msgId").agg(f.min("storeTimestamp").alias("storeTime"))
        histories = histories.join(times, "msgId", "left")
        stored = f.coalesce(f.col("storeTime"), stored)
    histories = histories.withColumn("stored", stored)
    return _measured(histories)


def _earliest(which: Column, name: str, alias: str) -> Column:
    return f.min_by(f.when(which, f.col(name)), f.when(which, f.col("time"))).alias(alias)


def _consumed(events: DataFrame, group: str | None) -> DataFrame:
    """Each consumption is two lines with one request id: before, and after."""
    before, after = f.col("kind") == TraceKind.SUB_BEFORE, f.col("kind") == TraceKind.SUB_AFTER
    each = (
        events.where(before | after)
        .groupBy("msgId", "requestId")
        .agg(
            f.first("groupName", ignorenulls=True).alias("group"),
            f.min(f.when(before, f.col("time"))).alias("began"),
            f.max(f.when(after, f.col("costMs"))).alias("tookMs"),
            f.bool_and(f.when(after, f.col("success"))).alias("ok"),
            f.max(f.when(after, f.col("code"))).alias("code"),
            f.max(f.when(before, f.col("retries"))).alias("retries"),
            f.first("keys", ignorenulls=True).alias("consumedKeys"),
        )
    )
    if group is not None:
        each = each.where(f.col("group") == group)
    codes = f.array(*[f.lit(code) for code in CODES])
    one = f.struct("began", "group", "tookMs", "ok", f.get(codes, f.col("code")).alias("code"), "retries")
    return each.groupBy("msgId").agg(
        f.array_sort(f.collect_list(one)).alias("consumptions"),
        f.first("consumedKeys", ignorenulls=True).alias("consumedKeys"),
    )


def _measured(histories: DataFrame) -> DataFrame:
    tries = f.coalesce("consumptions", f.array())
    good = f.filter(tries, lambda each: each["ok"])
    rolled_back = f.coalesce(f.col("transaction")["state"] == "ROLLBACK_MESSAGE", f.lit(False))
    half = f.coalesce(f.col("messageKind") == int(MessageKind.TRANSACTION_HALF), f.lit(False))
    state = (
        f.when(f.size(good) > 0, CONSUMED)
        .when(f.exists(tries, lambda each: each["ok"].isNull()), UNDER_WAY)
        .when(f.size(tries) > 0, FAILED)
        .when(f.col("publishOk") == f.lit(False), PUBLISH_FAILED)
        .when(rolled_back, ROLLED_BACK)
        .when(half & f.col("transaction").isNull(), OPEN)
        .otherwise(NEVER)
    )
    first_began = f.array_min(f.transform(tries, lambda each: each["began"]))
    return histories.select(
        "msgId",
        "topic",
        "tags",
        f.coalesce("keys", "consumedKeys").alias("keys"),
        "producerGroup",
        "published",
        "publishMs",
        "publishOk",
        "storeHost",
        "stored",
        "bodyBytes",
        "offsetMsgId",
        "transaction",
        tries.alias("consumptions"),
        f.size(tries).alias("tries"),
        f.size(f.filter(tries, lambda each: ~each["ok"])).alias("failures"),
        f.coalesce(f.array_max(f.transform(tries, lambda each: each["retries"])), f.lit(0)).alias("retries"),
        (f.unix_millis(first_began) - f.unix_millis("stored")).alias("storeToConsumeMs"),
        f.when(f.size(good) > 0, f.element_at(good, -1)["tookMs"]).alias("consumeMs"),
        state.alias("state"),
    )
