"""The end of a streaming job in a topic: checked before anything starts, then Spark's own sink."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rocketeer.errors import ConfigError
from rocketeer.spark.sink.client import SinkClient
from rocketeer.spark.sink.columns import IDENTITY, plan_columns
from rocketeer.spark.sink.identity import identify_rows
from rocketeer.spark.sink.options import AT_LEAST_ONCE, EFFECTIVELY_ONCE, SinkOptions, parse_sink_options
from rocketeer.spark.source.options import FORMAT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

DELIVERIES: Final = (EFFECTIVELY_ONCE, AT_LEAST_ONCE)


@dataclass(frozen=True)
class TopicSink:
    """Where a job's messages go, and how surely."""

    nameserver: str
    topic: str
    delivery: str = EFFECTIVELY_ONCE
    id_column: str | None = None
    """Unique within a micro-batch. None: rows are told apart by all that is in them, which shuffles them."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Further options of the sink."""

    def writer_options(self) -> dict[str, str]:
        chosen = {
            "nameserver": self.nameserver,
            "topic": self.topic,
            "delivery": self.delivery,
            # What was read from a topic has the properties RocketMQ gave it: the new message gets its own.
            "reservedProperties": "drop",
            **self.options,
        }
        if self.id_column is not None and self.delivery == EFFECTIVELY_ONCE:
            chosen["idColumn"] = self.id_column
        return chosen

    def fitted(self, frame: "DataFrame") -> "DataFrame":
        """The frame as it will be written; raises for columns, options, a topic and brokers that cannot be."""
        options = parse_sink_options(self.writer_options(), streaming=True)
        if options.effectively_once and options.id_column is None and IDENTITY not in frame.columns:
            frame = identify_rows(frame)
        elif self.id_column is not None and not options.effectively_once:
            frame = frame.drop(self.id_column)
        plan_columns(frame.schema, options)
        self._check_brokers(options)
        return frame

    def _check_brokers(self, options: SinkOptions) -> None:
        client = SinkClient.of(options.nameserver, options.protection)
        queues = client.thread.call(client.queues(self.topic))
        if not options.effectively_once:
            return
        for broker in sorted({queue.broker_name for queue in queues}):
            address = client.routes.master_for(self.topic, broker)
            if not client.thread.call(
                client.capabilities(address, options.send_timeout_ms / 1000)
            ).idempotent:
                raise ConfigError(
                    f"broker {broker} ({address}) would store a row again that is sent again: delivery "
                    f"{EFFECTIVELY_ONCE} needs Rocketeer brokers; choose {AT_LEAST_ONCE}"
                )

    def start(
        self, frame: "DataFrame", checkpoint: str | Path, name: str, interval: str | None
    ) -> "StreamingQuery":
        """Begin, or go on from the checkpoint. `interval` None ends with what is there now."""
        writer = frame.writeStream.format(FORMAT).options(**self.writer_options()).outputMode("append")
        writer = writer.queryName(name).option("checkpointLocation", str(checkpoint))
        return triggered(writer, interval).start()


def triggered(writer: "DataStreamWriter", interval: str | None) -> "DataStreamWriter":
    """Set the stream's trigger: None: available now; `0 seconds`: continuous micro-batches; else a fixed interval."""
    return writer.trigger(availableNow=True) if interval is None else writer.trigger(processingTime=interval)


def few_state_partitions(spark: "SparkSession") -> None:
    """On one machine as many shuffle partitions as cores, unless somebody said otherwise.

    Spark's 200 are for clusters: a stateful query opens a store for each in every micro-batch. A checkpoint keeps the
    number it began with.
    """
    key = "spark.sql.shuffle.partitions"
    context = spark.sparkContext
    if str(context.master).startswith("local") and context.getConf().get(key) is None:
        spark.conf.set(key, str(max(context.defaultParallelism, 1)))
