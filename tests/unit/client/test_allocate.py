"""The strategies against Apache's own: golden.json, and samples its 4.9.8 classes computed."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketeer.client.core.allocate import (
    Averagely,
    AveragelyByCircle,
    ByConfig,
    ByMachineRoom,
    ConsistentHash,
    MachineRoomNearby,
    Strategy,
)
from rocketeer.errors import ConfigError
from rocketeer.model.queue import MessageQueue

GOLDEN = Path(__file__).parents[2] / "golden" / "data" / "golden.json"
SAMPLES = Path(__file__).with_name("allocation_samples.jsonl")


def _room(text: str) -> str:
    return re.split("[@-]", text)[0]


STRATEGIES: dict[str, Strategy] = {
    "AVG": Averagely(),
    "AVG_BY_CIRCLE": AveragelyByCircle(),
    "CONSISTENT_HASH(10)": ConsistentHash(),
    "CONSISTENT_HASH(50)": ConsistentHash(50),
    "CONSISTENT_HASH(3)": ConsistentHash(3),
    "MACHINE_ROOM(hz,sh)": ByMachineRoom(frozenset({"hz", "sh"})),
    "NEARBY(AVG)": MachineRoomNearby(Averagely(), _room, _room),
    "NEARBY(AVG_BY_CIRCLE)": MachineRoomNearby(AveragelyByCircle(), _room, _room),
}


def _queue(text: str, topic: str = "T") -> MessageQueue:
    broker, _, queue_id = text.rpartition(":")
    return MessageQueue(topic, broker, int(queue_id))


def test_the_recorded_allocations_are_ours() -> None:
    answers = json.loads(GOLDEN.read_text())["allocate(8 mqs broker-a/b q0-3)"]
    names = {text for by_name in answers.values() for mine in by_name.values() for text in mine}
    queues = sorted(_queue(text, "TopicTest") for text in names)
    for me, by_name in answers.items():
        for name, mine in by_name.items():
            expected = [_queue(text, "TopicTest") for text in mine]
            assert STRATEGIES[name](me, queues, sorted(answers)) == expected, (name, me)


@pytest.mark.parametrize("line", SAMPLES.read_text().splitlines(), ids=lambda line: str(line.count(",")))
def test_every_member_gets_what_java_computes(line: str) -> None:
    sample = json.loads(line)
    queues = [_queue(text) for text in sample["queues"]]
    clients = sample["clients"][:-1]
    for name, answers in sample["answers"].items():
        for me, places in zip(sample["clients"], answers, strict=True):
            assert STRATEGIES[name](me, queues, clients) == [queues[place] for place in places], (name, me)


@pytest.mark.parametrize("make", [Averagely, AveragelyByCircle, ConsistentHash])
@given(queues=st.integers(0, 60), members=st.integers(1, 12))
def test_each_queue_goes_to_exactly_one_member(
    make: Callable[[], Strategy], queues: int, members: int
) -> None:
    everything = [MessageQueue("T", f"b{number % 3}", number) for number in range(queues)]
    everything.sort()
    clients = sorted(f"10.0.0.{number}@{number}" for number in range(members))
    dealt = [queue for me in clients for queue in make()(me, everything, clients)]
    assert sorted(dealt) == everything


def test_a_written_list_is_taken_as_it_stands() -> None:
    mine = (MessageQueue("T", "b", 3),)
    assert ByConfig(mine)("anybody", [], []) == list(mine)


def test_a_queue_without_a_room_is_refused() -> None:
    nearby = MachineRoomNearby(broker_room=lambda name: "")
    with pytest.raises(ConfigError, match="no machine room"):
        nearby("hz-1", [MessageQueue("T", "b", 0)], ["hz-1"])
