"""Bodies: what other clients send, what is refused, and what the recordings do not show."""

import struct
import zlib

import pytest

from rocketeer.errors import BadBody
from rocketeer.model.data_version import DataVersion
from rocketeer.model.queue import MessageQueue
from rocketeer.model.route import BrokerData, QueueData, Route
from rocketeer.model.subscription import ConsumeFromWhere, ConsumeType, MessageModel, Subscription
from rocketeer.model.topic import TopicConfig
from rocketeer.protocol.bodies import register
from rocketeer.protocol.bodies.connections import (
    ClientConnection,
    decode_group_connections,
    decode_producer_connections,
)
from rocketeer.protocol.bodies.groups import decode_group, decode_group_table
from rocketeer.protocol.bodies.heartbeat import ConsumerData, Heartbeat
from rocketeer.protocol.bodies.kv import decode_kv_table
from rocketeer.protocol.bodies.offsets import decode_queue_offsets, encode_queue_offsets
from rocketeer.protocol.bodies.producers import ProducerClient, decode_producer_table
from rocketeer.protocol.bodies.register import encode_registration
from rocketeer.protocol.bodies.route import decode_route
from rocketeer.protocol.bodies.topics import decode_topic_list, decode_topic_table
from support.bodies import (
    decode_heartbeat,
    decode_lock_request,
    decode_registration,
    encode_cluster_info,
    encode_route,
)

ROUTE = Route(
    queues=(QueueData("b", 4, 8, 6, 0),),
    brokers=(BrokerData("c", "b", {1: "127.0.0.1:10921", 0: "127.0.0.1:10911"}),),
    order_conf="b:4",
)


def test_a_route_is_strict_and_sorted_or_bare() -> None:
    assert encode_route(ROUTE, strict=True) == (
        b'{"brokerDatas":[{"brokerAddrs":{"0":"127.0.0.1:10911","1":"127.0.0.1:10921"},"brokerName":"b",'
        b'"cluster":"c"}],"filterServerTable":{},"orderTopicConf":"b:4","queueDatas":[{"brokerName":"b",'
        b'"perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":8}]}'
    )
    bare = encode_route(ROUTE, strict=False)
    assert b'{0:"127.0.0.1:10911",1:"127.0.0.1:10921"}' in bare
    assert decode_route(bare) == decode_route(encode_route(ROUTE, strict=True)) == ROUTE


def test_a_route_may_lack_what_nobody_needs() -> None:
    assert decode_route(b"{}") == Route()
    old = (
        b'{"queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":1,"writeQueueNums":1,"topicSynFlag":3}]}'
    )
    assert decode_route(old).queues == (QueueData("b", 1, 1, 6, 3),)


def test_cluster_info_has_bare_ids_unless_asked() -> None:
    brokers = {"b": ROUTE.brokers[0]}
    assert b'{0:"' in encode_cluster_info(brokers, {"c": ["b"]})


def test_enums_come_by_name_or_by_place_and_numbers_in_quotes() -> None:
    body = (
        b'{"clientID":"1.2.3.4@7","consumerDataSet":[{"consumeFromWhere":4,"consumeType":1,"groupName":"G",'
        b'"messageModel":0,"subscriptionDataSet":[{"topic":"T","subString":"a||b","subVersion":"17",'
        b'"codeSet":["97",98],"tagsSet":["a","b"]}]}]}'
    )
    assert decode_heartbeat(body) == Heartbeat(
        "1.2.3.4@7",
        (),
        (
            ConsumerData(
                "G",
                ConsumeType.CONSUME_PASSIVELY,
                MessageModel.BROADCASTING,
                ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
                (Subscription("T", "a||b", "TAG", frozenset("ab"), frozenset({97, 98}), 17),),
            ),
        ),
    )


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"not json",
        b'{"clientID":null}',
        b'{"clientID":"c","consumerDataSet":[{}]}',
        b'{"clientID":"c","consumerDataSet":[{"groupName":"g","consumeType":"SLEEPING"}]}',
        b'{"clientID":"c","consumerDataSet":[{"groupName":"g","messageModel":7}]}',
        b'{"clientID":"c","consumerDataSet":[{"groupName":"g","messageModel":-1}]}',
        b'{"clientID":"c","consumerDataSet":' + b"[" * 100_000,
    ],
    ids=lambda body: repr(body[:70]),
)
def test_a_heartbeat_that_is_none_is_bad(body: bytes) -> None:
    with pytest.raises(BadBody):
        decode_heartbeat(body)


def test_missing_parts_of_tables_are_empty() -> None:
    assert decode_topic_table(b"{}") == ({}, DataVersion(0, 0))
    assert decode_group_table(b'{"dataVersion":null}') == ({}, DataVersion(0, 0))
    assert decode_topic_list(b"{}") == ([], None)
    assert decode_kv_table(b'{"table":{"a":"b","c":null}}') == {"a": "b"}
    assert decode_lock_request(b'{"consumerGroup":"g","clientId":"c"}').queues == frozenset()


def test_a_topic_takes_its_name_from_the_table_when_it_has_none() -> None:
    table = decode_topic_table(b'{"topicConfigTable":{"T":{"perm":4}}}')
    assert table.configs == {"T": TopicConfig("T", perm=4)}
    with pytest.raises(BadBody):
        decode_group(b"{}")


def test_numbers_java_has_no_room_for_are_refused_when_they_come_in() -> None:
    for perm in (b"2147483648", b"1" + b"0" * 40):
        with pytest.raises(BadBody):
            decode_topic_table(b'{"topicConfigTable":{"T":{"perm":' + perm + b"}}}")
    with pytest.raises(BadBody):
        decode_route(b'{"brokerDatas":[{"brokerName":"b","brokerAddrs":{9999999999999999999:"a"}}]}')


def test_queues_stand_as_keys() -> None:
    table = {MessageQueue("T", "b", 1): 5, MessageQueue("%RETRY%G", "b", 0): -1}
    body = encode_queue_offsets(table)
    assert b'{{"brokerName":"b","queueId":1,"topic":"T"}:5' in body
    assert decode_queue_offsets(body) == table
    with pytest.raises(BadBody):
        decode_queue_offsets(b'{"offsetTable":{"T":5}}')


TOPICS = {"T": TopicConfig("T", 4, 8, 6), "%RETRY%G": TopicConfig("%RETRY%G", 1, 1, 6)}


def compressed(*pieces: bytes) -> bytes:
    return zlib.compress(b"".join(pieces))


def sized(piece: bytes) -> bytes:
    return struct.pack(">i", len(piece)) + piece


VERSION = sized(b'{"counter":1,"timestamp":2}')


def test_a_compressed_registration_keeps_all_but_flag_and_order() -> None:
    configs = TOPICS | {"U": TopicConfig("U", 1, 1, 6, sys_flag=3, order=True)}
    body = encode_registration(configs, DataVersion(2, 1), ["f"], compressed=True)
    value = decode_registration(body, compressed=True)
    assert value.configs == TOPICS | {"U": TopicConfig("U", 1, 1, 6)}
    assert (value.version, value.filter_servers) == (DataVersion(2, 1), ["f"])
    assert decode_registration(encode_registration(configs, DataVersion(2, 1))).configs == configs


def test_texts_of_connections_may_be_null() -> None:
    """As Java writes what a client never told; so do RocketMQ's forks."""
    one = b'{"clientAddr":null,"clientId":"c","language":null,"version":"401"}'
    expected = (ClientConnection("", "c", "", 401),)
    group = decode_group_connections(b'{"connectionSet":[%b],"messageModel":null}' % one)
    assert group.connections == expected
    assert decode_producer_connections(b'{"connectionSet":[%b]}' % one) == expected
    assert decode_producer_connections(b'{"connectionSet":null}') == ()
    table = b'{"data":{"P":[{"clientId":null,"language":null,"remoteIP":null,"lastUpdateTimestamp":7}]}}'
    assert decode_producer_table(table) == {"P": (ProducerClient(last_update_ms=7),)}


def test_a_body_that_goes_too_deep_is_bad() -> None:
    deep = b"[" * 900 + b"]" * 900
    with pytest.raises(BadBody):
        decode_producer_connections(b'{"connectionSet":%b}' % deep)


@pytest.mark.parametrize("version", ["[]", "3000000000", '"new"'])
def test_a_connection_that_is_none_is_bad(version: str) -> None:
    one = b'{"clientId":"c","version":%b}' % version.encode()
    with pytest.raises(BadBody, match="not what its code asks for"):
        decode_producer_connections(b'{"connectionSet":[%b]}' % one)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        compressed(),
        compressed(VERSION),
        compressed(VERSION)[:-3],
        compressed(struct.pack(">i", -1)),
        compressed(struct.pack(">i", 2**31 - 1)),
        compressed(VERSION, struct.pack(">i", -1)),
        compressed(VERSION, struct.pack(">i", 2**31 - 1)),
        compressed(VERSION, struct.pack(">i", 1), sized(b"T 1 1")),
        compressed(VERSION, struct.pack(">i", 1), sized(b"T one 1 6 SINGLE_TAG")),
        compressed(VERSION, struct.pack(">i", 1), sized(b"T 1 99999999999 6 SINGLE_TAG")),
        compressed(VERSION, struct.pack(">i", 1), sized(b"\xff 1 1 6 SINGLE_TAG")),
        compressed(VERSION, struct.pack(">i", 0)),
        compressed(VERSION, struct.pack(">i", 0), sized(b"{")),
        compressed(sized(b"nope"), struct.pack(">i", 0), sized(b"[]")),
    ],
)
def test_a_broken_compressed_registration_is_bad(body: bytes) -> None:
    with pytest.raises(BadBody):
        decode_registration(body, compressed=True)


def test_a_compressed_bomb_is_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(register, "OPENED_BYTES_MAX", 10_000)
    with pytest.raises(BadBody, match="grows past 10000"):
        decode_registration(zlib.compress(bytes(10_001)), compressed=True)
