"""The data pipeline's jobs: each is a command `rocketeer spark JOB` and a function here for your own session."""

from rocketeer.spark.jobs.archive import archive
from rocketeer.spark.jobs.lake import lake_offsets, read_lake

__all__ = ["archive", "lake_offsets", "read_lake"]
