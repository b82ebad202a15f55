"""How far groups are behind, as the metrics have it."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from rocketeer.broker.features.metrics.lag import Lag, LagReader
from rocketeer.broker.topics import TopicTable
from rocketeer.config import BrokerConfig
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.topic import TopicConfig
from rocketeer.observe.counters import Counters
from rocketeer.steps import finish
from support.clock import ManualClock
from support.stores import make_bounded_store, message


class Committed:
    """One group, which is behind the first message."""

    def pairs(self) -> Iterator[tuple[str, str, Mapping[int, QueueOffset]]]:
        yield "TopicTest", "CG", {0: QueueOffset(1)}


def test_nobody_lags_behind_what_is_not_confirmed(tmp_path: Path) -> None:
    store, bound = make_bounded_store(tmp_path)
    store.open()
    ends = [store.append(message()).end for _ in range(3)]
    topics = TopicTable(BrokerConfig(), ManualClock())
    topics.configs["TopicTest"] = TopicConfig("TopicTest", 1, 1)
    reader = LagReader(Committed(), topics, store.read_queues, store.store_ms_at, Counters())
    lags: list[Lag] = []
    for end in ends[1:]:
        bound.advance(end)
        finish(reader.read(lags.append))
    assert [each.messages for each in lags] == [1, 2]
    store.close()
