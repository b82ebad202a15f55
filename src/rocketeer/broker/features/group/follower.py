"""A follower's part: reads no further than the leader has confirmed, and promises nothing beyond it.

A follower stores no sends, but it knows what was sent: an idempotent message that comes again is answered with its
place. It may be one that is going to be cut, so it is kept for sure only below what is confirmed.
"""

from collections.abc import Callable
from typing import Protocol

from rocketeer.broker.feature import Feature, Replay
from rocketeer.model.offsets import LogOffset
from rocketeer.protocol.codes import ResponseCode
from rocketeer.record.skip import SkipFilter
from rocketeer.store.confirmed import ConfirmedBound


class FollowerStore(Protocol):
    @property
    def max_log_offset(self) -> LogOffset: ...


class FollowerReplication:
    def __init__(self, store: FollowerStore, bound: ConfirmedBound, *, confirmed: LogOffset) -> None:
        self._store = store
        self._bound = bound
        self.confirmed = confirmed

    def feature(self) -> Feature:
        replay = Replay(lambda: self._store.max_log_offset, lambda entry: None, self._bind, SkipFilter())
        return Feature("follower in a group", replays=(replay,), durability=(self._when_confirmed,))

    def confirm(self, confirmed: LogOffset) -> None:
        """Allow reads up to what the leader says is confirmed, but not beyond the end of our own log."""
        self.confirmed = max(self.confirmed, confirmed)
        self._bound.advance(min(self.confirmed, self._store.max_log_offset))

    def _when_confirmed(self, end: LogOffset, done: Callable[[int], None]) -> None:
        done(ResponseCode.SUCCESS if end <= self.confirmed else ResponseCode.SYSTEM_ERROR)

    def _bind(self) -> None:
        self._bound.limit = min(self.confirmed, self._store.max_log_offset)
