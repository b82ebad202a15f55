"""What the loads sent and were told; written by their threads, read when they have ended."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from support.senders import Acked

PLAIN, ORDERED, ONCE = "FaultsPlain", "FaultsOrdered", "FaultsOnce"
SINGLE, DELAYED, TIMED = "FaultsSingle", "FaultsDelayed", "FaultsTimed"
TRANSACTIONS, RETRIED, RECALLED = "FaultsTransactions", "FaultsRetried", "FaultsRecalled"
TOPICS: Final = (PLAIN, ORDERED, ONCE, SINGLE, DELAYED, TIMED, TRANSACTIONS, RETRIED, RECALLED)
QUEUES: Final = 4

COMMITTED_GROUP: Final = "faults-commits"
RETRIED_GROUP: Final = "faults-retried"
ORDERLY_GROUP: Final = "faults-orderly"

KINDS: Final = (
    "plain", "ordered", "idempotent", "single", "batch", "delayed", "timed", "transaction", "retried",
    "commit", "topic", "orderly", "recalled",
)  # fmt: skip


class Handled(NamedTuple):
    """One call of a listener in order; the times are of the monotonic clock."""

    queue_id: int
    offset: int
    body: bytes
    member: str
    began_s: float
    ended_s: float
    succeeded: bool


@dataclass
class Ledger:
    sent: dict[str, set[bytes]] = field(default_factory=lambda: defaultdict(set))
    """By topic; a body is sent once."""
    acked: dict[str, list[Acked]] = field(default_factory=lambda: defaultdict(list))
    """Stored, and where; of topics whose sends are answered with their place."""
    later: dict[str, set[bytes]] = field(default_factory=lambda: defaultdict(set))
    """Acknowledged, to be delivered later: delayed, timed, not taken back."""
    refused: dict[str, set[bytes]] = field(default_factory=lambda: defaultdict(set))
    """Refused before the append: in no queue, ever."""
    wrong_answers: Counter[int] = field(default_factory=Counter)
    """Codes that a group never answers."""
    committed_transactions: set[bytes] = field(default_factory=set)
    rolled_back: set[bytes] = field(default_factory=set)
    consumed: Counter[bytes] = field(default_factory=Counter)
    """Retried messages whose listener succeeded."""
    handled: list[Handled] = field(default_factory=list)
    recalled: set[bytes] = field(default_factory=set)
    """Taken back, and answered: in no queue, ever."""
    waiting: set[bytes] = field(default_factory=set)
    """Retried messages that wait for a time which a clock far ahead has given them; noted by the checker."""
    committed: int = -1
    first_queue_end: int = 0
    """Of the plain messages' queue 0: what was acknowledged there may be committed."""
    topics: set[str] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)
    """Acknowledged, by kind."""
    errors: Counter[str] = field(default_factory=Counter)
    longest_gap_s: float = 0.0
    """Between two acknowledged plain sends of one client."""

    def save(self, path: Path) -> None:
        """What the consumers in order did, a line a call: to be read beside `clients.log` when something is missing."""
        with path.open("w") as file:
            for each in sorted(self.handled, key=lambda each: each.began_s):
                print(*each, file=file)

    def __str__(self) -> str:
        counts = ", ".join(f"{kind} {self.counts[kind]}" for kind in KINDS)
        return f"acknowledged: {counts}; longest pause {self.longest_gap_s:.1f} s"


def is_dead_letter(body: bytes) -> bool:
    """Retried messages that no try helps; they end among the dead letters."""
    return body.endswith(b"*")
