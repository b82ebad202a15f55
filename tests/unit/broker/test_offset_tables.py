"""What is asked about the offsets of all groups, when there are very many: no step is long."""

import gc
from collections.abc import Iterator

import pytest

from rocketeer.broker.clients import ClientTable
from rocketeer.broker.features.administration.offset_tables import OffsetTables
from rocketeer.broker.offsets import ConsumerOffsets
from rocketeer.broker.topics import TopicTable
from rocketeer.config import BrokerConfig
from rocketeer.model.offsets import QueueOffset
from rocketeer.protocol.bodies.groups import decode_group_list
from rocketeer.protocol.bodies.offsets import decode_corrections
from rocketeer.protocol.command import request
from rocketeer.remoting.router import Connection
from rocketeer.steps import finish
from support.clock import ManualClock
from support.step_times import best_longest_step_ms

GROUPS = 300_000
"""Of so many offsets are kept (limitConsumerOffsetPairs)."""
LONG_MS = 8.0


class Queues:
    def min_queue_offset(self, topic: str, queue_id: int) -> QueueOffset:
        return QueueOffset(0)


async def persist() -> None:
    pass


@pytest.fixture(scope="module")
def offsets() -> Iterator[ConsumerOffsets]:
    gc.disable()  # the table is young: a server has kept its own for long
    table = ConsumerOffsets()
    for number in range(GROUPS):
        table.commit(f"Group{number}", "T", 0, QueueOffset(number + 1))
    yield table
    gc.enable()


@pytest.fixture
def tables(offsets: ConsumerOffsets) -> OffsetTables:
    topics = TopicTable(BrokerConfig(broker_name="broker-a"), ManualClock())
    clients: ClientTable[Connection] = ClientTable()
    return OffsetTables(offsets, topics=topics, clients=clients, queues=Queues(), persist=persist)


def test_which_groups_consume_a_topic(tables: OffsetTables) -> None:
    asked = request(300, {"topic": "T"})
    assert best_longest_step_ms(lambda: tables.consuming(asked)) < LONG_MS
    assert len(set(decode_group_list(finish(tables.consuming(asked)).body))) == GROUPS


def test_corrections_of_all_groups_but_some(tables: OffsetTables) -> None:
    asked = request(308, {"topic": "T", "compareGroup": "Group7", "filterGroups": "Group0,Group1"})
    assert best_longest_step_ms(lambda: tables.correcting(asked)) < LONG_MS
    assert decode_corrections(finish(tables.correcting(asked)).body) == {0: 3}


def test_topics_of_a_group_and_of_all_that_are_known(offsets: ConsumerOffsets) -> None:
    known = {f"Group{number}" for number in range(100_000)}
    assert best_longest_step_ms(lambda: offsets.topics_of("Group7")) < LONG_MS
    assert best_longest_step_ms(lambda: offsets.topics_by_group(known)) < LONG_MS
    of = finish(offsets.topics_by_group(known))
    assert [list(of(group)) for group in ("Group7", "Group200000")] == [["T"], []]
