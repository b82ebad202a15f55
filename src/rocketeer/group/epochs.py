"""Which epoch wrote which part of the log, and where two logs part. Pure.

    [(1, 0), (4, 8192), (5, 9000)]        epoch 4 wrote the bytes from 8192 up to 9000

An epoch has one leader, and a leader only appends: two logs that both have an epoch from the same place on are equal
up to where the first of them leaves that epoch.
"""

from collections.abc import Sequence
from typing import Final

from rocketeer.model.offsets import LogOffset

Epochs = Sequence[tuple[int, LogOffset]]
"""(epoch, log offset of its first byte), both rising."""

EPOCHS_MAX: Final = 1_000
"""Most epochs that are kept and told, the last ones: a log whose end is older is not known any more."""


def within(epochs: Epochs, log_end: LogOffset) -> list[tuple[int, LogOffset]]:
    """The epochs that a log of this length can have: others were noted for bytes that never came, or were cut."""
    return [(epoch, start) for epoch, start in epochs if start <= log_end]


def begun(epochs: Epochs, epoch: int, log_end: LogOffset) -> list[tuple[int, LogOffset]]:
    """The list of a leader that begins an epoch where its log ends."""
    kept = within(epochs, log_end)
    assert not kept or kept[-1][0] < epoch, "an epoch begins once"
    return [*kept, (epoch, log_end)][-EPOCHS_MAX:]


def common_end(ours: Epochs, our_end: LogOffset, theirs: Epochs, their_end: LogOffset) -> LogOffset:
    """Up to where two logs are equal for sure; -1 when they have no epoch in common."""
    ours, theirs = within(ours, our_end), within(theirs, their_end)
    their_starts = dict(theirs)
    for place in range(len(ours) - 1, -1, -1):
        epoch, start = ours[place]
        if their_starts.get(epoch) == start:
            return min(_end(ours, epoch, our_end), _end(theirs, epoch, their_end))
    return LogOffset(-1)


def _end(epochs: Epochs, epoch: int, log_end: LogOffset) -> LogOffset:
    following = [start for number, start in epochs if number > epoch]
    return min(following[0], log_end) if following else log_end
