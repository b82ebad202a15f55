"""Brings the features' derived state up to the end of the log: one walk over it at start, for all of them."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from rocketeer.broker.feature import Replay
from rocketeer.model.offsets import LogOffset
from rocketeer.record.entry import DispatchEntry
from rocketeer.record.skip import SkipFilter
from rocketeer.store.dispatch import DispatchErrorGuard


class ReplayedLog(Protocol):
    """What replaying asks of the store."""

    @property
    def max_log_offset(self) -> LogOffset: ...

    def scan(self, start: LogOffset, wanted: SkipFilter | None = None) -> Iterator[DispatchEntry]: ...


def replay_log(store: ReplayedLog, replays: Sequence[Replay]) -> None:
    """Show each replay every message it wants behind what its table stands for; one that fails is passed over."""
    guard = DispatchErrorGuard()
    waiting = sorted(((replay.since(), replay) for replay in replays), key=lambda pair: pair[0])
    if waiting and waiting[0][0] < store.max_log_offset:
        seeing: list[Replay] = []
        for entry in store.scan(waiting[0][0], _wanted_by_any(replays)):
            while waiting and waiting[0][0] <= entry.log_offset:
                seeing.append(waiting.pop(0)[1])
            for replay in seeing:
                guard.call(replay.on_message, entry)
    for replay in replays:
        replay.finish()


def _wanted_by_any(replays: Sequence[Replay]) -> SkipFilter | None:
    """The union of what the replays want to see; None for all messages."""
    together = SkipFilter()
    for replay in replays:
        if replay.wanted is None:
            return None
        together |= replay.wanted
    return together
