"""Lives of messages summed up and shown: by topic, by consumer group, and one by one."""

from base64 import b64encode
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as f
from rich.console import Console
from rich.text import Text

from rocketeer.spark.jobs.terminal import columns_table
from rocketeer.spark.jobs.texts import ms_text, plain, shortened, time_text
from rocketeer.spark.jobs.trace.message_histories import STATES

QUANTILES: Final = (0.5, 0.95, 0.99)


def by_topic(histories: DataFrame) -> DataFrame:
    """One row per topic: messages, how many are in which state, what publishing took (p50, p95, p99, max)."""
    states = [f.count_if(f.col("state") == state).alias(state) for state in STATES]
    return (
        histories.groupBy("topic")
        .agg(
            f.count("*").alias("messages"),
            *_spread("publishMs", f.col("publishMs")),
            *states,
            f.count_if(f.col("retries") > 0).alias("retried"),
        )
        .orderBy(f.desc("messages"), "topic")
    )


def by_group(histories: DataFrame) -> DataFrame:
    """One row per topic and group: tries, failures, retries, how long to the first try, and how long a try.

    Only first tries count for the way there: what a retry waits is the broker's delay.
    """
    each = histories.select("msgId", "topic", "stored", f.explode("consumptions").alias("each")).select(
        "msgId", "topic", "stored", "each.*"
    )
    way = f.when(f.col("retries") == 0, f.unix_millis("began") - f.unix_millis("stored"))
    return (
        each.groupBy("topic", "group")
        .agg(
            f.count_distinct("msgId").alias("messages"),
            f.count("*").alias("tries"),
            f.count_if(~f.col("ok")).alias("failures"),
            f.count_if(f.col("retries") > 0).alias("retries"),
            *_spread("storeToConsumeMs", way),
            *_spread("consumeMs", f.col("tookMs")),
        )
        .orderBy("topic", "group")
    )


def _spread(name: str, value: Column) -> list[Column]:
    return [f.percentile_approx(value, list(QUANTILES), 10_000).alias(name), f.max(value).alias(f"{name}Max")]


def json_ready(value: Any) -> Any:
    """A row of Spark as values for `json.dumps`; times as ISO texts in UTC, bytes as base64."""
    if isinstance(value, Row):
        return {name: json_ready(part) for name, part in value.asDict().items()}
    if isinstance(value, list | tuple):
        return [json_ready(part) for part in value]
    if isinstance(value, bytes | bytearray):
        return b64encode(value).decode()
    if isinstance(value, datetime):
        return time_text(_ms(value)).replace(" ", "T") + "Z"
    return value


def print_summary(topics: Sequence[Row], groups: Sequence[Row], console: Console) -> None:
    states = [state for state in STATES if any(row[state] for row in topics)]
    table = columns_table(
        ["topic"], ["messages", "publish p50", "p95", "p99", "max", *states, "retried"], title="Topics"
    )
    for row in topics:
        counts = [f"{row[state]:,}" for state in states]
        table.add_row(
            _name(row["topic"]),
            f"{row['messages']:,}",
            *_cells(row, "publishMs"),
            *counts,
            f"{row['retried']:,}",
        )
    console.print(table)
    if not groups:
        return
    heads = ["messages", "tries", "failures", "retries"]
    spreads = ["stored to first try p50", "p95", "p99", "max", "consuming p50", "p95", "p99", "max"]
    table = columns_table(["topic", "group"], [*heads, *spreads], title="Consumer groups")
    for row in groups:
        counts = [f"{row[head]:,}" for head in heads]
        spread = [*_cells(row, "storeToConsumeMs"), *_cells(row, "consumeMs")]
        table.add_row(_name(row["topic"]), _name(row["group"]), *counts, *spread)
    console.print(table)


def print_histories(histories: Sequence[Row], console: Console) -> None:
    """One message after the other, as it happened."""
    for life in histories:
        about = [f"topic {life['topic'] or '?'}"]
        about += [f"{name} {life[name]}" for name in ("tags", "keys") if life[name]]
        console.print(Text(plain(f"{life['msgId']}  {'  '.join(about)}  {life['state']}"), style="bold"))
        for when, what in life_lines(life):
            console.print(Text(plain(f"  {when:<24}{what}")))


def life_lines(life: Row) -> list[tuple[str, str]]:
    """(time, what happened) of a message, in order."""
    found: list[tuple[datetime, str]] = []
    if life["published"] is not None:
        took = ms_text(life["publishMs"] or 0)
        how = f"published by {life['producerGroup']} in {took}"
        found.append(
            (
                life["published"],
                how if life["publishOk"] else f"publishing by {life['producerGroup']} failed after {took}",
            )
        )
    if life["stored"] is not None and life["publishOk"] is not False:
        found.append((life["stored"], f"stored at {life['storeHost']}, {life['bodyBytes']:,} bytes"))
    ended = life["transaction"]
    if ended is not None and ended["at"] is not None:
        found.append(
            (
                ended["at"],
                f"transaction ended: {ended['state']}" + (" when asked" if ended["fromCheck"] else ""),
            )
        )
    for each in life["consumptions"]:
        if each["began"] is None:
            continue
        after = (
            f", {ms_text(_ms(each['began']) - _ms(life['stored']))} after storing" if life["stored"] else ""
        )
        retry = f", retry {each['retries']}" if each["retries"] else ""
        end = (
            "has not ended"
            if each["ok"] is None
            else f"{each['code'] or 'ended'} after {ms_text(each['tookMs'] or 0)}"
        )
        found.append((each["began"], f"consumed by {each['group']}{retry}{after}: {end}"))
    found.sort(key=lambda part: part[0])
    return [(time_text(_ms(when)), what) for when, what in found]


def _ms(when: datetime) -> int:
    return round(when.timestamp() * 1000)


def _cells(row: Row, name: str) -> list[str]:
    values = [*(row[name] or [None] * len(QUANTILES)), row[f"{name}Max"]]
    return ["-" if value is None else ms_text(value) for value in values]


def _name(text: str | None) -> Text:
    return Text(shortened(plain(text or "?"), 48))
