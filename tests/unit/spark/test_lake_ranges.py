"""What a batch of an archive passed over: counted once, whether it was gone before planning or before reading."""

import pytest

from rocketeer.model.queue import MessageQueue
from rocketeer.spark.jobs.lake.state import Range, lost_between

QUEUE = MessageQueue("Orders", "broker-a", 0)


@pytest.mark.parametrize(
    ("reached", "asked", "found", "lost"),
    [
        ({}, [Range(5, 9)], [Range(5, 9)], 0),
        ({QUEUE: 5}, [Range(5, 9)], [Range(5, 9)], 0),
        ({}, [Range(5, 9)], [], 4),  # a new queue: what was before it was never asked for
        ({QUEUE: 2}, [Range(5, 9)], [Range(5, 9)], 3),
        ({QUEUE: 2}, [Range(5, 9)], [Range(6, 7), Range(8, 9)], 5),
        ({QUEUE: 5}, [Range(5, 7), Range(8, 9)], [Range(5, 7), Range(8, 9)], 1),
        ({QUEUE: 90}, [Range(0, 4)], [Range(0, 4)], 0),  # the topic was deleted and made again
    ],
)
def test_lost_is_what_lies_between_and_was_not_found(
    reached: dict[MessageQueue, int], asked: list[Range], found: list[Range], lost: int
) -> None:
    assert lost_between(reached, {QUEUE: asked}, {QUEUE: found} if found else {}) == lost
