"""`df.write.format("rocketmq")` and `df.writeStream.format("rocketmq")`: the ends of the flow that Spark calls.

planning (driver)   open_writer / open_stream_writer: options and columns are checked
task (worker)       rows -> messages -> requests -> [spool] -> sender -> broker
commit (driver)     what was stored is logged; a stream takes up new queues
"""

import logging
import uuid
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from rocketeer.errors import ConfigError, RocketeerError
from rocketeer.model.queue import MessageQueue
from rocketeer.spark.sink import layout as sink_layout
from rocketeer.spark.sink.client import SinkClient
from rocketeer.spark.sink.columns import Columns, plan_columns
from rocketeer.spark.sink.options import EFFECTIVELY_ONCE, SinkOptions, parse_sink_options
from rocketeer.spark.sink.plain_rows import choose_rows
from rocketeer.spark.sink.rate_limit import rate_limited
from rocketeer.spark.sink.requests import Request, RequestBatcher
from rocketeer.spark.sink.rows import RowEncoder
from rocketeer.spark.sink.sender import SinkSender
from rocketeer.spark.sink.spool import Spool
from rocketeer.spark.sink.topics import create_missing
from rocketeer.spark.workers import settle_worker

log = logging.getLogger(__name__)

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"


@dataclass
class TaskResult(WriterCommitMessage):
    """What a task stored; its driver gets it."""

    rows: int = 0
    requests: int = 0
    body_bytes: int = 0
    retried: int = 0
    less_durable: int = 0
    producer: str | None = None
    layouts: dict[str, dict[str, int]] = field(default_factory=dict)


def open_writer(given: Mapping[str, str], schema: StructType, overwrite: bool) -> "BatchWriter":
    """What `DataSource.writer` returns. Raises for options, columns and a topic that cannot be, before any task."""
    options = parse_sink_options(given, streaming=False)
    _refuse_overwrite(overwrite)
    columns = plan_columns(schema, options)
    if options.topic is not None:
        client = SinkClient.of(options.nameserver, options.protection)
        if options.create_queues is not None:
            client.thread.call(create_missing(client, options.topic, options.create_queues))
        client.thread.call(client.queues(options.topic))
    # Without an id of the user's the write still has one of its own: its tasks may be tried again.
    return BatchWriter(options, columns, options.write_id or str(uuid.uuid4()))


def open_stream_writer(given: Mapping[str, str], schema: StructType, overwrite: bool) -> "StreamWriter":
    """What `DataSource.streamWriter` returns; called for every micro-batch, so it asks nobody."""
    options = parse_sink_options(given, streaming=True)
    _refuse_overwrite(overwrite)
    return StreamWriter(options, plan_columns(schema, options))


def _refuse_overwrite(overwrite: bool) -> None:
    if overwrite:
        raise ConfigError(
            "a topic cannot be overwritten, only appended to: use mode('append') or outputMode('append')"
        )


class BatchWriter(DataSourceArrowWriter):
    """One `df.write...save()`."""

    def __init__(self, options: SinkOptions, columns: Columns, write_id: str) -> None:
        self._options = options
        self._columns = columns
        self._producer = f"spark.{write_id}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskResult:
        _expect_topic(self._options)  # it was there when the write was planned
        producer = self._producer if self._options.effectively_once else None
        return write_task(iterator, self._options, self._columns, producer, producer, 0)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        log.info("written %s", _sum(messages))
        self._forget_layouts(messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        log.warning("write failed; stored before: %s", _sum(messages))
        self._forget_layouts(messages)

    def _forget_layouts(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Delete the notes of queues: nobody can repeat this write."""
        options = self._options
        if options.write_id is not None or not options.effectively_once:
            return
        client = SinkClient.of(options.nameserver, options.protection)
        # Tasks that failed did not say what they met; with a topic option it is known.
        met = {topic for _, topic, _ in _layouts(messages)} | ({options.topic} if options.topic else set())
        for topic in met:
            _best_effort(client, sink_layout.forget(client, self._producer, topic))


class StreamWriter(DataSourceStreamArrowWriter):
    """One micro-batch of `df.writeStream...start()`."""

    def __init__(self, options: SinkOptions, columns: Columns) -> None:
        self._options = options
        self._columns = columns

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskResult:
        if _property(BATCH_ID) not in (None, "0"):
            _expect_topic(self._options)  # an earlier batch was written to it
        if not self._options.effectively_once:
            return write_task(iterator, self._options, self._columns, None, None, 0)
        query, batch = _local(QUERY_ID), _local(BATCH_ID)
        scope = f"spark.{query}"
        return write_task(iterator, self._options, self._columns, f"{scope}.{batch}", scope, int(batch))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        log.info("written batch=%d %s", batchId, _sum(messages))
        for producer, topic, used in _layouts(messages):
            client = SinkClient.of(self._options.nameserver, self._options.protection)
            _best_effort(client, sink_layout.take_up_changes(client, producer, topic, batchId, used))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        log.warning("write failed batch=%d; stored before: %s", batchId, _sum(messages))


def write_task(
    record_batches: Iterator[pa.RecordBatch],
    options: SinkOptions,
    columns: Columns,
    producer: str | None,
    scope: str | None,
    batch_id: int,
) -> TaskResult:
    """Store the rows of one partition; returns when the brokers have them all."""
    context = TaskContext.get()
    partition = context.partitionId() if context is not None else 0
    first = next(record_batches, None)
    if first is None:
        return TaskResult()
    client = SinkClient.of(options.nameserver, options.protection)
    settle_worker()
    targets = _Targets(client, options, columns, scope, batch_id)
    sender = SinkSender(client, options, partition)
    encoder = RowEncoder(columns, options, partition, producer, client.uniq_keys)
    try:
        with Spool(options.spool_bytes) as spool:
            submit: Callable[[Request], None] = sender.submit
            if options.rows_per_s_max is not None:
                submit = rate_limited(submit, options.rows_per_s_max)
            ship = spool.put if options.checks_first else submit
            batcher = RequestBatcher(options, targets.queues, ship)
            rows = choose_rows(encoder, batcher, ship, columns, options, producer, client.uniq_keys)
            for batch in _chain(first, record_batches):
                rows.add(batch)
            rows.flush()
            for request in spool.take():
                submit(request)
            counts = sender.finish()
    except BaseException:
        sender.abandon()
        raise
    return TaskResult(
        counts.rows,
        counts.requests,
        counts.body_bytes,
        counts.retried,
        counts.less_durable,
        scope,
        targets.layouts,
    )


class _Targets:
    """The queues of each topic a task meets."""

    def __init__(
        self, client: SinkClient, options: SinkOptions, columns: Columns, scope: str | None, batch_id: int
    ) -> None:
        self._client = client
        self._options = options
        self._timed = columns.deliver_at is not None
        self._scope = scope
        self._batch_id = batch_id
        self.layouts: dict[str, dict[str, int]] = {}

    def queues(self, topic: str) -> Sequence[MessageQueue]:
        client = self._client
        limit_s = self._options.delivery_timeout_s
        return client.thread.call(client.with_retries(lambda: self._find(topic), limit_s))

    async def _find(self, topic: str) -> Sequence[MessageQueue]:
        client = self._client
        if self._options.create_queues is not None:
            await create_missing(client, topic, self._options.create_queues)
        queues: Sequence[MessageQueue] = await client.queues(topic)
        if self._scope is not None:
            counts = await sink_layout.settled_queues(client, self._scope, topic, self._batch_id)
            self.layouts[topic] = counts
            queues = sink_layout.listed(topic, counts)
        if self._timed or self._scope is not None:
            for broker in sorted({queue.broker_name for queue in queues}):
                await self._check_capabilities(topic, broker)
        return queues

    async def _check_capabilities(self, topic: str, broker: str) -> None:
        address = self._client.routes.master_for(topic, broker)
        can = await self._client.capabilities(address, self._options.send_timeout_ms / 1000)
        if self._scope is not None and not can.idempotent:
            raise ConfigError(
                f"broker {broker} ({address}) would store a row again that is sent again: delivery "
                f"{EFFECTIVELY_ONCE} needs Rocketeer brokers"
            )
        if self._timed and not can.timed:
            raise ConfigError(
                f"broker {broker} ({address}) would deliver at once: deliverAt needs Rocketeer or RocketMQ 5"
            )


def _chain(first: pa.RecordBatch, others: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from others


def _expect_topic(options: SinkOptions) -> None:
    if options.topic is not None:
        SinkClient.of(options.nameserver, options.protection).expect(options.topic)


def _property(name: str) -> str | None:
    context = TaskContext.get()
    return context.getLocalProperty(name) if context is not None else None


def _local(name: str) -> str:
    value = _property(name)
    if value is None:
        raise ConfigError(f"the task does not know {name!r}: effectively-once writing of a stream needs it")
    return value


def _layouts(messages: Sequence[WriterCommitMessage | None]) -> list[tuple[str, str, dict[str, int]]]:
    """(producer, topic, queues) that the tasks used, each once."""
    found: dict[tuple[str, str], dict[str, int]] = {}
    for message in messages:
        if isinstance(message, TaskResult) and message.producer is not None:
            for topic, used in message.layouts.items():
                found[message.producer, topic] = used
    return [(producer, topic, used) for (producer, topic), used in found.items()]


def _sum(messages: Sequence[WriterCommitMessage | None]) -> str:
    done = [message for message in messages if isinstance(message, TaskResult)]
    names = ("rows", "requests", "body_bytes", "retried", "less_durable")
    return " ".join(f"{name}={sum(getattr(message, name) for message in done)}" for name in names)


def _best_effort(client: SinkClient, work: Coroutine[Any, Any, None]) -> None:
    """The rows are stored: what else is to be done must not fail the write."""
    try:
        client.thread.call(work)
    except RocketeerError as error:
        log.warning("queues not noted error=%s", error)
