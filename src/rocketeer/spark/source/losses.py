"""What was to be read and is not there: said by planning and by fetching, with how to go on. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rocketeer.errors import RocketeerError
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue

GO_ON: Final = "Set the option failOnDataLoss to false to go on with what exists"
"""The end of DataLost's text. A command has a flag for it, and says that instead (`failures.py`)."""
_SHOWN_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class Loss:
    """Messages that a range asks for and the queue does not have (any more). An empty one: nobody knows how many."""

    queue: MessageQueue
    begin: QueueOffset
    end: QueueOffset
    why: str

    @property
    def records(self) -> int:
        return self.end - self.begin

    def __str__(self) -> str:
        queue = self.queue
        place = f"queue {queue.queue_id} of topic {queue.topic!r} on {queue.broker_name!r}"
        if not self.records:
            return f"messages of {place} may be gone that were not read yet: {self.why}"
        messages = "1 message" if self.records == 1 else f"{self.records} messages"
        verb = "is" if self.records == 1 else "are"
        return f"{messages} [{self.begin}, {self.end}) of {place} {verb} gone: {self.why}"


class DataLost(RocketeerError):
    """Messages that were to be read are not there any more, and `failOnDataLoss` is true."""

    def __init__(self, losses: Sequence[Loss]) -> None:
        parts = [str(loss) for loss in losses[:_SHOWN_MAX]]
        more = losses[_SHOWN_MAX:]
        if more:
            messages = sum(loss.records for loss in more)
            queues = f"{len(more)} further queue{'s' if len(more) > 1 else ''}"
            parts.append(f"and {f'{messages} more' if messages else 'more'} of {queues}")
        super().__init__(f"{'; '.join(parts)}. {GO_ON}")
