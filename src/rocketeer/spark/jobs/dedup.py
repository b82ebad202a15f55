"""`rocketeer spark dedup`: a stream without its duplicates, into a topic or a lake.

Two messages are the same if they have the same id (or key, or value of an expression) in the same topic, and their
times are at most `within` apart. Spark remembers what it has seen in the checkpoint. A message without a key is like
no other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rocketeer.errors import ConfigError
from rocketeer.spark.failures import BY_OPTION
from rocketeer.spark.jobs.checkpoints import claim
from rocketeer.spark.jobs.lake.folder import DEDUP
from rocketeer.spark.jobs.lake.session import LakeSession, open_session
from rocketeer.spark.jobs.moments import parse_duration_ms
from rocketeer.spark.jobs.progress import JobProgress
from rocketeer.spark.jobs.running import (
    Run,
    SinkOptionTexts,
    SourceOptionTexts,
    batch_interval,
    job_command,
    key_values,
    say,
)
from rocketeer.spark.jobs.state_counts import StateCounts, counting
from rocketeer.spark.jobs.texts import counted
from rocketeer.spark.jobs.topic_sink import DELIVERIES, TopicSink, few_state_partitions, triggered
from rocketeer.spark.jobs.topics import stream_queues
from rocketeer.spark.jobs.transform import FOREVER
from rocketeer.spark.sink.options import EFFECTIVELY_ONCE
from rocketeer.spark.source.columns import COLUMNS, schema_text
from rocketeer.spark.source.options import FORMAT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

KEY: Final = "_dedupKey"
TIMES: Final = ("storeTimestamp", "bornTimestamp")
_SHARDING_KEY: Final = "__SHARDINGKEY"
_BY: Final = {"msgid": "msgId", "key": "`keys`", "keys": "`keys`"}
_PLACE: Final = ("topic", "brokerName", "queueId", "queueOffset")
_OF_MESSAGES: Final = ("body", "tags", "keys", "properties")


def dedup(
    df: "DataFrame", *, by: str = "msgId", within: str = "1h", time: str = "storeTimestamp"
) -> "DataFrame":
    """The stream without duplicates; for a DataFrame of `spark.readStream.format("rocketmq")`.

    `by` is `msgId`, `key`, or a SQL expression over the columns. Of duplicates in one micro-batch any may stay.
    Messages more than `within` older than the newest seen before their micro-batch are left out: Spark cannot tell
    any more whether it has seen them.
    """
    return _deduplicated(df, by, within, time).drop(KEY)


def _deduplicated(df: "DataFrame", by: str, within: str, time: str) -> "DataFrame":
    if not df.isStreaming:
        raise ConfigError(
            "dedup works on a stream (spark.readStream); for a batch there is df.dropDuplicates"
        )
    missing = [name for name in (*_PLACE, time) if name not in df.columns]
    if missing:
        raise ConfigError(f"dedup needs the columns {', '.join(missing)}, which this DataFrame does not have")
    span_ms = _span_ms(within, time)
    keyed = df.withColumn(KEY, _key(by)).withWatermark(time, f"{span_ms} milliseconds")
    return keyed.dropDuplicatesWithinWatermark([KEY])


def _span_ms(within: str, time: str) -> int:
    if time not in TIMES:
        raise ConfigError(f"--time {time!r}: choose {' or '.join(TIMES)}")
    span_ms = parse_duration_ms("--within", within)
    if span_ms == 0:
        raise ConfigError(f"--within {within!r} is no time: write 1h, 30m, 1d")
    return span_ms


def _key(by: str) -> "Column":
    """A hash of what makes messages equal: as long for any key, and unlike any other hash."""
    from pyspark.sql import functions as f

    value = f.expr(_BY.get(by.lower(), by)).cast("string")
    same = f.concat_ws("\u0001", f.lit("same"), f.col("topic"), value)
    single = f.concat_ws("\u0001", f.lit("single"), *[f.col(name).cast("string") for name in _PLACE])
    return f.sha2(f.when(value.isNull() | (value == ""), single).otherwise(same).cast("binary"), 256)


@dataclass(frozen=True)
class DedupTerms:
    """What to read, and what makes messages equal. `docs/jobs.md` explains each."""

    topics: Sequence[str]
    nameserver: str
    by: str = "msgId"
    within: str = "1h"
    time: str = "storeTimestamp"
    start: str = "earliest"
    interval: str | None = None
    """None: what is there, and end. Otherwise go on for ever, a batch every so often, like `10 seconds`."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Further options of the source."""

    def check(self) -> dict[str, str]:
        """Whether it can be, before anything is touched; the source's options."""
        if not self.topics:
            raise ConfigError("name the topics to read")
        _span_ms(self.within, self.time)
        options = {"nameserver": self.nameserver, "startingOffsets": self.start, **self.options}
        options["subscribe"] = ",".join(self.topics)
        stream_queues(options)
        return options

    def stream(self, spark: "SparkSession", *, all_columns: bool) -> "DataFrame":
        """The topics without duplicates; `_dedupKey` stands behind the columns."""
        options = self.check()
        wanted = set(COLUMNS)
        if not all_columns and self.by.lower() in _BY:
            wanted = {*_PLACE, *_OF_MESSAGES, "msgId", self.time}
        names = [name for name in COLUMNS if name in wanted]
        frame = spark.readStream.format(FORMAT).options(**options).schema(schema_text(names)).load()
        return _deduplicated(frame, self.by, self.within, self.time)

    def identity(self, to: str) -> dict[str, Any]:
        how = {"by": self.by, "within": self.within, "time": self.time}
        return {"job": "dedup", "from": sorted(self.topics), "to": to, **how}


def dedup_to_topic(
    spark: "SparkSession", terms: DedupTerms, sink: TopicSink, checkpoint: str | Path
) -> "StreamingQuery":
    """Start (or continue) the stream into a topic."""
    from pyspark.sql import functions as f

    if sink.topic in terms.topics:
        raise ConfigError(f"topic {sink.topic!r} would be read and written: the stream would feed itself")
    frame = terms.stream(spark, all_columns=False)
    # The key is the row's id: of two duplicates either may come first when a batch is tried again.
    chosen = TopicSink(sink.nameserver, sink.topic, sink.delivery, KEY, sink.options)
    kept = frame.select(*_OF_MESSAGES, f.col("properties")[_SHARDING_KEY].alias("shardingKey"), KEY)
    fitted = chosen.fitted(kept)
    claim(checkpoint, terms.identity(f"topic {sink.topic}"))
    return chosen.start(fitted, checkpoint, f"dedup to {sink.topic}", terms.interval)


def dedup_to_lake(spark: "SparkSession", terms: DedupTerms, session: LakeSession) -> "StreamingQuery":
    """Start (or continue) the stream into a lake, which is this stream's alone. The session must stay open."""
    checkpoint = session.lake.dedup_checkpoint
    frame = terms.stream(spark, all_columns=True).drop(KEY)
    claim(checkpoint, terms.identity("lake"))
    mine = session.lake.query_id(DEDUP)
    if session.lake.state().files and (mine is None or session.lake.table.last_batch(mine) < 0):
        raise ConfigError(f"the lake {session.lake.place} is filled by another job: choose another folder")

    def commit(batch: "DataFrame", number: int) -> None:
        writer = session.lake.query_id(DEDUP)
        assert writer is not None, "Spark writes it before the first batch"
        if session.append_frame(batch, writer, number) is None:
            # Stored before a crash. The batch must run all the same: running it is what brings Spark's memory of
            # what it has seen up to date.
            batch.write.format("noop").mode("overwrite").save()

    writer = frame.writeStream.queryName("dedup to lake").foreachBatch(commit).outputMode("append")
    return triggered(writer.option("checkpointLocation", checkpoint), terms.interval).start()


@job_command(goes_on=True, over_loss=BY_OPTION)
def command(
    run: Run,
    topic: Annotated[list[str], typer.Option("-t", "--topic", help="What to read; may be repeated.")],
    to: Annotated[str | None, typer.Option(help="The topic to write; it must exist.")] = None,
    checkpoint: Annotated[
        str | None, typer.Option(help="With --to, a folder of its own: where it goes on when started again.")
    ] = None,
    lake: Annotated[str | None, typer.Option(help="Instead: a lake, made if it does not exist.")] = None,
    by: Annotated[str, typer.Option(help="msgId, key, or a SQL expression over the columns.")] = "msgId",
    within: Annotated[str, typer.Option(help="Duplicates come at most so long after one another.")] = "1h",
    time: Annotated[str, typer.Option(help=f"By which time: {' or '.join(TIMES)}.")] = "storeTimestamp",
    forever: Annotated[bool, typer.Option("--forever", help="Go on until stopped.")] = False,
    interval: Annotated[str | None, typer.Option(help="With --forever: a batch every so often.")] = None,
    start: Annotated[str, typer.Option(help="earliest or latest; for the first run.")] = "earliest",
    delivery: Annotated[str, typer.Option(help=" or ".join(DELIVERIES))] = EFFECTIVELY_ONCE,
    option: SourceOptionTexts = None,
    sink_option: SinkOptionTexts = None,
) -> None:
    """Copy topics without their duplicates; started again, it goes on where it stopped."""
    if (to is None) == (lake is None):
        raise ConfigError("give --to TOPIC or --lake FOLDER; one of them")
    if to is not None and checkpoint is None:
        raise ConfigError("--to needs --checkpoint FOLDER, which remembers what was seen")
    if lake is not None and checkpoint is not None:
        raise ConfigError("a lake has its checkpoint inside: leave --checkpoint out")
    terms = DedupTerms(
        topic,
        run.needed_nameserver(),
        by,
        within,
        time,
        start,
        batch_interval(forever, interval, FOREVER),
        key_values("--option", option),
    )
    progress = JobProgress("dedup", quiet=run.quiet)
    with run.spark("dedup") as spark, counting(spark) as counts:
        few_state_partitions(spark)
        if lake is not None:
            terms.check()
            with open_session(lake) as session:
                rows = progress.watch(dedup_to_lake(spark, terms, session))
        else:
            sink = TopicSink(
                terms.nameserver, str(to), delivery, None, key_values("--sink-option", sink_option)
            )
            rows = progress.watch(dedup_to_topic(spark, terms, sink, str(checkpoint)))
        counts.settle()
        _report(rows, counts)


def _report(rows: int, counts: StateCounts) -> None:
    say(f"read {counted(rows, 'message')}, removed {counted(counts.duplicates, 'duplicate')}")
    if counts.late:
        say(
            f"{counts.late:,} messages came later than --within allows and were LEFT OUT: nobody can tell whether "
            "they are duplicates; use a longer --within"
        )
