"""The producer for threads against a running cluster."""

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from rocketeer import (
    Message,
    MessageQueue,
    Producer,
    PullConsumer,
    SendResult,
    SendStatus,
    by_hash,
    split_batch,
)
from rocketeer.bench.control import Control
from rocketeer.errors import BrokerRefused, ClientClosed, NoNameServer, NoRoute
from rocketeer.protocol.codes import RequestCode
from rocketeer.record.layout import StoredMessage, decode_record
from support.cluster import ServerCluster
from support.consuming import until_sync, wait_stored
from support.records import sent_body

GROUP = "test-producer"


@pytest.fixture
def producer(cluster: ServerCluster) -> Iterator[Producer]:
    with Producer(GROUP, nameserver=cluster.namesrv) as started:
        yield started


def look_up(cluster: ServerCluster, result: SendResult, which: int = 0) -> StoredMessage:
    """The record as the broker stored it."""
    identity = result.offset_message_id.split(",")[which]
    with Control(cluster.broker) as broker:
        header = {"offset": str(int(identity[16:], 16))}
        return decode_record(broker.ask(RequestCode.VIEW_MESSAGE_BY_ID, header).body)


def test_a_message_is_stored_as_it_was_sent(cluster: ServerCluster, producer: Producer, topic: str) -> None:
    result = producer.send(
        Message(topic, "grüße".encode(), tags="new", keys=["k1", "k2"], properties={"colour": "rot"}, flag=7)
    )
    assert result.status is SendStatus.SEND_OK
    record = look_up(cluster, result)
    assert (record.topic, record.body, record.flag) == (topic, "grüße".encode(), 7)
    assert (record.queue_id, record.queue_offset) == (result.queue.queue_id, result.queue_offset)
    properties = record.properties_dict()
    assert properties["UNIQ_KEY"] == result.message_id
    assert (properties["TAGS"], properties["KEYS"], properties["colour"]) == ("new", "k1 k2", "rot")


def test_the_first_send_creates_the_topic(cluster: ServerCluster, producer: Producer, topic: str) -> None:
    assert producer.send(Message(topic, b"x")).ok
    with Control(cluster.broker) as broker:
        assert topic in broker.topics()
    assert len(producer.queues(topic)) == 4


def test_queues_take_turns(producer: Producer, topic: str) -> None:
    used = [producer.send(Message(topic, b"x")).queue.queue_id for _ in range(8)]
    assert sorted(used) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_a_list_is_a_batch(cluster: ServerCluster, producer: Producer, topic: str) -> None:
    result = producer.send([Message(topic, f"m{n}".encode(), tags=f"t{n}") for n in range(3)])
    assert len(result.offset_message_id.split(",")) == 3
    records = [look_up(cluster, result, n) for n in range(3)]
    assert [record.body for record in records] == [b"m0", b"m1", b"m2"]
    assert [record.queue_offset for record in records] == [result.queue_offset + n for n in range(3)]
    assert [record.properties_dict()["UNIQ_KEY"] for record in records] == result.message_id.split(",")


def test_a_long_list_is_sent_in_parts(cluster: ServerCluster, producer: Producer, topic: str) -> None:
    messages = [Message(topic, os.urandom(100_000)) for _ in range(50)]
    parts = [producer.send(part) for part in split_batch(messages)]
    assert len(parts) == 2
    wait_stored(cluster, topic, 50)


def test_the_caller_chooses_the_queue(producer: Producer, topic: str) -> None:
    wanted = MessageQueue(topic, "broker-a", 2)
    assert {producer.send(Message(topic, b"x"), queue=wanted).queue for _ in range(3)} == {wanted}


def test_a_selector_chooses_the_queue(producer: Producer, topic: str) -> None:
    keyed = [producer.send(Message(topic, b"x"), selector=by_hash, arg="order-7").queue for _ in range(3)]
    assert len(set(keyed)) == 1
    own = producer.send(Message(topic, b"x"), selector=lambda queues, message, arg: queues[arg], arg=-1)
    assert own.queue.queue_id == 3


def test_a_large_body_travels_compressed(cluster: ServerCluster, producer: Producer, topic: str) -> None:
    body = b"rocket" * 20_000
    record = look_up(cluster, producer.send(Message(topic, body)))
    assert len(record.body) < 2_000
    assert sent_body(record) == body


def test_a_delayed_message_waits(cluster: ServerCluster, producer: Producer, topic: str) -> None:
    producer.send(Message(topic, b"now"))
    producer.send(Message(topic, b"later", delay_level=1))
    wait_stored(cluster, topic, 2)
    with PullConsumer(GROUP, nameserver=cluster.namesrv) as reader:
        stored = {each.body: each for queue in reader.queues(topic) for each in reader.read(queue)}
    assert stored[b"later"].store_ms - stored[b"later"].born_ms >= 1000


def test_oneway_messages_arrive(cluster: ServerCluster, producer: Producer, topic: str) -> None:
    producer.send(Message(topic, b"first"))
    for _ in range(50):
        producer.send_oneway(Message(topic, b"x"))
    wait_stored(cluster, topic, 51)


def test_async_sends_bring_futures(cluster: ServerCluster, producer: Producer, topic: str) -> None:
    futures: list[Future[SendResult]] = [producer.send_async(Message(topic, b"x")) for _ in range(200)]
    results = [future.result(10) for future in futures]
    assert all(result.ok for result in results)
    assert len({(result.queue, result.queue_offset) for result in results}) == 200
    wait_stored(cluster, topic, 200)


def test_threads_share_a_producer(cluster: ServerCluster, producer: Producer, topic: str) -> None:
    results: list[SendResult] = []

    def send() -> None:
        results.extend([producer.send(Message(topic, b"x")) for _ in range(50)])

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len({result.message_id for result in results}) == 400
    assert len({(result.queue, result.queue_offset) for result in results}) == 400
    wait_stored(cluster, topic, 400)


def test_a_namespace_separates_topics(cluster: ServerCluster, topic: str) -> None:
    with Producer(GROUP, nameserver=cluster.namesrv, namespace="shop") as producer:
        result = producer.send(Message(topic, b"x"))
    assert result.queue.topic == topic
    assert look_up(cluster, result).topic == f"shop%{topic}"


def test_a_refusal_names_code_broker_and_queue(producer: Producer, topic: str) -> None:
    producer.send(Message(topic, b"x"))
    nowhere = MessageQueue(topic, "broker-a", 99)
    with pytest.raises(BrokerRefused, match=r"broker-a.*queueId\[99\] is illegal") as raised:
        producer.send(Message(topic, b"x"), queue=nowhere)
    assert raised.value.code == 1
    assert raised.value.queue == nowhere
    with pytest.raises(BrokerRefused):
        producer.send_async(Message(topic, b"x"), queue=nowhere).result(10)


def test_no_route_says_who_was_asked(cluster: ServerCluster, topic: str) -> None:
    with (
        Producer(GROUP, nameserver=cluster.namesrv, create_topic_key="NoSuchDefault") as producer,
        pytest.raises(NoRoute, match=cluster.namesrv),
    ):
        producer.send(Message(topic, b"x"))


def test_a_dead_name_server_is_skipped(cluster: ServerCluster, topic: str) -> None:
    with Producer(GROUP, nameserver=f"127.0.0.1:9;{cluster.namesrv}") as producer:
        assert producer.send(Message(topic, b"x")).ok


def test_no_living_name_server_is_an_error_at_once() -> None:
    began_s = time.monotonic()
    with Producer(GROUP, nameserver="127.0.0.1:9;127.0.0.1:10") as producer:
        with pytest.raises(NoNameServer, match="refused") as raised:
            producer.send(Message("T", b"x"))
        assert set(raised.value.asked) == {"127.0.0.1:9", "127.0.0.1:10"}
        with pytest.raises(NoNameServer):
            producer.send_async(Message("T", b"x")).result(10)
    assert time.monotonic() - began_s < 5


def test_the_variable_names_the_name_server(
    cluster: ServerCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", cluster.namesrv)
    with Producer(GROUP) as producer:
        assert producer.send(Message(topic, b"x")).ok


def test_the_first_send_starts_a_producer_and_a_closed_one_says_so(
    cluster: ServerCluster, topic: str
) -> None:
    producer = Producer(GROUP, nameserver=cluster.namesrv)
    assert producer.send(Message(topic, b"x")).ok
    producer.close()
    producer.close()
    with pytest.raises(ClientClosed, match=GROUP):
        producer.send(Message(topic, b"x"))
    producer.start()
    assert producer.send(Message(topic, b"x")).ok
    producer.close()


def test_nothing_is_left_when_all_producers_are_closed(cluster: ServerCluster, topic: str) -> None:
    before = set(threading.enumerate())
    files = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with (
            Producer(GROUP, nameserver=cluster.namesrv) as first,
            Producer(GROUP, nameserver=cluster.namesrv) as second,
        ):
            first.send(Message(topic, b"x"))
            second.send_async(Message(topic, b"x")).result(10)
    # Those of earlier tests may end meanwhile.
    until_sync(lambda: set(threading.enumerate()) <= before, "no thread is left")
    until_sync(lambda: len(os.listdir("/proc/self/fd")) <= files, "no file is left open")
