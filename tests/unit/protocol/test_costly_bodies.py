"""Bodies made to cost much: a small one must not fill the memory, a large one must not hold up the loop."""

import json
import time

import pytest

from rocketeer.errors import BadBody
from rocketeer.model.data_version import DataVersion
from rocketeer.model.queue import MessageQueue
from rocketeer.model.topic import TopicConfig
from rocketeer.protocol.bodies.groups import decode_group
from rocketeer.protocol.bodies.heartbeat import decode_client_check, opening_heartbeat
from rocketeer.protocol.bodies.offsets import reading_member_status
from rocketeer.protocol.bodies.register import reading_topic_table
from rocketeer.protocol.bodies.topics import TopicTableBody, decode_topic_table
from rocketeer.protocol.fastjson import loads
from rocketeer.steps import Steps, finish
from support.bodies import decode_heartbeat, decode_lock_request, decode_registration
from support.tables import encode_topic_table

DECODERS = [
    decode_heartbeat,
    decode_client_check,
    decode_lock_request,
    decode_group,
    decode_registration,
    decode_topic_table,
]


@pytest.mark.parametrize("depth", [3, 10, 30, 60])
def test_keys_inside_keys_do_not_multiply(depth: int) -> None:
    """Every level used to double the text: 200 bytes became all the memory there is."""
    with pytest.raises(BadBody, match="nests"):
        loads(b"{" * (depth + 1) + b"1:1" + b"}:1" * depth + b"}")


@pytest.mark.parametrize("decode", DECODERS, ids=lambda decode: decode.__name__)
def test_large_requests_are_strict_json_or_refused_at_once(decode) -> None:  # type: ignore[no-untyped-def]
    body = b"{" + b",".join(b"%d:1" % number for number in range(500_000)) + b"}"
    began_s = time.process_time()
    with pytest.raises(BadBody):
        decode(body)
    assert time.process_time() - began_s < 1, "rewriting it took four seconds"


def test_a_bare_table_of_very_many_topics_is_read_a_topic_a_step() -> None:
    topics = {f"topic{number}": TopicConfig(f"topic{number}") for number in range(5_000)}
    body = encode_topic_table(topics, DataVersion(1, 2))
    steps = 0

    def counted() -> Steps[TopicTableBody]:
        nonlocal steps
        reading = reading_topic_table(body)
        while True:
            try:
                next(reading)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            steps += 1
            yield

    assert finish(counted()) == decode_topic_table(body)
    assert steps > len(topics)


@pytest.mark.parametrize("count", [1, 5_000], ids=["small", "large"])
def test_a_topic_that_is_null_is_none_whatever_the_size_of_the_body(count: int) -> None:
    topics = {f"topic{number}": TopicConfig(f"topic{number}") for number in range(count)}
    begin = b'{"topicConfigTable":{'
    table = encode_topic_table(topics, DataVersion(1, 2))
    table = begin + b'"none": null , "void":null,' + table.removeprefix(begin)
    assert finish(reading_topic_table(table)) == TopicTableBody(topics, DataVersion(1, 2))
    body = b'{"topicConfigSerializeWrapper":%b,"filterServerList":[]}' % table
    assert decode_registration(body).configs == topics


def test_tags_and_codes_of_a_subscription_are_read_as_far_as_a_consumer_may_have_them() -> None:
    for count in (4_096, 60_000):
        tags = [f"T{number}" for number in range(count)]
        told = {"topic": "T", "subString": "a", "tagsSet": tags, "codeSet": list(range(count))}
        body = {"clientID": "c", "consumerDataSet": [{"groupName": "G", "subscriptionDataSet": [told]}]}
        (subscription,) = decode_heartbeat(json.dumps(body).encode()).consumers[0].subscriptions
        read = count if count == 4_096 else 0
        assert (subscription.expression, len(subscription.tags), len(subscription.codes)) == ("a", read, read)
    told["tagsSet"], told["codeSet"] = [], ["x"]
    with pytest.raises(BadBody):
        decode_heartbeat(json.dumps(body).encode())


def test_what_must_be_rewritten_is_in_steps_or_small() -> None:
    def loose(size: int) -> bytes:
        return b"{groupName:'G',clientID:'c',x:[" + b"1," * (size // 2) + b"1]}"

    steps = opening_heartbeat(loose(60_000))
    assert sum(1 for _ in steps) > 100
    assert decode_group(loose(8_000)).name == "G"
    with pytest.raises(BadBody):
        decode_group(loose(9_000))


def test_a_long_text_in_single_quotes_has_no_escapes() -> None:
    assert loads(b"{a:'%b'}" % (b"x" * 60_000)) == {"a": "x" * 60_000}
    assert loads(b"{a:'%b'}" % (b"\\'" * 4_000)) == {"a": "'" * 4_000}
    with pytest.raises(BadBody, match="single quotes"):
        loads(b"{a:'%b'}" % (b"\\'" * 5_000))


def test_what_a_member_tells_of_its_offsets_is_rewritten_in_steps() -> None:
    """16 KB of it in a form that nobody writes took 7 ms in one go."""
    rows = [b"{'topic':'T','brokerName':'a','queueId':%d}:%d" % (queue, 2 * queue) for queue in range(300)]
    body = b"{'messageQueueTable':{" + b",".join(rows) + b"}}"
    assert len(body) < 16 << 10
    assert sum(1 for _ in reading_member_status(body)) > 5
    expected = {MessageQueue("T", "a", queue): 2 * queue for queue in range(300)}
    assert finish(reading_member_status(body)) == expected
