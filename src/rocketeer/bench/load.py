"""What a load process is told to do and what it reports; the loops that do it are sends.py and pulls.py.

Closed loop: every connection keeps `in_flight` requests under way. Open loop (`rate`): requests leave at times fixed
beforehand, and a latency counts from that time, so a server that stalls cannot slow the clock it is measured by.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from rocketeer.bench.frames import SendTarget
from rocketeer.errors import RocketeerError
from rocketeer.model.offsets import QueueOffset
from rocketeer.security.credentials import Credentials

Kind = Literal["send", "batch", "pull"]


class LoadFailed(RocketeerError):
    """The load could not be put on the server; the text says what the server did."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """What one process does; times are of the monotonic clock, which all processes of a machine share."""

    address: str
    kind: Kind
    target: SendTarget
    run: int
    first_connection: int = 0
    connections: int = 16
    in_flight: int = 16
    body_bytes: int = 1024
    warmup_s: float = 2.0
    seconds: float = 5.0
    rate: float | None = None
    stamped: bool = False
    cores: frozenset[int] | None = None
    queue_ends: dict[tuple[str, int], int] = field(default_factory=dict)
    """For pulls: where each queue ends."""
    queue_begins: dict[tuple[str, int], int] = field(default_factory=dict)
    """For pulls: where to begin, if not at 0."""
    account: Credentials | None = None
    """The account that signs every send."""
    trust: Path | None = None
    """Who signed the server's certificate: the load comes with TLS."""


@dataclass(frozen=True, kw_only=True)
class LastSent:
    """The last message a connection saw acknowledged: when queue and index know it, they know all before it."""

    topic: str
    queue: int
    queue_offset: QueueOffset
    key: str


@dataclass(frozen=True, kw_only=True)
class LoadResult:
    """What one process saw from the end of the warm-up on."""

    messages: int
    all_messages: int
    refused: int
    refusals: dict[str, int]
    mismatched: int
    unanswered: int
    started_ns: int
    ended_ns: int
    cpu_s: float
    latencies: dict[int, int]
    lateness: dict[int, int]
