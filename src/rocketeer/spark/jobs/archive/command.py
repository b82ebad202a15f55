"""`rocketeer spark archive`: topics into a lake, exactly once, so that messages outlive the broker's retention.

A micro-batch's tasks write files (`source`); the driver then makes one commit that names them and the offsets
(`lake.session`, `lake.delta`). Spark's checkpoint inside the lake decides what the next batch reads; a batch that
Spark tries again because it did not see it end finds its commit there.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rocketeer.errors import ConfigError
from rocketeer.model.queue import MessageQueue
from rocketeer.spark.jobs.lake.delta import KEEP_HOURS
from rocketeer.spark.jobs.lake.folder import ARCHIVE, FORMATS
from rocketeer.spark.jobs.lake.session import LakeSession, open_session
from rocketeer.spark.jobs.lake.state import LakeState, Range, lost_between, ranges_of, with_ranges
from rocketeer.spark.jobs.lake.writer import WriterTerms, files_of
from rocketeer.spark.jobs.moments import parse_duration_ms
from rocketeer.spark.jobs.progress import JobProgress
from rocketeer.spark.jobs.running import Run, SourceOptionTexts, batch_interval, job_command, key_values, say
from rocketeer.spark.jobs.texts import counted
from rocketeer.spark.versions import need_streams

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COMPRESSIONS: Final = ("zstd", "lz4", "snappy", "none")
BATCH_BYTES: Final = "1g"
COMPACT_EVERY: Final = 32
"""Commits between compactions while a run goes on; there is one more at its end."""
_OWN_OPTIONS: Final = frozenset(
    {"nameserver", "storepath", "brokername", "subscribe", "subscribepattern", "startingoffsets"}
)
_FILTERS: Final = frozenset({"tags", "sql"})


@dataclass
class Archived:
    """What a run of `archive` did."""

    rows: int = 0
    commits: int = 0
    files: int = 0
    compacted: int = 0
    """Files that were replaced by larger ones."""
    lost: int = 0
    """Messages that were gone before they could be archived: holes in `lake_offsets`."""


@dataclass(frozen=True)
class ArchiveTerms:
    """How to archive. `docs/jobs.md` explains each."""

    topics: Sequence[str] = ()
    pattern: str | None = None
    nameserver: str | None = None
    store_path: str | None = None
    broker_name: str | None = None
    """Whose store it is; None: `broker-a`, or the only broker the lake has messages of."""
    start: str = "earliest"
    fail_on_data_loss: bool = True
    batch_bytes: str = BATCH_BYTES
    file_bytes: int = 256 << 20
    compression: str = "zstd"
    compact: bool = True
    kind: str | None = None
    """`delta` or `parquet`; None: what the lake is, or Delta for a new one."""
    keep_hours: int = KEEP_HOURS
    """How long files that a compaction replaced stay, for those who read older versions."""
    interval: str | None = None
    """None: archive what is there and end. Otherwise go on for ever, a batch every so often, like `10 seconds`."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Further options of the source."""

    def source_options(self) -> dict[str, str]:
        if bool(self.topics) == (self.pattern is not None):
            raise ConfigError("name topics (-t), or give a --pattern for their names; one of them")
        if self.compression not in COMPRESSIONS:
            raise ConfigError(f"compression {self.compression!r}: choose one of {', '.join(COMPRESSIONS)}")
        if self.kind not in (None, *FORMATS):
            raise ConfigError(f"format {self.kind!r}: choose one of {', '.join(FORMATS)}")
        if (self.nameserver is None) == (self.store_path is None):
            raise ConfigError("give the name server (host:9876) or a broker's store folder to read; not both")
        if self.broker_name is not None and self.store_path is None:
            raise ConfigError("--broker-name says whose store is read: it goes with --store")
        taken = sorted(name for name in self.options if name.lower() in _OWN_OPTIONS)
        if taken:
            raise ConfigError(f"option {taken[0]!r} of the source has an option of its own here")
        if any(name.lower() in _FILTERS for name in self.options):
            raise ConfigError("a lake holds all messages of its queues: filter what is read from it instead")
        chosen = {
            "startingOffsets": self.start,
            "maxBytesPerTrigger": self.batch_bytes,
            "failOnDataLoss": str(self.fail_on_data_loss).lower(),
            **self.options,
        }
        if self.topics:
            chosen["subscribe"] = ",".join(self.topics)
        else:
            chosen["subscribePattern"] = str(self.pattern)
        if self.nameserver is not None:
            chosen["nameserver"] = self.nameserver
        else:
            chosen["storePath"] = str(self.store_path)
        if self.broker_name is not None:
            chosen["brokerName"] = self.broker_name
        return chosen

    def fitted(self, session: LakeSession) -> "ArchiveTerms":
        """The same for a lake that has messages already; ConfigError if they could be archived twice."""
        if session.lake.is_deduplicated:
            raise ConfigError(
                f"the lake {session.lake.place} is filled by dedup, which leaves messages out: choose another folder"
            )
        if self.store_path is None or self.broker_name is not None:
            return self
        known = sorted({queue.broker_name for queue in session.ranges})
        if len(known) > 1:
            raise ConfigError(
                f"the lake has messages of {', '.join(known)}: say whose store this is with --broker-name"
            )
        return replace(self, broker_name=known[0]) if known else self


def archive(
    spark: "SparkSession", lake: "str | Path", terms: ArchiveTerms, *, progress: JobProgress | None = None
) -> Archived:
    """Archive topics into a lake, made if need be; returns when all is there (with an interval: never).

    `archive(spark, "/data/lake", ArchiveTerms(topics=["Orders"], nameserver="127.0.0.1:9876"))`
    """
    need_streams()
    from rocketeer.spark.jobs.archive import source as archive_source
    from rocketeer.spark.jobs.lake.compaction import compact
    from rocketeer.spark.jobs.topic_sink import triggered
    from rocketeer.spark.source.offsets import to_json

    file_terms = WriterTerms(terms.compression, terms.file_bytes)
    _check_source(terms)  # before anything is touched
    with open_session(lake, terms.kind) as session:
        options = terms.fitted(session).source_options()
        spark.dataSource.register(archive_source.ArchiveSource)
        done = Archived()

        chosen = session.terms(file_terms)

        def tidy() -> int:
            replaced = compact(spark, session, file_terms) if terms.compact else 0
            session.lake.table.vacuum(terms.keep_hours)
            return replaced

        stream = (
            spark.readStream.format(archive_source.NAME)
            .options(**options)
            .option(archive_source.LAKE, session.lake.place.root)
            .option(archive_source.STORAGE, json.dumps(session.lake.place.storage))
            .option(archive_source.ENDS, json.dumps(to_json(LakeState(ranges=session.ranges).ends())))
            .option(archive_source.COMPRESSION, chosen.compression)
            .option(archive_source.FILE_BYTES, str(chosen.file_bytes))
            .option(archive_source.SUFFIX, chosen.suffix)
            .load()
        )
        writer = stream.writeStream.queryName("archive").foreachBatch(_committer(session, done, tidy))
        writer = writer.option("checkpointLocation", session.lake.checkpoint)
        query = triggered(writer, terms.interval).start()
        (progress or JobProgress("archive", quiet=True)).watch(query, rows=lambda: done.rows)
        done.compacted += tidy()
        return done


def _check_source(terms: ArchiveTerms) -> None:
    """Whether there is anything to read."""
    from rocketeer.spark.jobs.topics import stream_queues

    queues = stream_queues(terms.source_options())
    if not queues and terms.pattern is not None and terms.interval is None:
        raise ConfigError(f"no topic fits --pattern {terms.pattern!r}")


def _committer(
    session: LakeSession, done: Archived, compact: Callable[[], int]
) -> Callable[["DataFrame", int], None]:
    reached = LakeState(ranges=session.ranges).ends()

    def commit(frame: "DataFrame", batch: int) -> None:
        # It lives with the checkpoint: who deletes that begins a new query, whose batches count from 0 again.
        writer = session.lake.query_id(ARCHIVE)
        assert writer is not None, "Spark writes it before the first batch"
        if session.has(writer, batch):
            return
        rows = frame.collect()
        files = [file for row in rows for file in files_of(row.files)]
        asked, found = (_joined(row[name] for row in rows) for name in ("asked", "ranges"))
        made = session.append(writer, batch, files, [(q, one) for q in found for one in found[q]])
        if made is not None:
            done.lost += lost_between(reached, asked, found)
            reached.update({queue: ranges[-1].end for queue, ranges in asked.items()})
            done.rows += sum(file.rows for file in files)
            done.commits += 1
            done.files += made
            if done.commits % COMPACT_EVERY == 0:
                done.compacted += compact()

    return commit


def _joined(texts: Iterable[str]) -> dict[MessageQueue, list[Range]]:
    """The ranges that tasks wrote, put together."""
    each = [ranges_of(json.loads(text)) for text in texts]
    return with_ranges({}, [(queue, one) for ranges in each for queue in ranges for one in ranges[queue]])


@job_command(goes_on=True, over_loss="Say --skip-lost to go on with what exists")
def command(
    run: Run,
    lake: Annotated[str, typer.Argument(help="A folder or s3a://bucket/prefix; made if it does not exist.")],
    topic: Annotated[list[str] | None, typer.Option("-t", "--topic", help="May be repeated.")] = None,
    pattern: Annotated[
        str | None, typer.Option(help="A regular expression for whole names of topics.")
    ] = None,
    store: Annotated[
        Path | None, typer.Option(help="Read a broker's store folder instead of asking brokers.")
    ] = None,
    broker_name: Annotated[
        str | None,
        typer.Option(help="With --store: whose it is.  [default: broker-a, or the lake's only one]"),
    ] = None,
    forever: Annotated[bool, typer.Option("--forever", help="Go on until stopped.")] = False,
    interval: Annotated[
        str | None, typer.Option(help="With --forever: a batch every so often.  [default: 10 seconds]")
    ] = None,
    start: Annotated[
        str, typer.Option(help="earliest, latest, or offsets as JSON; for the first run.")
    ] = "earliest",
    data_loss: Annotated[
        bool,
        typer.Option(
            "--fail-on-data-loss/--skip-lost",
            help="When retention deleted messages before they were archived.",
        ),
    ] = True,
    batch_bytes: Annotated[str, typer.Option(help="About so much is committed at a time.")] = BATCH_BYTES,
    compression: Annotated[str, typer.Option(help=f"Of the files: {', '.join(COMPRESSIONS)}.")] = "zstd",
    compact: Annotated[bool, typer.Option(help="Make few large files of many small ones at the end.")] = True,
    format: Annotated[
        str | None, typer.Option(help="Of a new lake: delta, or parquet for plain files.  [default: delta]")
    ] = None,
    keep: Annotated[
        str, typer.Option(help="How long files stay that were replaced: older versions can be read so long.")
    ] = "7d",
    option: SourceOptionTexts = None,
) -> None:
    """Copy topics into a lake, a Delta table, exactly once; started again, it goes on where it stopped."""
    every = batch_interval(forever, interval, "10 seconds")
    terms = ArchiveTerms(
        topics=topic or (),
        pattern=pattern,
        nameserver=None if store is not None else run.needed_nameserver(),
        store_path=None if store is None else str(store),
        broker_name=broker_name,
        start=start,
        fail_on_data_loss=data_loss,
        batch_bytes=batch_bytes,
        compression=compression,
        compact=compact,
        kind=format,
        keep_hours=-(-parse_duration_ms("--keep", keep) // 3_600_000),
        interval=every,
        options=key_values("--option", option),
    )
    with run.spark("archive") as spark:
        done = archive(spark, lake, terms, progress=JobProgress("archive", quiet=run.quiet))
        say(
            f"archived {counted(done.rows, 'message')} into {lake}: {counted(done.commits, 'commit')}, "
            + counted(done.files, "file")
            + (f"; {done.compacted} small files were replaced by larger ones" if done.compacted else "")
            + (f"; {counted(done.lost, 'message')} lost: gone before they were archived" if done.lost else "")
        )
