"""Topic names, permissions and namespaces follow RocketMQ's rules."""

import pytest

from rocketeer.errors import InvalidTopic
from rocketeer.model.topic import (
    Perm,
    TopicConfig,
    dlq_topic,
    is_system_topic,
    may_not_be_sent_to,
    perm_text,
    reply_topic,
    retry_topic,
    validate_topic_name,
    with_namespace,
    without_namespace,
)


@pytest.mark.parametrize("name", ["T", "a" * 127, "%RETRY%g", "ns%topic", "A_b-c|1"])
def test_good_names_pass(name: str) -> None:
    validate_topic_name(name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("", "The specified topic is blank."),
        ("  ", "The specified topic is blank."),
        ("a b", "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"),
        ("../x", "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"),
        ("T\n", "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"),
        ("中文", "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"),
        ("a" * 128, "The specified topic is longer than topic max length."),
    ],
)
def test_bad_names_are_refused_with_the_text_clients_know(name: str, text: str) -> None:
    with pytest.raises(InvalidTopic) as caught:
        validate_topic_name(name)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("perm", "text"), [(0, "---"), (1, "--X"), (2, "-W-"), (4, "R--"), (6, "RW-"), (7, "RWX"), (8, "---")]
)
def test_permissions_are_shown_as_three_letters(perm: int, text: str) -> None:
    assert perm_text(perm) == text


def test_a_new_topic_has_the_references_defaults() -> None:
    topic = TopicConfig("T")
    assert (topic.read_queues, topic.write_queues, topic.perm, topic.order) == (16, 16, 6, False)
    assert topic.perm == Perm.READ | Perm.WRITE


def test_what_may_not_be_sent_to_is_a_part_of_the_system_topics() -> None:
    forbidden = {"SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"}
    forbidden |= {"TRANS_CHECK_MAX_TIME_TOPIC", "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT"}
    allowed = {"TBW102", "BenchmarkTest", "RMQ_SYS_TRACE_TOPIC", "rmq_sys_anything"}
    assert all(may_not_be_sent_to(topic) and is_system_topic(topic) for topic in forbidden)
    assert all(is_system_topic(topic) and not may_not_be_sent_to(topic) for topic in allowed)
    assert not is_system_topic("T")


def test_derived_topics() -> None:
    assert retry_topic("g") == "%RETRY%g"
    assert dlq_topic("g") == "%DLQ%g"
    assert reply_topic("DefaultCluster") == "DefaultCluster_REPLY_TOPIC"


@pytest.mark.parametrize("name", ["T", "%RETRY%g", "%DLQ%g"])
def test_a_namespace_put_on_comes_off_again(name: str) -> None:
    inside = with_namespace(name, "ns")
    assert inside != name
    assert with_namespace(inside, "ns") == inside
    assert without_namespace(inside) == name
    assert without_namespace(inside, "ns") == name
    assert without_namespace(inside, "other") == inside


@pytest.mark.parametrize("name", ["TBW102", "rmq_sys_x", "CID_RMQ_SYS_TRANS", ""])
def test_the_systems_names_have_no_namespace(name: str) -> None:
    assert with_namespace(name, "ns") == name
    assert without_namespace(name) == name


@pytest.mark.parametrize("namespace", [None, ""])
def test_no_namespace_changes_nothing(namespace: str | None) -> None:
    assert with_namespace("T", namespace) == "T"
    assert without_namespace("T", namespace) == "T"
