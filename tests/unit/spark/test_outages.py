"""Waiting for servers that are away: how long, with which pauses, and who is asked meanwhile."""

import pytest

from rocketeer.client.core.routes import RouteCache
from rocketeer.client.core.transient import passes
from rocketeer.errors import AccessDenied, BrokerRefused, ConnectFailed, NoRoute
from rocketeer.model.queue import MessageQueue
from rocketeer.model.route import BrokerData, Route
from rocketeer.protocol.codes import ResponseCode
from rocketeer.spark.outages import Outage
from rocketeer.spark.source.offsets import QueueOffsets
from rocketeer.spark.source.pulls import addresses_to_read
from rocketeer.spark.source.unreachable import UnreachableBrokers


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_pauses_grow_until_the_time_is_over_and_the_last_try_is_at_its_end() -> None:
    clock = Clock()
    outage = Outage(20.0, 0.5, clock)
    pauses = []
    while (pause_s := outage.pause_s()) is not None:
        pauses.append(pause_s)
        clock.now_s += pause_s
    assert pauses == [0.5, 1, 2, 4, 5, 5, 2.5]
    assert outage.seconds == 20
    outage.over()
    assert outage.pause_s() == 0.5, "a new outage has all its time"
    assert outage.pause_s(0.0) is None, "a shorter limit"


def test_no_time_means_no_second_try() -> None:
    assert Outage(0.0, 0.1).pause_s() is None


@pytest.mark.parametrize(
    ("error", "waited_for"),
    [
        (ConnectFailed("h:1", "refused"), True),
        (BrokerRefused(ResponseCode.TOPIC_NOT_EXIST, "", broker="b"), True),
        (BrokerRefused(ResponseCode.SYSTEM_BUSY, "", broker="b"), True),
        (NoRoute("T", ("a:9876",)), True),
        (BrokerRefused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, "", broker="b"), False),
        (AccessDenied(16, "no", broker="b"), False),
    ],
)
def test_what_passes_by_itself_is_waited_for(error: Exception, waited_for: bool) -> None:
    assert passes(error) is waited_for


def test_a_broker_that_is_away_is_left_alone_and_the_others_are_asked() -> None:
    clock = Clock()
    away = UnreachableBrokers(1.0, clock)
    here, gone = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-b", 0)
    asked: list[str] = []
    dead = {"broker-b"}

    def highs(queues: list[MessageQueue]) -> QueueOffsets:
        asked.extend(queue.broker_name for queue in queues)
        if queues[0].broker_name in dead:
            raise ConnectFailed("h:1", "refused")
        return dict.fromkeys(queues, 7)

    assert away.ask(highs, [here, gone]) == {here: 7}
    assert "broker-b" in away
    assert "broker-a" not in away
    clock.now_s += 0.9
    assert away.ask(highs, [here, gone]) == {here: 7}
    assert asked == ["broker-a", "broker-b", "broker-a"]
    clock.now_s += 0.2
    away.ask(highs, [here, gone])
    assert asked[-1] == "broker-b", "the pause is over"
    assert away.failures == 2
    assert away.seconds() == {"broker-b": pytest.approx(1.1)}
    dead.clear()
    clock.now_s += 2.5
    assert away.ask(highs, [here, gone]) == {here: 7, gone: 7}
    assert away.seconds() == {}


def test_a_broker_that_denies_is_not_waited_for() -> None:
    """Its account was taken away while the stream ran: waiting for ever would hide that."""
    away = UnreachableBrokers(1.0, Clock())

    def denied(queues: list[MessageQueue]) -> QueueOffsets:
        raise AccessDenied(16, "no", broker="broker-a")

    with pytest.raises(AccessDenied):
        away.ask(denied, [MessageQueue("T", "broker-a", 0)])
    assert away.failures == 0


def test_reads_go_to_slaves_in_turn_and_to_the_master_at_last() -> None:
    routes = RouteCache()
    routes.put("T", Route(brokers=(BrokerData("c", "broker-a", {0: "m:1", 1: "s:1", 2: "s:2"}),)))
    queues = [MessageQueue("T", "broker-a", number) for number in range(2)]
    assert [addresses_to_read(routes, queue, "slave") for queue in queues] == [
        ["s:1", "s:2", "m:1"],
        ["s:2", "s:1", "m:1"],
    ]
    assert addresses_to_read(routes, queues[0], "master") == ["m:1"]
    routes.put("T", Route(brokers=(BrokerData("c", "broker-a", {1: "s:1"}),)))
    assert addresses_to_read(routes, queues[0], "master") == ["s:1"], "its master is away"
    assert addresses_to_read(routes, MessageQueue("T", "broker-x", 0), "slave") == []
