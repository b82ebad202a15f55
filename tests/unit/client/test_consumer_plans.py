"""What consumers ask, byte for byte as recorded where it matters, and what the answers mean."""

import json
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketeer.client.core.config import ConsumerConfig
from rocketeer.client.core.consumer_rules import parse_timestamp
from rocketeer.client.core.nameservers import NameServers
from rocketeer.client.core.received import split_messages
from rocketeer.client.core.routes import RouteCache
from rocketeer.client.plans.brokers import ClusterRoutes
from rocketeer.client.plans.effects import Call
from rocketeer.client.plans.groups import consumer_ids, group_view, lock_queues, send_back
from rocketeer.client.plans.offsets import committed_offset, start_offset
from rocketeer.client.plans.pull import PullSettings, PullStatus, pull, pull_request
from rocketeer.client.plans.reading import QueueQueries
from rocketeer.errors import BrokerRefused, ConfigError, NoBroker
from rocketeer.filter.tags import tag_subscription
from rocketeer.model.queue import MessageQueue
from rocketeer.model.route import BrokerData, QueueData, Route
from rocketeer.model.subscription import ConsumeFromWhere
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import reply

WIRE = Path(__file__).parents[2] / "golden" / "data" / "wire"
QUEUE = MessageQueue("TopicTest", "broker-a", 3)
MASTER, SLAVE = "127.0.0.1:10911", "127.0.0.1:10921"


def cluster() -> ClusterRoutes:
    routes = RouteCache()
    brokers = (BrokerData("c", "broker-a", {0: MASTER, 1: SLAVE}),)
    routes.put("TopicTest", Route((QueueData("broker-a", 4, 4, 6),), brokers))
    return ClusterRoutes(routes, NameServers(["ns:9876"]), 3.0)


class Script:
    """Runs a plan against answers given one after the other, and keeps what it asked."""

    def __init__(self, *answers: tuple[int, dict[str, str]] | tuple[int, dict[str, str], bytes]) -> None:
        self._answers = list(answers)
        self.asked: list[Call] = []

    def run(self, plan: Generator[Any, Any, Any]) -> Any:
        try:
            effect = next(plan)
            while True:
                self.asked.append(effect)
                code, ext, *body = self._answers.pop(0)
                effect = plan.send(reply(effect.command, code, "a remark", ext, *body))
        except StopIteration as end:
            return end.value


def recorded(name: str, code: int, **ext: str) -> dict[str, str]:
    """The fields of the first such request of a real client."""
    for line in (WIRE / f"{name}.jsonl").read_text().splitlines():
        header = json.loads(line)["header"]
        fields = header.get("extFields") or {}
        if header["code"] == code and header["flag"] == 0 and ext.items() <= fields.items():
            return {key: value for key, value in fields.items() if key != "ReqT"}
    raise AssertionError(f"no request {code} with {ext} in {name}")


OFFSETS = {"nextBeginOffset": "7", "minOffset": "0", "maxOffset": "9", "suggestWhichBrokerId": "1"}


def test_a_push_pull_is_the_javas() -> None:
    java = recorded("push_consume", 11, queueId="3", sysFlag="3")
    subscription = replace(tag_subscription("TopicTest", "*"), version=int(java["subVersion"]))
    ours = pull_request(
        PullSettings("CG_golden", send_subscription=False), QUEUE, 2, subscription, commit_offset=1
    )
    assert ours.ext == java


def test_a_lite_pull_is_the_javas() -> None:
    java = recorded("lite_pull", 11, queueId="3", subscription="TagA")
    settings = PullSettings("CG_lite", max_count=10, hold_s=20, lite=True)
    assert pull_request(settings, QUEUE, 0, tag_subscription("TopicTest", "TagA")).ext == java


def test_an_offset_of_zero_is_not_told() -> None:
    java = recorded("push_consume", 11, queueId="3", sysFlag="2")
    subscription = replace(tag_subscription("TopicTest", "*"), version=int(java["subVersion"]))
    settings = PullSettings("CG_golden", send_subscription=False)
    assert pull_request(settings, QUEUE, 0, subscription, commit_offset=0).ext == java


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (19, PullStatus.NO_NEW),
        (20, PullStatus.NO_MATCH),
        (21, PullStatus.OFFSET_ILLEGAL),
        (0, PullStatus.FOUND),
    ],
)
def test_the_codes_of_a_pull(code: int, status: PullStatus) -> None:
    script = Script((code, OFFSETS))
    result = script.run(pull(PullSettings("G"), cluster(), QUEUE, 0, tag_subscription("TopicTest")))
    assert result == (status, [] if code == 0 else (), 7, 0, 9, 1, False, False)


def test_a_slave_is_read_from_but_told_no_offset() -> None:
    subscription = tag_subscription("TopicTest")
    script = Script((19, OFFSETS))
    script.run(pull(PullSettings("G"), cluster(), QUEUE, 5, subscription, broker_id=1, commit_offset=4))
    (call,) = script.asked
    assert call.address == SLAVE
    assert (call.command.ext["commitOffset"], int(call.command.ext["sysFlag"]) & 1) == ("0", 0)

    script = Script((19, OFFSETS))
    script.run(pull(PullSettings("G"), cluster(), QUEUE, 5, subscription, broker_id=0, commit_offset=4))
    (call,) = script.asked
    assert call.address == MASTER
    assert (call.command.ext["commitOffset"], int(call.command.ext["sysFlag"]) & 1) == ("4", 1)


def test_a_pull_that_tells_an_offset_is_not_held() -> None:
    subscription = tag_subscription("TopicTest")
    for broker_id, offset, held in [(0, 4, False), (0, 0, True), (0, None, True), (1, 4, True)]:
        script = Script((19, OFFSETS))
        plan = pull(
            PullSettings("G"), cluster(), QUEUE, 5, subscription, broker_id=broker_id, commit_offset=offset
        )
        assert script.run(plan).told is not held
        assert bool(int(script.asked[0].command.ext["sysFlag"]) & 2) is held


def test_a_refused_pull_names_broker_and_queue() -> None:
    script = Script((ResponseCode.NO_PERMISSION, {}))
    with pytest.raises(BrokerRefused, match=r"broker-a \(127.*queue_id=3.*NO_PERMISSION: a remark"):
        script.run(pull(PullSettings("G"), cluster(), QUEUE, 0, tag_subscription("TopicTest")))


FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
LAST = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
STAMP = ConsumeFromWhere.CONSUME_FROM_TIMESTAMP
RETRY = MessageQueue("%RETRY%G", "broker-a", 0)
NONE = (int(ResponseCode.QUERY_NOT_FOUND), {})


@pytest.mark.parametrize(
    ("begin", "queue", "answers", "offset", "codes"),
    [
        (LAST, QUEUE, [(0, {"offset": "5"})], (5, True), [14]),
        (FIRST, QUEUE, [(0, {"offset": "0"})], (0, True), [14]),
        (LAST, QUEUE, [NONE, (0, {"offset": "90"})], (90, False), [14, 30]),
        (LAST, RETRY, [NONE], (0, False), [14]),
        (FIRST, QUEUE, [NONE], (0, False), [14]),
        (FIRST, RETRY, [NONE], (0, False), [14]),
        (STAMP, QUEUE, [NONE, (0, {"offset": "44"})], (44, False), [14, 29]),
        (STAMP, RETRY, [NONE, (0, {"offset": "3"})], (3, False), [14, 30]),
        (
            ConsumeFromWhere.CONSUME_FROM_MIN_OFFSET,
            QUEUE,
            [NONE, (0, {"offset": "90"})],
            (90, False),
            [14, 30],
        ),
    ],
)
def test_where_a_group_begins(
    begin: ConsumeFromWhere,
    queue: MessageQueue,
    answers: list[tuple[int, dict[str, str]]],
    offset: tuple[int, bool],
    codes: list[int],
) -> None:
    script = Script(*answers)
    assert script.run(start_offset(cluster(), "G", queue, begin, 1_000)) == offset
    assert [call.command.code for call in script.asked] == codes
    if 29 in codes:
        assert script.asked[1].command.ext["timestamp"] == "1000"


def test_the_group_asks_for_its_offset_as_java_does() -> None:
    script = Script((0, {"offset": "0"}))
    script.run(committed_offset(cluster(), "CG_golden", QUEUE))
    assert script.asked[0].command.ext == recorded("push_consume", 14, queueId="3")


def test_a_broker_in_no_route_is_named() -> None:
    with pytest.raises(NoBroker, match="nowhere"):
        Script().run(committed_offset(cluster(), "G", MessageQueue("TopicTest", "nowhere", 0)))


def test_sending_back_is_the_javas() -> None:
    java = recorded("retry_dlq", 36, offset="21511")
    raw = None
    for line in (WIRE / "retry_dlq.jsonl").read_text().splitlines():
        frame = json.loads(line)
        body = bytes.fromhex(frame.get("body_hex") or "")
        if frame.get("request_code") == 11 and b"retry1" in body and b"%RETRY%" not in body:
            raw = body
            break
    assert raw is not None
    routes = cluster()
    routes.routes.put("RetryTopic", Route((QueueData("broker-a", 4, 4, 6),), ()))
    (message,) = split_messages(raw, MessageQueue("RetryTopic", "broker-a", 3))
    script = Script((0, {}))
    script.run(send_back(routes, "CG_retry", message, delay_level=0, retries_max=1))
    assert script.asked[0].command.ext == java


def test_locks_are_those_of_the_answer() -> None:
    body = b'{"lockOKMQSet":[{"brokerName":"broker-a","queueId":3,"topic":"TopicTest"}]}'
    script = Script((0, {}, body))
    other = MessageQueue("TopicTest", "broker-a", 1)
    assert script.run(lock_queues(MASTER, "G", "me", [QUEUE, other], 1)) == {QUEUE}
    asked = json.loads(script.asked[0].command.body)
    assert (asked["clientId"], asked["consumerGroup"], len(asked["mqSet"])) == ("me", "G", 2)


def test_members_and_their_subscriptions() -> None:
    script = Script((0, {}, b'{"consumerIdList":["b","a"]}'))
    assert script.run(consumer_ids(MASTER, "G", 1)) == ["b", "a"]
    assert script.asked[0].command.code == RequestCode.GET_CONSUMER_LIST_BY_GROUP
    body = (
        b'{"messageModel":"CLUSTERING","subscriptionTable":{"T":{"subString":"a || b","topic":"T"}},'
        b'"connectionSet":[{"clientId":"x"}]}'
    )
    view = Script((0, {}, body)).run(group_view(MASTER, "G", 1))
    assert view == ({"T": "a || b"}, "CLUSTERING")


def test_queues_are_named_without_their_namespace() -> None:
    where = cluster()
    where.routes.put("shop%T", Route((QueueData("broker-a", 1, 1, 6),), ()))
    reading = QueueQueries(ConsumerConfig("G", namespace="shop"), where)
    queues = Script().run(reading.queues("T"))
    assert queues == [MessageQueue("T", "broker-a", 0)]
    script = Script((19, OFFSETS))
    script.run(reading.pull(queues[0], 0))
    assert (script.asked[0].command.ext["topic"], script.asked[0].command.ext["consumerGroup"]) == (
        "shop%T",
        "shop%G",
    )
    with pytest.raises(ConfigError, match="-1"):
        Script().run(reading.pull(queues[0], -1))


@pytest.mark.parametrize("namespace", ["", "shop"])
def test_what_is_no_queue_is_refused_before_anything_is_asked(namespace: str) -> None:
    reading = QueueQueries(ConsumerConfig("G", namespace=namespace), cluster())
    no_queue: Any = "orders"
    for ask in (
        lambda: reading.commit(no_queue, 5),
        lambda: reading.pull(no_queue, 5),
        lambda: reading.committed(no_queue),
        lambda: reading.max_offset(no_queue),
        lambda: reading.offset_at(no_queue, 0),
    ):
        with pytest.raises(ConfigError, match="'orders': it must be a MessageQueue"):
            Script().run(ask())


def test_a_time_is_read_as_local_time() -> None:
    import time

    assert parse_timestamp("20250131235959") == int(time.mktime((2025, 1, 31, 23, 59, 59, 0, 0, -1)) * 1000)
    with pytest.raises(ConfigError, match="yyyyMMddHHmmss"):
        parse_timestamp("yesterday")
