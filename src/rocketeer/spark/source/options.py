"""The source's options, typed: texts from Spark in, a checked value out. A wrong or unknown one is named."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from rocketeer.errors import BadSqlExpression, ConfigError
from rocketeer.filter.sql import sql_filter
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.model.subscription import SQL92, SUB_ALL, TAG, parse_tags
from rocketeer.model.topic import DLQ_PREFIX, RETRY_PREFIX, is_system_topic
from rocketeer.spark.option_fields import option, parse_texts
from rocketeer.spark.option_texts import (
    count_from,
    duration_ms,
    flag,
    group_of,
    nameservers_of,
    one_of,
    size_bytes,
    text_of,
    time_limit_ms,
    topic_of,
)
from rocketeer.spark.protection import Protection, with_environment
from rocketeer.spark.source.columns import FORMAT as FORMAT
from rocketeer.spark.source.offsets import EARLIEST, LATEST, QueueOffsets, parse_assign, parse_by_queue

StartPosition: TypeAlias = str | QueueOffsets
Times: TypeAlias = dict[MessageQueue, int]
"""`earliest`, `latest`, or places per queue."""


def _topics(name: str, text: str) -> tuple[str, ...]:
    topics = tuple(dict.fromkeys(topic for part in text.split(",") if (topic := part.strip())))
    if not topics:
        raise ConfigError(f"option {name!r} names no topic: write Orders,Payments")
    return tuple(topic_of(name, topic) for topic in topics)


def _pattern(name: str, text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ConfigError(f"option {name!r}: {text!r} is no regular expression: {error}") from None
    return text_of(name, text)


def _tags(name: str, text: str) -> str:
    try:
        parse_tags(text)
    except ValueError as error:
        raise ConfigError(f"option {name!r}: {error}") from None
    return text_of(name, text)


def _sql(name: str, text: str) -> str:
    try:
        sql_filter(text_of(name, text))
    except BadSqlExpression as error:
        raise ConfigError(f"option {name!r} is {text!r}: {error}") from None
    return text_of(name, text)


def _where(allowed: tuple[str, ...], lowest: int) -> Callable[[str, str], StartPosition]:
    def parse(name: str, text: str) -> StartPosition:
        if text.strip().lower() in ("earliest", "latest"):
            word = text.strip().lower()
            if word not in allowed:
                raise ConfigError(f"option {name!r} cannot be {word!r} here: nothing would be read")
            return word
        words = " or ".join(allowed)
        marks = (
            "an offset, -2 (earliest) or -1 (latest)" if lowest == EARLIEST else "an offset or -1 (latest)"
        )
        if not text.strip().startswith("{"):
            raise ConfigError(f"option {name!r} is {text!r}: write {words} or JSON with offsets per queue")
        marked = parse_by_queue(name, text, what=marks, lowest=lowest)
        return {queue: QueueOffset(mark) for queue, mark in marked.items()}

    return parse


def _times(name: str, text: str) -> Times:
    return parse_by_queue(name, text, what="a time in ms", lowest=0)


_start: Final = _where(("earliest", "latest"), EARLIEST)
_end: Final = _where(("latest",), LATEST)
_some: Final = count_from(1)
_any: Final = count_from(0)


@dataclass(frozen=True)
class SourceOptions(Protection):
    """What to read, and how. `docs/spark.md` explains each."""

    nameserver: str | None = option("nameserver", nameservers_of)
    store_path: str | None = option("storePath", text_of)
    broker_name: str = option("brokerName", text_of, "broker-a")
    assign: frozenset[MessageQueue] | None = option("assign", parse_assign)
    subscribe: tuple[str, ...] | None = option("subscribe", _topics)
    subscribe_pattern: str | None = option("subscribePattern", _pattern)
    tags: str | None = option("tags", _tags)
    sql: str | None = option("sql", _sql)
    starting_offsets: StartPosition | None = option("startingOffsets", _start)  # noqa: RUF009
    ending_offsets: StartPosition = option("endingOffsets", _end, "latest")  # noqa: RUF009
    starting_timestamp: int | None = option("startingTimestamp", _any)
    ending_timestamp: int | None = option("endingTimestamp", _any)
    starting_offsets_by_timestamp: Times | None = option("startingOffsetsByTimestamp", _times)  # noqa: RUF009
    ending_offsets_by_timestamp: Times | None = option("endingOffsetsByTimestamp", _times)  # noqa: RUF009
    timestamp_strategy: str = option("startingOffsetsByTimestampStrategy", one_of("error", "latest"), "error")
    max_offsets_per_trigger: int | None = option("maxOffsetsPerTrigger", _some)
    min_offsets_per_trigger: int | None = option("minOffsetsPerTrigger", _some)
    max_trigger_delay_ms: int = option("maxTriggerDelay", duration_ms, 15 * 60_000)
    max_bytes_per_trigger: int | None = option("maxBytesPerTrigger", size_bytes)
    min_partitions: int | None = option("minPartitions", _some)
    max_records_per_partition: int | None = option("maxRecordsPerPartition", _some)
    fail_on_data_loss: bool = option("failOnDataLoss", flag, True)
    group: str | None = option("group", group_of)
    read_from: str = option("readFrom", one_of("master", "slave"), "master")
    request_timeout_ms: int = option("requestTimeout", time_limit_ms, 30_000)
    fetch_timeout_ms: int = option("fetchTimeout", duration_ms, 120_000)
    fetch_retry_interval_ms: int = option("fetchRetryInterval", time_limit_ms, 200)
    fetch_bytes: int = option("fetchBytes", size_bytes, 4 << 20)
    discovery_interval_ms: int = option("discoveryInterval", duration_ms, 5_000)
    poll_interval_ms: int = option("pollInterval", duration_ms, 50)
    prefetch_records: int = option("prefetchRecords", _any, 500)

    def wants(self, topic: str) -> bool:
        """Whether a topic of this name is to be read. No pattern means the system's, retries or dead letters."""
        if self.assign is not None:
            return any(queue.topic == topic for queue in self.assign)
        if self.subscribe is not None:
            return topic in self.subscribe
        assert self.subscribe_pattern is not None, "one of the three is there: parse_options"
        hidden = is_system_topic(topic) or topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
        return not hidden and re.fullmatch(self.subscribe_pattern, topic) is not None

    @property
    def expression(self) -> tuple[str, str]:
        """What the broker is asked to filter by: kind and text."""
        return (SQL92, self.sql) if self.sql is not None else (TAG, self.tags or SUB_ALL)


_BATCH_ONLY: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_STREAM_ONLY: Final = (
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxBytesPerTrigger",
    "prefetchRecords",
    "group",
)


def parse_options(given: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Checked options; ConfigError names the first that is unknown, unreadable or does not fit the others."""
    if "fetchretries" in {name.lower() for name in given}:
        raise ConfigError(
            "option 'fetchRetries' is gone: fetchTimeout says how long a broker that does not answer is waited for"
        )
    values = parse_texts(SourceOptions, given, "source")
    wrong = _BATCH_ONLY if streaming else _STREAM_ONLY
    for name in wrong:
        if name.lower() in {given_name.lower() for given_name in given}:
            raise ConfigError(
                f"option {name!r} is for {'batches (spark.read)' if streaming else 'streams (spark.readStream)'} only"
            )
    options = with_environment(SourceOptions(**values))
    _check_together(options, streaming)
    return options


def _check_together(options: SourceOptions, streaming: bool) -> None:
    chosen = [
        name
        for name, value in (
            ("assign", options.assign),
            ("subscribe", options.subscribe),
            ("subscribePattern", options.subscribe_pattern),
        )
        if value is not None
    ]
    if len(chosen) != 1:
        has = f"not {' and '.join(chosen)}" if chosen else "none is there"
        raise ConfigError(
            f"exactly one of the options assign, subscribe and subscribePattern is needed; {has}"
        )
    if (options.nameserver is None) == (options.store_path is None):
        raise ConfigError(
            "one of the options nameserver ('host:9876') and storePath (a broker's store folder) is needed"
            + ("" if options.nameserver is None else "; both are there")
        )
    if options.tags is not None and options.sql is not None:
        raise ConfigError("the options tags and sql exclude each other")
    if options.store_path is not None and options.sql is not None:
        raise ConfigError(
            "option 'sql' is evaluated by the broker: with storePath, filter the DataFrame instead"
        )
    if options.store_path is not None and options.read_from != "master":
        raise ConfigError("option 'readFrom' chooses among brokers: it does not go with storePath")
    if options.store_path is not None and options.group is not None:
        raise ConfigError("option 'group' needs a broker to keep offsets: it does not go with storePath")
    starting = options.starting_offsets
    if not streaming and (
        starting == "latest" or (isinstance(starting, dict) and LATEST in starting.values())
    ):
        raise ConfigError(
            "option 'startingOffsets' cannot be latest (-1) in a batch read: nothing would be read"
        )
    least, most = options.min_offsets_per_trigger, options.max_offsets_per_trigger
    if least is not None and most is not None and least > most:
        raise ConfigError(f"option 'minOffsetsPerTrigger' ({least}) is above 'maxOffsetsPerTrigger' ({most})")
