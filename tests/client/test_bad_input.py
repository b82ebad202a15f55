"""Malformed messages of each kind: a clear code where there is an answer; nothing is lost or delivered twice by it."""

from collections.abc import Iterator
from typing import Any

import pytest

from rocketeer import UNKNOWN, Message, PushConsumer, ReceivedMessage, TransactionProducer, aio
from rocketeer.bench.control import Control
from rocketeer.client.core.transactions import Verdict
from rocketeer.errors import BadSqlExpression
from rocketeer.model.message import InvalidMessage
from rocketeer.model.subscription import ConsumeFromWhere
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import request
from rocketeer.record.layout import StoredMessage
from support.cluster import ServerCluster, running_cluster
from support.consuming import make_topic, until, until_sync
from support.raw_connection import RawConnection
from support.senders import read_topic, send_header

GROUP = "PG-bad"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerCluster]:
    """Ours: Apache's says other words, or none."""
    with running_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def stored(cluster: ServerCluster, topic: str) -> list[StoredMessage]:
    return [message for queue in read_topic(cluster.broker, topic, 1) for message in queue]


def bodies(cluster: ServerCluster, topic: str) -> list[bytes]:
    return [message.body for message in stored(cluster, topic)]


NO_LEVELS = {
    "word": "soon", "fraction": "1.5", "exponent": "1e3", "space": " 1", "arabic": "٣", "hex": "0x10", "long": "9" * 30,
    "33-bits": str(1 << 31), "sign": "-", "nul": "1\x00",
}  # fmt: skip
LOW_LEVELS = {
    "zero": "0",
    "minus-1": "-1",
    "minus-18": "-18",
    "least": str(-(1 << 31)),
    "minus-0": "-0",
    "plus-0": "+0",
}


@pytest.mark.parametrize("level", NO_LEVELS.values(), ids=NO_LEVELS)
def test_a_delay_level_that_is_no_number_is_refused(cluster: ServerCluster, topic: str, level: str) -> None:
    make_topic(cluster, topic, queues=1)
    with Control(cluster.broker) as broker:
        before = [broker.max_offset("SCHEDULE_TOPIC_XXXX", number) for number in range(18)]
        for body, properties in (
            (b"before", ""),
            (b"bad", f"KEYS\x01k\x02DELAY\x01{level}\x02TAGS\x01t"),
            (b"behind", ""),
        ):
            answer = broker.call(RequestCode.SEND_MESSAGE_V2, send_header(topic, 0, properties), body)
            if body != b"bad":
                assert answer.code == ResponseCode.SUCCESS
                continue
            assert answer.code == ResponseCode.MESSAGE_ILLEGAL
            assert "a delay level is a whole number" in (answer.remark or "")
        assert before == [broker.max_offset("SCHEDULE_TOPIC_XXXX", number) for number in range(18)]
    assert bodies(cluster, topic) == [b"before", b"behind"]


@pytest.mark.parametrize("level", LOW_LEVELS.values(), ids=LOW_LEVELS)
def test_a_delay_level_from_0_down_delivers_at_once(cluster: ServerCluster, topic: str, level: str) -> None:
    """RocketMQ's rule for what is a number; our own client does not send it."""
    make_topic(cluster, topic, queues=1)
    with Control(cluster.broker) as broker:
        header = send_header(topic, 0, f"DELAY\x01{level}")
        assert broker.call(RequestCode.SEND_MESSAGE_V2, header, b"x").code == ResponseCode.SUCCESS
    assert bodies(cluster, topic) == [b"x"]


@pytest.mark.parametrize(
    "fields",
    [
        {"delay_level": -1}, {"delay_level": 1 << 31}, {"delay": -1.0}, {"delay": "soon"}, {"delay": float("nan")},
        {"delay": float("inf")}, {"deliver_at": -5}, {"deliver_at": 1 << 63}, {"deliver_at": "tomorrow"},
        {"deliver_at": 1.5}, {"delay_level": 1, "delay": 1.0}, {"properties": {"DELAY": "1"}},
        {"properties": {"TIMER_DELIVER_MS": "1"}},
    ],
    ids=str,
)  # fmt: skip
def test_our_client_refuses_a_time_that_cannot_be_before_it_sends(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidMessage):
        Message("T", b"x", **fields)


def never(message: ReceivedMessage) -> Verdict:
    raise AssertionError(f"asked after {message!r}")


def test_a_wrong_end_of_a_transaction_that_wants_no_answer_is_logged_and_ignored(
    cluster: ServerCluster, topic: str
) -> None:
    """Twice, of a message that never was, from the wrong group: one-way, as clients send them."""
    make_topic(cluster, topic, queues=1)
    log = cluster.broker_process.log
    with TransactionProducer(GROUP, nameserver=cluster.namesrv, check=never) as producer:
        open_one = producer.send_in_transaction(Message(topic, b"half"), lambda t: UNKNOWN, immune_s=60)
    right = {
        "producerGroup": GROUP,
        "tranStateTableOffset": str(open_one.queue_offset),
        "commitLogOffset": str(int(open_one.offset_message_id[16:], 16)),
        "commitOrRollback": "8",
    }
    steps: list[tuple[dict[str, str], str | None, list[bytes]]] = [
        ({"producerGroup": "somebody"}, "The producer group wrong", []),
        ({"commitLogOffset": "999999999"}, "Find prepared transaction message failed", []),
        ({"tranStateTableOffset": "77"}, "The transaction state table offset wrong", []),
        ({}, None, [b"half"]),
        ({}, "The transaction has ended before", [b"half"]),
        ({"commitOrRollback": "12"}, "The transaction has ended before", [b"half"]),
    ]
    with RawConnection(cluster.broker) as line:
        for change, reason, delivered in steps:
            before = log.read_text().count("end of transaction refused")
            line.send(request(RequestCode.END_TRANSACTION, {**right, **change}, oneway=True))
            # The next answer on the line is that of the next request: a one-way one has none.
            asked = request(RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": "0"})
            line.send(asked)
            assert line.reply().opaque == asked.opaque
            assert bodies(cluster, topic) == delivered
            lines = log.read_text().splitlines()
            said = [text for text in lines if "end of transaction refused" in text][before:]
            assert len(said) == (reason is not None)
            assert reason is None or reason in said[0]
    assert "Traceback" not in log.read_text()


async def test_an_expression_of_10_kb_selects_as_a_short_one_does(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic, queues=1)
    many = ", ".join(f"'colour-{number}'" for number in range(0, 1440, 2))
    expression = f"colour IN ({many}) AND size BETWEEN 0 AND 5"
    assert len(expression) > 10_000
    got: list[str] = []
    consumer = aio.PushConsumer(
        f"G-{topic}",
        nameserver=cluster.namesrv,
        consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        commit_interval_s=0.1,
    )
    consumer.subscribe(topic, lambda message: got.append(message.text), sql=expression)
    async with consumer, aio.Producer(GROUP, nameserver=cluster.namesrv) as producer:
        for number in range(20):
            properties = {"colour": f"colour-{number}", "size": str(number // 2)}
            await producer.send(Message(topic, b"%d" % number, properties=properties))
        await until(lambda: len(got) == 6)
    assert sorted(map(int, got)) == [0, 2, 4, 6, 8, 10]


@pytest.mark.parametrize(
    "expression",
    [
        "a = 1 OR " * 8_000 + "b = 2",
        "(" * 10_000,
        "a = '" + "x" * 10_000,
        "a " * 5_000,
        "\x01" * 10_000,
    ],
    ids=["over the limit", "parentheses", "an open text", "no condition", "separators"],
)
def test_a_long_expression_that_is_none_is_refused_here_and_by_the_broker(
    cluster: ServerCluster, topic: str, expression: str
) -> None:
    make_topic(cluster, topic, queues=1)
    with pytest.raises(BadSqlExpression, match="position"):
        PushConsumer(f"G-{topic}", nameserver=cluster.namesrv).subscribe(topic, print, sql=expression)
    pull = {
        "consumerGroup": f"G-{topic}", "topic": topic, "queueId": "0", "queueOffset": "0", "maxMsgNums": "32",
        "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": expression,
        "subVersion": "0", "expressionType": "SQL92",
    }  # fmt: skip
    with Control(cluster.broker) as broker:
        answer = broker.call(RequestCode.PULL_MESSAGE, pull)
        assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
        assert 0 < len(answer.remark or "") < 2_000, "the text is not given back whole"
        assert broker.max_offset(topic, 0) == 0


def test_a_half_message_without_its_group_is_refused(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic, queues=1)
    with Control(cluster.broker) as broker:
        for properties in ("TRAN_MSG\x01true", "TRAN_MSG\x01TRUE\x02PGROUP"):
            header = send_header(topic, 0, properties) | {"f": "4"}
            answer = broker.call(RequestCode.SEND_MESSAGE_V2, header, b"x")
            assert answer.code == ResponseCode.MESSAGE_ILLEGAL
            assert "producer group" in (answer.remark or "")
    assert not bodies(cluster, topic)


def test_separators_in_properties_move_no_message_elsewhere(cluster: ServerCluster, topic: str) -> None:
    """A value that holds separators can name properties of the broker's own: they are data like any other's."""
    make_topic(cluster, topic, queues=1)
    victim = f"{topic}-victim"
    make_topic(cluster, victim, queues=1)
    forged = (
        f"a\x01b\x02REAL_TOPIC\x01{victim}\x02REAL_QID\x010",
        f"a\x01b\x02DELAY\x011\x02REAL_TOPIC\x01{victim}\x02REAL_QID\x010",
        f"a\x01b\x02TIMER_DELAY_MS\x01200\x02REAL_TOPIC\x01{victim}\x02REAL_QID\x010",
        f"a\x01b\x02TIMER_OUT_MS\x011\x02TIMER_DELAY_MS\x01200\x02REAL_TOPIC\x01{victim}\x02REAL_QID\x010",
    )
    with Control(cluster.broker) as broker:
        for number, properties in enumerate(forged):
            header = send_header(topic, 0, properties)
            assert broker.call(RequestCode.SEND_MESSAGE_V2, header, b"%d" % number).code in (0, 13)
    until_sync(lambda: len(bodies(cluster, topic)) == len(forged), "each in its own topic")
    assert sorted(bodies(cluster, topic)) == [b"0", b"1", b"2", b"3"]
    assert not bodies(cluster, victim)
