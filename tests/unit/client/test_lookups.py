"""Looking messages up when brokers find by hash alone, find nothing, or do not answer."""

import pytest

from rocketeer.client.core.config import ClientConfig
from rocketeer.client.core.nameservers import NameServers
from rocketeer.client.core.routes import RouteCache
from rocketeer.client.plans.brokers import ClusterRoutes
from rocketeer.client.plans.effects import Call
from rocketeer.client.plans.lookups import Lookups
from rocketeer.errors import CallTimeout, MessageNotFound
from rocketeer.model.route import BrokerData, QueueData, Route
from rocketeer.protocol.codes import ResponseCode
from rocketeer.protocol.command import Command, reply
from rocketeer.record.hosts import encode_host
from rocketeer.record.java_hash import java_hash
from rocketeer.record.layout import PendingMessage, encode_pending
from rocketeer.record.properties import encode_properties
from support.clock import ManualClock
from support.plans import Script

HOST = encode_host("10.0.0.1", 10911)
ADDRESSES = {"a": "10.0.0.1:10911", "b": "10.0.0.2:10911"}


def record(body: str, *, topic: str = "T", store_ms: int = 1000, **properties: str) -> bytes:
    pending = PendingMessage(
        topic=topic,
        queue_id=0,
        flag=0,
        sys_flag=0,
        born_ms=0,
        born_host=HOST,
        body=body.encode(),
        properties=encode_properties(properties),
    )
    return encode_pending(pending, queue_offset=0, log_offset=0, store_ms=store_ms, store_host=HOST)


def lookups(namespace: str | None = None) -> Lookups:
    routes = RouteCache()
    brokers = tuple(BrokerData("c", name, {0: address}) for name, address in ADDRESSES.items())
    queues = tuple(QueueData(name, 4, 4, 6) for name in ADDRESSES)
    for topic in ("T", "shop%T"):
        routes.put(topic, Route(queues, brokers))
    config = ClientConfig("G", namespace=namespace)
    return Lookups(config, ClusterRoutes(routes, NameServers(("n:9876",)), 3.0), ManualClock())


def play(**bodies: bytes | Exception) -> Script:
    """Broker by broker: the records it finds."""

    def answer(call: Call) -> Command | Exception:
        name = next(name for name, address in ADDRESSES.items() if address == call.address)
        found = bodies.get(name, b"")
        if isinstance(found, Exception):
            return found
        code = ResponseCode.SUCCESS if found else ResponseCode.QUERY_NOT_FOUND
        return reply(call.command, code, body=found)

    return Script(answer)


def test_keys_that_only_share_the_hash_are_left_out() -> None:
    assert java_hash("T#Aa") == java_hash("T#BB")
    found = record("1", KEYS="x Aa") + record("2", KEYS="BB") + record("3", topic="Other", KEYS="Aa")
    messages = play(a=found).run(lookups().query("T", "Aa"))
    assert [message.text for message in messages] == ["1"]


def test_all_brokers_are_asked_and_the_oldest_comes_first() -> None:
    script = play(a=record("new", store_ms=20, KEYS="k"), b=record("old", store_ms=10, KEYS="k"))
    messages = script.run(lookups().query("T", "k", begin_ms=5, end_ms=30, max_count=7))
    assert [(message.text, message.broker_name) for message in messages] == [("old", "b"), ("new", "a")]
    ext = script.commands[0].ext
    assert (ext["beginTimestamp"], ext["endTimestamp"], ext["maxNum"]) == ("5", "30", "7")


def test_a_broker_that_does_not_answer_hides_only_its_own() -> None:
    lost = CallTimeout("10.0.0.1:10911", 12, 3.0)
    messages = play(a=lost, b=record("x", KEYS="k")).run(lookups().query("T", "k"))
    assert [message.text for message in messages] == ["x"]
    with pytest.raises(CallTimeout):
        play(a=lost, b=lost).run(lookups().query("T", "k"))


def test_of_a_message_that_was_stored_twice_the_first_is_shown() -> None:
    uniq = "0A00000100012A9F00000000000001FF"
    script = play(
        a=record("second", store_ms=20, UNIQ_KEY=uniq) + record("other", UNIQ_KEY=uniq[:-1] + "E"),
        b=record("first", store_ms=10, UNIQ_KEY=uniq),
    )
    assert script.run(lookups().view(uniq, "T")).text == "first"
    assert script.commands[0].ext["_UNIQUE_KEY_QUERY"] == "true"
    with pytest.raises(MessageNotFound, match="in topic"):
        play().run(lookups().view(uniq, "T"))


def test_topics_stay_in_their_namespace() -> None:
    script = play(a=record("x", topic="shop%T", KEYS="k"))
    (message,) = script.run(lookups("shop").query("T", "k"))
    assert (message.topic, script.commands[0].ext["topic"]) == ("T", "shop%T")
