"""The data pipeline's jobs: each is a command `rocketeer spark JOB` and a function here for your own session."""

from rocketeer.spark.jobs.archive import archive
from rocketeer.spark.jobs.dead_letters import dead_letters
from rocketeer.spark.jobs.lake import lake_offsets, read_lake
from rocketeer.spark.jobs.replay import replay
from rocketeer.spark.jobs.stats import measures, stats
from rocketeer.spark.jobs.trace import trace, trace_events

__all__ = [
    "archive",
    "dead_letters",
    "lake_offsets",
    "measures",
    "read_lake",
    "replay",
    "stats",
    "trace",
    "trace_events",
]
