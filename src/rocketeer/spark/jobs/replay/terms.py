"""What a replay was asked for. Pure: `command` makes it of what a person typed, `state` notes it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from rocketeer.client.core.nameservers import parse_addresses
from rocketeer.errors import ConfigError
from rocketeer.spark.jobs.lake.locations import LakeLocation
from rocketeer.spark.jobs.replay.state import CHUNK_ROWS


@dataclass(frozen=True)
class ReplayTerms:
    """What to send again, and where. `docs/jobs.md` explains each."""

    nameserver: str
    lake: "str | Path | None" = None
    topics: Sequence[str] = ()
    """Topics of the lake, only these; without a lake the topics to read."""
    source_nameserver: str | None = None
    to: str | None = None
    """The topic to send to; None: each message to its own."""
    since: datetime | None = None
    until: datetime | None = None
    since_ago: str | None = None
    """`2h`, if `since` was said so: a replay that goes on keeps the moment that was when it began."""
    until_ago: str | None = None
    keys: Sequence[str] = ()
    tags: str | None = None
    where: str | None = None
    rate: int | None = None
    ordered: bool = False
    delivery: str = "effectively-once"
    replay_id: str | None = None
    """Give one to be able to go on after an interruption."""
    state_folder: "str | Path | None" = None
    chunk_rows: int = CHUNK_ROWS

    def asked(self) -> dict[str, Any]:
        """What makes it this replay: with another answer it is another one."""
        return {
            "nameserver": sorted(parse_addresses(self.nameserver)),
            "source": sorted(parse_addresses(self.source_nameserver or "")) if self.lake is None else [],
            "lake": None if self.lake is None else str(LakeLocation.of(self.lake)),
            "topics": sorted(self.topics),
            "to": self.to,
            "since": f"{self.since_ago} ago" if self.since_ago else _iso(self.since),
            "until": f"{self.until_ago} ago" if self.until_ago else _iso(self.until),
            "keys": sorted(self.keys),
            "tags": self.tags,
            "where": self.where,
            "ordered": self.ordered,
        }

    def check(self) -> None:
        if self.lake is None and not self.topics:
            raise ConfigError("nothing to replay: give a lake, or the topics to read")
        if self.rate is not None and self.rate < 1:
            raise ConfigError(f"rate {self.rate}: give at least 1 message/s")


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
