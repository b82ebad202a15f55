"""Which pulls tell brokers how far the group is, so that little is consumed again when a consumer is killed.

A pull that tells an offset is answered at once, found or not: its answer says that the offset was taken, and newer
ones wait for that (`CommitOrder`). While messages wait at the broker each pull is answered at once, and tells the
offset if it changed. At the end of a queue pulls are held until messages come; one that tells an offset is sent
before such a pull once a second at most, or for every pull's worth of messages.
"""

from collections.abc import Callable
from typing import Final

from rocketeer.client.aio.offset_keeper import OffsetKeeper
from rocketeer.client.core.process_queue import ProcessQueue
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.route import MASTER_ID

PULL_COMMIT_S: Final = 1.0


class PullOffsetCommits:
    """Decides which pulls also commit the group's offset; asked before and after each pull."""

    def __init__(self, offsets: OffsetKeeper, *, pull_batch: int, now_s: Callable[[], float]) -> None:
        self._offsets = offsets
        self._pull_batch = pull_batch
        self._now_s = now_s

    def begin(self, held: ProcessQueue) -> QueueOffset | None:
        """The offset that the next pull of the queue tells, if any; `end` must follow if it does."""
        if held.broker_id != MASTER_ID:  # slaves do not keep any
            return None
        offset = self._offsets.uncommitted(held.queue)
        if not offset or offset == held.pull_committed_offset:
            return None
        now_s = self._now_s()
        if (
            not held.behind
            and offset - held.pull_committed_offset < self._pull_batch
            and now_s - held.pull_committed_s < PULL_COMMIT_S
        ):
            return None
        if not self._offsets.begin_pull_commit(held.queue):
            return None
        held.pull_committed_s = now_s
        return offset

    def end(self, held: ProcessQueue, offset: QueueOffset, *, told: bool) -> None:
        """The pull was answered, which `told` says, or will not be any more."""
        self._offsets.end_pull_commit(held.queue, told=told)
        if told:
            held.pull_committed_offset = offset
