"""The data pipeline's jobs: each is a command `rocketeer spark JOB` and a function here for your own session."""

from rocketeer.spark.jobs.archive.command import ArchiveTerms, archive
from rocketeer.spark.jobs.audit.command import audit
from rocketeer.spark.jobs.dead_letters.command import DeadLetterFilter, chosen, dead_letters, resend, summary
from rocketeer.spark.jobs.dedup import DedupTerms, dedup, dedup_to_lake, dedup_to_topic
from rocketeer.spark.jobs.lake.folder import lake_offsets, read_lake
from rocketeer.spark.jobs.lake.session import open_session
from rocketeer.spark.jobs.query.command import query_tables
from rocketeer.spark.jobs.replay.command import replay
from rocketeer.spark.jobs.stats.command import measures, stats, write_page
from rocketeer.spark.jobs.topic_sink import TopicSink
from rocketeer.spark.jobs.trace.command import trace, trace_events
from rocketeer.spark.jobs.transform import TransformTerms, transform

__all__ = [
    "ArchiveTerms",
    "DeadLetterFilter",
    "DedupTerms",
    "TopicSink",
    "TransformTerms",
    "archive",
    "audit",
    "chosen",
    "dead_letters",
    "dedup",
    "dedup_to_lake",
    "dedup_to_topic",
    "lake_offsets",
    "measures",
    "open_session",
    "query_tables",
    "read_lake",
    "replay",
    "resend",
    "stats",
    "summary",
    "trace",
    "trace_events",
    "transform",
    "write_page",
]
