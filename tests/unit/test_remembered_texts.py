"""What is made of strangers' texts may be remembered by number: then of short texts only."""

import tracemalloc
from collections.abc import Callable

import pytest

from rocketeer.broker.pull import accepts_of
from rocketeer.errors import InvalidTopic
from rocketeer.model.queue import MessageQueue
from rocketeer.model.topic import validate_topic_name
from rocketeer.observe.exposition import escaped
from rocketeer.protocol.bodies.queue_keys import encode_queue_keyed
from rocketeer.record.java_hash import tag_hash

TEXTS = 300


def named(name: str) -> object:
    return encode_queue_keyed([(MessageQueue(name, name, 0), b"1")])


def topic(name: str) -> None:
    with pytest.raises(InvalidTopic):
        validate_topic_name(name)


@pytest.mark.parametrize("use", [escaped, named, tag_hash, topic, accepts_of])
def test_long_texts_are_not_kept(use: Callable[[str], object]) -> None:
    tracemalloc.start()
    try:
        for number in range(TEXTS):
            use(f"{number}" + "x" * 4_000)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size < TEXTS * 4_000 / 3, "some may be, by their size"
