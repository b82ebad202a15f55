"""What changes hands, and what is stored of it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketeer.client.core.allocate import AVERAGELY
from rocketeer.client.core.offsets import OffsetFile, OffsetTable, merged
from rocketeer.client.core.rebalance import difference, share_of, without_subscription
from rocketeer.errors import ConfigError
from rocketeer.model.queue import MessageQueue


def queue(number: int, topic: str = "T") -> MessageQueue:
    return MessageQueue(topic, "b", number)


numbers = st.frozensets(st.integers(0, 20))


@given(mine=numbers, held=numbers, other=numbers)
def test_letting_go_and_taking_up_leads_to_what_is_mine(
    mine: frozenset[int], held: frozenset[int], other: frozenset[int]
) -> None:
    current = {queue(n) for n in held} | {queue(n, "other") for n in other}
    change = difference("T", {queue(n) for n in mine}, current)
    after = (current - set(change.revoked)) | set(change.assigned)
    assert after == {queue(n) for n in mine} | {queue(n, "other") for n in other}
    assert not set(change.assigned) & current, "what is held is not taken up again"


def test_members_agree_whatever_order_they_hear_of_each_other() -> None:
    queues = [queue(n) for n in range(8)]
    a = share_of("a", reversed(queues), ["b", "a", "a"], AVERAGELY)
    b = share_of("b", queues, ["a", "b"], AVERAGELY)
    assert a | b == set(queues)
    assert not a & b


def test_queues_of_a_topic_nobody_subscribes_are_let_go() -> None:
    assert without_subscription({"T"}, [queue(0), queue(1, "old")]) == (queue(1, "old"),)


def test_an_offset_goes_back_only_on_purpose() -> None:
    table = OffsetTable()
    table.update(queue(0), 10)
    table.update(queue(0), 5)
    assert table.get(queue(0)) == 10
    table.update(queue(0), 5, only_forward=False)
    assert table.get(queue(0)) == 5


def test_only_what_changed_is_stored_and_a_change_meanwhile_is_not_lost() -> None:
    table = OffsetTable()
    table.known(queue(0), 3)
    assert table.unsaved() == {}
    for offset in range(4, 100):
        table.update(queue(0), offset)
    table.update(queue(1), 0)
    assert table.unsaved() == {queue(0): 99, queue(1): 0}
    table.update(queue(0), 120)  # while 99 is under way
    table.saved(queue(0), 99)
    table.saved(queue(1), 0)
    assert table.unsaved() == {queue(0): 120}
    table.forget(queue(0))
    table.saved(queue(0), 120)
    assert table.unsaved() == {}


def test_what_may_be_stored_otherwise_is_stored_again() -> None:
    table = OffsetTable()
    assert table.unsaved_of(queue(0)) is None
    table.known(queue(0), 3)
    table.update(queue(0), 4)
    assert table.unsaved_of(queue(0)) == 4
    table.unsure(queue(0))  # 4 is under way
    table.update(queue(0), 3, only_forward=False)
    assert table.unsaved() == {queue(0): 3}, "it was stored before, and may not be any more"
    table.saved(queue(0), 3)
    assert table.unsaved_of(queue(0)) is None


def test_the_offset_file_is_javas(tmp_path: Path) -> None:
    file = OffsetFile.at("10.0.0.1@DEFAULT", "G", tmp_path)
    assert file.path == tmp_path / "10.0.0.1@DEFAULT" / "G" / "offsets.json"
    assert file.load() == {}
    file.path.parent.mkdir(parents=True)
    # As Java's fastjson writes it, with a queue as key.
    file.path.write_text('{\n\t"offsetTable":{{\n\t\t"brokerName":"b","queueId":1,"topic":"T"\n\t}:42}\n}')
    assert file.load() == {queue(1): 42}
    file.save(merged(file.load(), [(queue(2), 7)]))
    assert file.load() == {queue(1): 42, queue(2): 7}
    assert '{"brokerName":"b","queueId":2,"topic":"T"}:7' in file.path.read_text()


def test_a_broken_offset_file_is_replaced_by_the_one_before(tmp_path: Path) -> None:
    file = OffsetFile(tmp_path / "offsets.json")
    file.save({queue(0): 1})
    file.save({queue(0): 2})
    file.path.write_text("{half")
    assert file.load() == {queue(0): 1}
    file.path.with_name("offsets.json.bak").write_text("[")
    with pytest.raises(ConfigError, match=r"offsets\.json"):
        file.load()
