"""Laws of JSON bodies: both spellings mean the same, and typed values survive them."""

import json
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rocketeer.errors import BadBody
from rocketeer.model.data_version import DataVersion
from rocketeer.model.group import SubscriptionGroup
from rocketeer.model.queue import MessageQueue
from rocketeer.model.route import BrokerData, QueueData, Route
from rocketeer.model.subscription import ConsumeFromWhere, ConsumeType, MessageModel, Subscription
from rocketeer.model.topic import TopicConfig
from rocketeer.protocol import fastjson
from rocketeer.protocol.bodies.groups import decode_group_table
from rocketeer.protocol.bodies.heartbeat import (
    ConsumerData,
    Heartbeat,
    encode_heartbeat,
)
from rocketeer.protocol.bodies.locks import LockRequest, encode_lock_request
from rocketeer.protocol.bodies.offsets import (
    decode_consumer_offsets,
    decode_queue_offsets,
    encode_queue_offsets,
)
from rocketeer.protocol.bodies.register import encode_registration
from rocketeer.protocol.bodies.route import decode_cluster_info, decode_route
from rocketeer.protocol.fastjson import dumps, dumps_bare, loads, to_strict
from support.bodies import (
    decode_heartbeat,
    decode_lock_request,
    decode_registration,
    encode_cluster_info,
    encode_route,
)
from support.tables import encode_group_table

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
names = st.from_regex(r"[%a-zA-Z0-9_-]{1,12}", fullmatch=True)
small = st.integers(0, 2**31 - 1)
big = st.integers(-(2**63), 2**63 - 1)
versions = st.builds(DataVersion, timestamp=big, counter=big)
topics = st.builds(
    TopicConfig,
    name=names,
    read_queues=small,
    write_queues=small,
    perm=st.integers(0, 7),
    filter_type=st.sampled_from(["SINGLE_TAG", "MULTI_TAG"]),
    sys_flag=small,
    order=st.booleans(),
)
queues = st.builds(MessageQueue, topic=texts, broker_name=texts, queue_id=small)
brokers = st.builds(
    BrokerData, cluster=texts, broker_name=texts, addresses=st.dictionaries(st.integers(0, 2**63 - 1), texts)
)
subscriptions = st.builds(
    Subscription,
    topic=texts,
    expression=texts,
    kind=st.sampled_from(["TAG", "SQL92"]),
    tags=st.frozensets(texts, max_size=3),
    codes=st.frozensets(st.integers(-(2**31), 2**31 - 1), max_size=3),
    version=big,
    class_filter=st.booleans(),
)
heartbeats = st.builds(
    Heartbeat,
    client_id=texts,
    producer_groups=st.lists(texts, max_size=2).map(tuple),
    consumers=st.lists(
        st.builds(
            ConsumerData,
            group=texts,
            consume_type=st.sampled_from(ConsumeType),
            message_model=st.sampled_from(MessageModel),
            consume_from_where=st.sampled_from(ConsumeFromWhere),
            subscriptions=st.lists(subscriptions, max_size=2).map(tuple),
            unit_mode=st.booleans(),
        ),
        max_size=2,
    ).map(tuple),
)
routes = st.builds(
    Route,
    queues=st.lists(
        st.builds(
            QueueData, broker_name=texts, read_queues=small, write_queues=small, perm=small, sys_flag=small
        ),
        max_size=2,
    ).map(tuple),
    brokers=st.lists(brokers, max_size=2).map(tuple),
    order_conf=st.none() | texts,
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(texts, inner, max_size=3)
        | st.dictionaries(st.integers(-9, 99), inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(deadline=None)
@given(values)
def test_both_spellings_mean_the_same(value: Any) -> None:
    plain = json.loads(json.dumps(value))
    assert loads(dumps_bare(value)) == loads(dumps(value)) == plain
    assert json.loads(to_strict(dumps_bare(value))) == plain
    assert json.loads(to_strict(dumps(value))) == plain


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60) | st.text("{}[]:,'\"\\0123456789aeltrufsn-. ", max_size=30).map(str.encode))
def test_any_bytes_give_a_value_or_bad_body(data: bytes) -> None:
    with suppress(BadBody):
        to_strict(data)
    with suppress(BadBody):
        loads(data)
    with suppress(BadBody):
        decode_heartbeat(data)
    with suppress(BadBody):
        decode_registration(data, compressed=True)


@settings(deadline=None)
@given(routes, st.booleans())
def test_a_route_survives(route: Route, strict: bool) -> None:
    assert decode_route(encode_route(route, strict=strict)) == route


@settings(deadline=None)
@given(st.dictionaries(texts, brokers, max_size=3), st.dictionaries(texts, st.lists(texts, max_size=2)))
def test_cluster_info_survives(table: dict[str, BrokerData], clusters: dict[str, list[str]]) -> None:
    assert decode_cluster_info(encode_cluster_info(table, clusters)) == (table, clusters)


@settings(deadline=None)
@given(heartbeats)
def test_a_heartbeat_survives(heartbeat: Heartbeat) -> None:
    assert decode_heartbeat(encode_heartbeat(heartbeat)) == heartbeat


@settings(deadline=None)
@given(st.lists(topics, max_size=4), versions)
def test_a_registration_survives(configs: list[TopicConfig], version: DataVersion) -> None:
    table = {topic.name: topic for topic in configs}
    assert decode_registration(encode_registration(table, version)) == (table, version, [])
    opened = decode_registration(encode_registration(table, version, compressed=True), compressed=True)
    assert opened.version == version
    assert opened.configs == {
        name: TopicConfig(name, topic.read_queues, topic.write_queues, topic.perm, topic.filter_type)
        for name, topic in table.items()
    }


@settings(deadline=None)
@given(st.dictionaries(texts, st.booleans(), max_size=3), versions)
def test_a_group_table_survives(groups: dict[str, bool], version: DataVersion) -> None:
    table = {name: SubscriptionGroup(name, consume_enable=enable) for name, enable in groups.items()}
    assert decode_group_table(encode_group_table(table, version)) == (table, version)


@settings(deadline=None)
@given(
    st.builds(LockRequest, consumer_group=texts, client_id=texts, queues=st.frozensets(queues, max_size=3))
)
def test_a_lock_request_survives(request: LockRequest) -> None:
    assert decode_lock_request(encode_lock_request(request)) == request


@settings(deadline=None)
@given(st.dictionaries(texts, st.dictionaries(small, big)), st.dictionaries(queues, big, max_size=3))
def test_offset_tables_survive(
    consumers: dict[str, dict[int, int]], by_queue: dict[MessageQueue, int]
) -> None:
    assert decode_consumer_offsets(fastjson.dumps_bare({"offsetTable": consumers})) == consumers
    assert decode_queue_offsets(encode_queue_offsets(by_queue)) == by_queue
