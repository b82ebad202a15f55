"""What is lost is said whole, with a way to go on that fits whoever reads it."""

import re

import pytest

from rocketeer.model.queue import MessageQueue
from rocketeer.spark.failures import BY_OPTION, explain
from rocketeer.spark.source.losses import GO_ON, DataLost, Loss
from rocketeer.spark.source.planning import QueueRange, clip

QUEUE = MessageQueue("Orders", "broker-a", 3)


def _lost(queues: int) -> DataLost:
    queue_losses = [Loss(MessageQueue("T" * 127, "broker-a", n), 0, 10 + n, "why") for n in range(queues)]
    return DataLost(queue_losses)


@pytest.mark.parametrize(
    ("wanted", "low", "high"),
    [
        (QueueRange(QUEUE, 15, 3), 0, 3),
        (QueueRange(QUEUE, 5, 9), 0, 6),
        (QueueRange(QUEUE, 5, 9), 0, 5),
        (QueueRange(QUEUE, 5, 9), 7, 12),
    ],
)
def test_each_kind_of_loss_ends_as_a_sentence(wanted: QueueRange, low: int, high: int) -> None:
    _, loss = clip(wanted, low, high)
    assert loss is not None
    text = str(DataLost([loss]))
    assert not re.search(r"[?!;,.]\.", text), text
    assert text.endswith(f". {GO_ON}")
    assert "of queue 3 of topic 'Orders' on 'broker-a'" in text
    assert (f"[{loss.begin}, {loss.end})" in text) == (loss.records > 0)


def test_what_was_read_is_not_called_gone_when_a_queue_begins_anew() -> None:
    _, loss = clip(QueueRange(QUEUE, 15, 3), 0, 3)
    assert str(loss) == (
        "messages of queue 3 of topic 'Orders' on 'broker-a' may be gone that were not read yet: offsets went back from "
        "15 to 3 (was the topic deleted and made again?)"
    )
    assert loss is not None
    assert "; and more of 2 further queues. Set" in str(DataLost([loss] * 5))


def test_one_message_is_gone_and_two_are() -> None:
    assert str(Loss(QUEUE, 5, 6, "why")).startswith(
        "1 message [5, 6) of queue 3 of topic 'Orders' on 'broker-a' is gone"
    )
    assert "2 messages [5, 7)" in str(Loss(QUEUE, 5, 7, "why"))


def test_many_queues_are_counted_so_that_the_way_out_is_still_read() -> None:
    assert "; and 13 more of 1 further queue. Set" in str(_lost(4))
    text = str(_lost(5000))
    assert f"; and {sum(range(13, 5010))} more of 4997 further queues. Set" in text
    assert len(text) < 1000, "a command's line is cut there"


def test_a_command_names_its_own_flag() -> None:
    from pyspark.errors import StreamingQueryException

    packed = f"[STREAM_FAILED] ...\nrocketeer.spark.source.losses.DataLost: {_lost(2)}\n SQLSTATE: 38000"
    error = StreamingQueryException(packed)
    assert str(explain(error)).endswith(f"gone: why. {GO_ON}"), "a program's"
    line = str(explain(error, BY_OPTION))
    assert line.endswith("gone: why. Say --option failOnDataLoss=false to go on with what exists")
    assert "Set the option" not in line
