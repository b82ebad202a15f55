"""The small values: order of queues, versions, routes, subscriptions."""

import pytest

from rocketeer.model.data_version import DataVersion
from rocketeer.model.group import SubscriptionGroup, is_system_group
from rocketeer.model.property_names import RESERVED
from rocketeer.model.queue import MessageQueue
from rocketeer.model.route import BrokerData
from rocketeer.model.subscription import BadTagExpression, ConsumeFromWhere, MessageModel, parse_tags


def test_queues_sort_by_topic_then_broker_then_id_as_a_number() -> None:
    queues = [
        MessageQueue("B", "a", 0),
        MessageQueue("A", "b", 2),
        MessageQueue("A", "b", 10),
        MessageQueue("A", "a", 9),
    ]
    assert sorted(queues) == [queues[3], queues[1], queues[2], queues[0]]
    assert len({MessageQueue("A", "a", 9), queues[3]}) == 1


def test_a_version_moves_on_with_time_and_count() -> None:
    assert DataVersion().next(5).next(7) == DataVersion(timestamp=7, counter=2)


def test_the_master_has_id_0() -> None:
    assert BrokerData("c", "b", {0: "m:1", 1: "s:1"}).master == "m:1"
    assert BrokerData("c", "b", {1: "s:1"}).master is None


def test_a_new_group_has_the_references_defaults() -> None:
    group = SubscriptionGroup("g")
    assert (group.retry_queues, group.retry_max, group.which_broker_when_consume_slowly) == (1, 16, 1)
    assert is_system_group("CID_RMQ_SYS_TRANS")
    assert not is_system_group("g")


def test_enums_are_their_java_names() -> None:
    assert f"{MessageModel.CLUSTERING}" == "CLUSTERING"
    assert ConsumeFromWhere("CONSUME_FROM_LAST_OFFSET").name == "CONSUME_FROM_LAST_OFFSET"
    assert all(member.name == member.value for member in ConsumeFromWhere)


@pytest.mark.parametrize(
    ("expression", "tags"),
    [
        (None, set()),
        ("", set()),
        ("*", set()),
        ("a", {"a"}),
        ("a||b", {"a", "b"}),
        (" a || b ||", {"a", "b"}),
        ("a | b", {"a | b"}),
        (" || ", set()),
    ],
)
def test_tags_are_split_as_the_reference_does(expression: str | None, tags: set[str]) -> None:
    assert parse_tags(expression) == tags


@pytest.mark.parametrize("expression", ["||", "||||"])
def test_separators_alone_are_no_expression(expression: str) -> None:
    with pytest.raises(BadTagExpression, match="has no tag"):
        parse_tags(expression)


def test_the_reserved_names_are_those_of_the_reference() -> None:
    assert {"TAGS", "KEYS", "UNIQ_KEY", "DELAY", "WAIT", "REAL_TOPIC", "PGROUP"} <= RESERVED
    assert "CHECK_IMMUNITY_TIME_IN_SECONDS" not in RESERVED
