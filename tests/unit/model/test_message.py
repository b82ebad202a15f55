"""A message is checked when it is made, and says which argument was wrong."""

import doctest
from typing import Any

import pytest
from msgspec import structs

from rocketeer.errors import InvalidTopic, RocketeerError
from rocketeer.model import message as module
from rocketeer.model.message import InvalidMessage, Message


def test_the_examples_in_the_docstring_run() -> None:
    assert doctest.testmod(module).failed == 0


def test_a_list_of_keys_is_the_same_as_the_keys_joined_with_spaces() -> None:
    assert Message("T", b"x", keys=["a", "b"]) == Message("T", b"x", keys="a b")
    assert Message("T", b"x", keys=("a",)).keys == "a"


def test_a_changed_copy_is_checked_like_a_new_message() -> None:
    message = Message("T", b"x", keys=["a", "b"], delay=5, properties={"colour": "red"})
    changed = structs.replace(message, body=b"y", keys=["c", "d"])
    assert changed == Message("T", b"y", keys="c d", delay=5, properties={"colour": "red"})
    assert message.body == b"x"
    with pytest.raises(InvalidMessage, match="contradict each other"):
        structs.replace(message, delay_level=1)
    with pytest.raises(InvalidMessage, match="body must be bytes"):
        structs.replace(message, body="text")


def test_all_arguments_become_properties() -> None:
    message = Message(
        "T",
        b"x",
        tags="t",
        keys="k",
        properties={"u": "v"},
        delay_level=3,
        wait_stored=False,
        sharding_key="s",
    )
    assert message.all_properties() == {
        "u": "v",
        "TAGS": "t",
        "KEYS": "k",
        "DELAY": "3",
        "__SHARDINGKEY": "s",
        "WAIT": "false",
    }


def test_a_plain_message_only_says_that_the_sender_waits() -> None:
    assert Message("T", b"x").all_properties() == {"WAIT": "true"}


def test_the_callers_dict_is_copied() -> None:
    properties = {"u": "v"}
    message = Message("T", b"x", properties=properties)
    properties["TAGS"] = "smuggled"
    assert message.all_properties() == {"u": "v", "WAIT": "true"}
    message.all_properties()["u"] = "other"
    assert message.properties == {"u": "v"}


def test_other_bytes_like_bodies_become_bytes() -> None:
    assert Message("T", bytearray(b"x")).body == b"x"  # type: ignore[arg-type]


def test_senders_may_set_the_transaction_immunity_time() -> None:
    assert Message("T", b"x", properties={"CHECK_IMMUNITY_TIME_IN_SECONDS": "10"})


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"body": "text"}, "body must be bytes, not str: encode it first"),
        ({"body": None}, "body must be bytes"),
        ({"topic": 7}, "topic must be text, not int"),
        ({"tags": ""}, "tags is blank: leave it out"),
        ({"tags": 7}, "tags must be text, not int"),
        ({"tags": "a\x01b"}, "tags holds"),
        ({"keys": ["a b"]}, "key 'a b' is empty or has a space"),
        ({"keys": [""]}, "key '' is empty"),
        ({"keys": [7]}, "keys must be texts, not int"),
        ({"keys": []}, "keys is blank"),
        ({"keys": b"k"}, "not bytes"),
        ({"keys": "a\x02b"}, "keys holds"),
        ({"sharding_key": " "}, "sharding_key is blank"),
        ({"properties": {"TAGS": "t"}}, "use the argument tags="),
        ({"properties": {"KEYS": "t"}}, "use the argument keys="),
        ({"properties": {"DELAY": "1"}}, "use the argument delay_level="),
        ({"properties": {"WAIT": "false"}}, "use the argument wait_stored="),
        ({"properties": {"UNIQ_KEY": "t"}}, "'UNIQ_KEY' has a meaning of its own: choose another name"),
        ({"properties": {" ": "t"}}, "property name ' ' is blank"),
        ({"properties": {"u": ""}}, "property 'u' is blank"),
        ({"properties": {"u": 7}}, "property 'u' must be text, not int"),
        ({"properties": {7: "u"}}, "property names must be texts, not int"),
        ({"properties": {"a\x01b": "u"}}, "property name 'a\\x01b' holds"),
        ({"properties": {"u": "a\x02b"}}, "property 'u' holds"),
        ({"delay_level": -1}, "delay_level -1"),
        ({"flag": 1 << 31}, "does not fit in 32 bits"),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidMessage) as caught:
        Message(**{"topic": "T", "body": b"x", **arguments})
    assert text in str(caught.value)
    assert isinstance(caught.value, RocketeerError)


def test_a_wrong_topic_is_refused() -> None:
    with pytest.raises(InvalidTopic):
        Message("no spaces", b"x")
