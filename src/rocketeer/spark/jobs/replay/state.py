"""What a replay sends, in which pieces, and how far it is: fixed when it begins, so that it can go on after a death.

Ranges of queues are cut into chunks; a chunk is one write, effectively once, and noted when it has ended.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

from rocketeer.errors import ConfigError, RocketeerError
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.spark.jobs.lake.notes import read_json, write_json
from rocketeer.spark.jobs.lake.state import Range
from rocketeer.spark.source.planning import share

Ranges: TypeAlias = dict[MessageQueue, Range]

FORMAT: Final = 1
CHUNK_ROWS: Final = 500_000
"""Far fewer than the ids a broker remembers: so many may have to be told from new ones after a death."""


class ReplayMismatch(RocketeerError):
    """The replay with this id is another one, or runs already."""


@dataclass(frozen=True)
class ReplayState:
    """As the file has it."""

    asked: Mapping[str, Any]
    ranges: Ranges
    chunk_rows: int = CHUNK_ROWS
    since: datetime | None = None
    until: datetime | None = None
    """Times of storing that were asked for, also if that was said as "two hours ago"."""
    chunks_done: int = 0
    sent: int = 0

    @property
    def rows(self) -> int:
        """What the ranges hold at most, chosen or not."""
        return sum(one.end - one.begin for one in self.ranges.values())

    def chunks(self) -> Iterator[Ranges]:
        """All chunks, done or not: the same ones each time, each queue's in order."""
        begins = {queue: one.begin for queue, one in self.ranges.items()}
        left = {queue: one.end - one.begin for queue, one in self.ranges.items()}
        while shares := share(left, self.chunk_rows):
            yield {
                queue: Range(begins[queue], QueueOffset(begins[queue] + count))
                for queue, count in sorted(shares.items())
            }
            for queue, count in shares.items():
                begins[queue] = QueueOffset(begins[queue] + count)
                left[queue] -= count

    def after(self, sent: int) -> "ReplayState":
        return replace(self, chunks_done=self.chunks_done + 1, sent=self.sent + sent)

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "asked": dict(self.asked),
            "ranges": [[q.topic, q.broker_name, q.queue_id, r.begin, r.end] for q, r in self.ranges.items()],
            "chunk_rows": self.chunk_rows,
            "since": None if self.since is None else self.since.isoformat(),
            "until": None if self.until is None else self.until.isoformat(),
            "chunks_done": self.chunks_done,
            "sent": self.sent,
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "ReplayState":
        return ReplayState(
            value["asked"],
            {MessageQueue(t, b, q): Range(begin, end) for t, b, q, begin, end in value["ranges"]},
            value["chunk_rows"],
            _moment(value["since"]),
            _moment(value["until"]),
            value["chunks_done"],
            value["sent"],
        )


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


@dataclass
class ReplayFile:
    """The file a replay keeps its state in, held by one process at a time."""

    path: Path
    state: ReplayState | None = field(default=None)

    def check(self, asked: Mapping[str, Any]) -> None:
        """The same id must mean the same replay."""
        if self.state is None:
            return
        odd = sorted(
            name for name in {*asked, *self.state.asked} if asked.get(name) != self.state.asked.get(name)
        )
        if odd:
            was = ", ".join(f"{name} was {self.state.asked.get(name)!r}" for name in odd)
            raise ReplayMismatch(
                f"replay {self.path.stem!r} was begun with other options ({was}): give them, or another --id"
            )

    def save(self, state: ReplayState) -> None:
        write_json(self.path, state.to_json())
        self.state = state


@contextlib.contextmanager
def open_replay(folder: Path, replay_id: str) -> Iterator[ReplayFile]:
    """The state of a replay, new or begun; ReplayMismatch if another process has it."""
    if not replay_id or not all(c.isalnum() or c in "-_." for c in replay_id) or len(replay_id) > 60:
        raise ConfigError(f"replay id {replay_id!r}: write up to 60 letters, digits, '-', '_' and '.'")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{replay_id}.json"
    lock_path = folder / f".{replay_id}.lock"
    with lock_path.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ReplayMismatch(f"replay {replay_id!r} runs already in another process") from None
        state = None
        if path.exists():
            try:
                state = ReplayState.from_json(read_json(path))
            except (KeyError, TypeError, ValueError) as error:
                raise ReplayMismatch(f"{path} is no state of a replay: {error}") from None
        try:
            yield ReplayFile(path, state)
        finally:
            if not path.exists():  # it never began
                lock_path.unlink(missing_ok=True)


def default_folder() -> Path:
    """For replays of topics; those of a lake are noted in it."""
    home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(home) / "rocketeer" / "replays"
