"""What the C++ client (PyPI `rocketmq` 0.4.4) puts on the wire, which is not quite what Java does."""

import pytest

from rocketeer.model.subscription import ConsumeFromWhere, ConsumeType, MessageModel
from rocketeer.protocol.command import decode_frame
from rocketeer.protocol.frame import JSON
from rocketeer.protocol.headers.base import Header, decode_header
from rocketeer.protocol.headers.clients import UnregisterClientHeader
from rocketeer.protocol.headers.pull import PullMessageHeader
from rocketeer.protocol.headers.send import SendMessageHeader
from rocketeer.protocol.json_header import decode_outer
from support.bodies import decode_heartbeat, decode_lock_request
from support.raw_headers import decode_raw

# Numbers stand bare or in quotes, booleans are 0 and 1, the header ends in a line feed.
SEND = (
    b'{"code":10,"extFields":{"AccessKey":"","OnsChannel":"ALIYUN","Signature":"x","batch":"0",'
    b'"bornTimestamp":"1794735147009","defaultTopic":"TBW102","defaultTopicQueueNums":4,"flag":0,'
    b'"producerGroup":"PGX","properties":"KEYS\\u0001k1\\u0002WAIT\\u0001true\\u0002","queueId":0,'
    b'"reconsumeTimes":"0","sysFlag":0,"topic":"Tx","unitMode":"0"},"flag":0,"language":"CPP","opaque":1,'
    b'"remark":"","version":63}\n'
)
PULL = (
    b'{"code":11,"extFields":{"commitOffset":"0","consumerGroup":"CGX","maxMsgNums":32,"queueId":0,'
    b'"queueOffset":"0","subVersion":"1794735147014","subscription":"*","suspendTimeoutMillis":"15000",'
    b'"sysFlag":6,"topic":"%RETRY%CGX"},"flag":0,"language":"CPP","opaque":11,"remark":"","version":63}\n'
)
GOODBYE = (
    b'{"code":35,"extFields":{"clientID":"30187-127.0.0.1@DEFAULT","consumerGroup":"CGX","producerGroup":""},'
    b'"flag":0,"language":"CPP","opaque":51,"remark":"","version":63}\n'
)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (
            SEND,
            SendMessageHeader(
                producer_group="PGX",
                topic="Tx",
                default_topic="TBW102",
                default_topic_queues=4,
                queue_id=0,
                sys_flag=0,
                born_ms=1794735147009,
                flag=0,
                properties="KEYS\x01k1\x02WAIT\x01true\x02",
                reconsume_times=0,
            ),
        ),
        (
            PULL,
            PullMessageHeader(
                consumer_group="CGX",
                topic="%RETRY%CGX",
                queue_id=0,
                queue_offset=0,
                max_count=32,
                sys_flag=6,
                commit_offset=0,
                suspend_ms=15000,
                sub_version=1794735147014,
                subscription="*",
            ),
        ),
        (
            GOODBYE,
            UnregisterClientHeader(
                client_id="30187-127.0.0.1@DEFAULT", producer_group="", consumer_group="CGX"
            ),
        ),
    ],
)
def test_its_headers_are_understood_both_ways(header: bytes, expected: Header) -> None:
    command = decode_frame(JSON, header, b"")
    assert (command.language, command.version) == ("CPP", 63)
    assert decode_header(type(expected), command.ext) == expected
    assert decode_raw(type(expected), decode_outer(header).ext_raw) == expected


def test_its_heartbeat_names_enums_by_place_and_knows_no_tag_codes() -> None:
    heartbeat = decode_heartbeat(
        b'{"clientID":"30187-127.0.0.1@DEFAULT","consumerDataSet":[{"consumeFromWhere":0,"consumeType":1,'
        b'"groupName":"CGX","messageModel":1,"subscriptionDataSet":[{"subString":"*",'
        b'"subVersion":"1794735147014","topic":"%RETRY%CGX"},{"codeSet":[0,0],"subString":"a||b",'
        b'"subVersion":"1794735147014","tagsSet":["a","b"],"topic":"Tx"}]}],'
        b'"producerDataSet":[{"groupName":"PGX"}]}\n'
    )
    (consumer,) = heartbeat.consumers
    assert consumer.consume_type is ConsumeType.CONSUME_PASSIVELY
    assert consumer.message_model is MessageModel.CLUSTERING
    assert consumer.consume_from_where is ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    retry, topic = consumer.subscriptions
    assert (retry.expression, retry.kind, retry.version) == ("*", "TAG", 1794735147014)
    # The codes are not the tags' hashes: whoever filters must make them from the tags.
    assert (topic.tags, topic.codes) == (frozenset("ab"), frozenset({0}))


def test_its_lock_request_ends_in_a_line_feed() -> None:
    request = decode_lock_request(
        b'{"clientId":"c","consumerGroup":"CGX","mqSet":[{"brokerName":"b","queueId":0,"topic":"Tx"}]}\n'
    )
    assert len(request.queues) == 1
