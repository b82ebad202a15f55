"""Ranges over the wire from a real broker: every message once and in order, in large and in capped replies."""

import dataclasses
import threading
from collections.abc import Iterator

import pytest

from rocketeer import Message, Producer
from rocketeer.client.sync import bulk_connection
from rocketeer.errors import BrokerRefused, RemotingError
from rocketeer.model.queue import MessageQueue
from rocketeer.remoting.blocking import BlockingConnection
from rocketeer.spark.source.brokers import BrokersView
from rocketeer.spark.source.fetch import fetch_range
from rocketeer.spark.source.losses import DataLost
from rocketeer.spark.source.options import parse_options
from rocketeer.spark.source.planning import QueueRange
from rocketeer.spark.source.pulls import PullTerms
from rocketeer.testing import Cluster, cluster
from support.records import split_records

COUNT = 3000
QUEUE = MessageQueue("Wide", "broker-a", 0)


@pytest.fixture(scope="module")
def broker() -> Iterator[Cluster]:
    with (
        cluster(store_settings={"segment_bytes": 1 << 20}) as running,
        Producer("P", nameserver=running.nameserver) as producer,
    ):
        for at in range(COUNT):
            big = b"x" * (300 if at % 7 else 3000)
            producer.send(
                Message("Wide", b"%d " % at + big, tags="even" if at % 2 == 0 else "odd"), queue=QUEUE
            )
            if at % 3 == 0:  # another queue's messages lie between ours
                producer.send(Message("Wide", b"other"), queue=MessageQueue("Wide", "broker-a", 1))
        yield running


def _terms(broker: Cluster, **given: str) -> PullTerms:
    options = {"nameserver": broker.nameserver, "subscribe": "Wide", "fetchRetryInterval": "50ms"}
    return PullTerms.of(parse_options({**options, **given}, streaming=False))


def _offsets(terms: PullTerms, begin: int, end: int, address: str) -> list[int]:
    found = []
    for body in fetch_range(terms, QueueRange(QUEUE, begin, end), address):
        for record in split_records(bytes(body)):
            assert record.body.startswith(b"%d " % record.queue_offset)
            found.append(record.queue_offset)
    return found


@pytest.mark.parametrize(("begin", "end"), [(0, COUNT), (1, 2), (17, 1017), (COUNT - 1, COUNT)])
@pytest.mark.parametrize("bulk_bytes", [4 << 20, 100_000, 1, None])
def test_every_message_of_a_range_comes_once_and_in_order(
    broker: Cluster, begin: int, end: int, bulk_bytes: int | None
) -> None:
    if bulk_bytes == 1 and end - begin > 1000:
        end = begin + 100
    terms = dataclasses.replace(_terms(broker), bulk_bytes=bulk_bytes)
    assert _offsets(terms, begin, end, broker.broker) == list(range(begin, end))


def test_a_large_reply_is_large_only_for_those_who_ask_in_our_way(broker: Cluster) -> None:
    bodies = list(fetch_range(_terms(broker), QueueRange(QUEUE, 0, COUNT), broker.broker))
    assert len(bodies) < 10
    with BlockingConnection(broker.broker) as connection:
        [reply] = connection.invoke_all([_terms(broker).request(QUEUE, 0, 1000)], 10)
    assert reply.ext["nextBeginOffset"] == "32"
    assert len(list(split_records(reply.body))) == 32


def test_tags_are_filtered_by_the_broker(broker: Cluster) -> None:
    for bulk_bytes in (4 << 20, None):
        terms = dataclasses.replace(_terms(broker, tags="even"), bulk_bytes=bulk_bytes)
        found = _offsets(terms, 100, 200, broker.broker)
        assert [offset for offset in found if offset < 200] == list(range(100, 200, 2))


def test_connections_are_used_again(broker: Cluster) -> None:
    list(fetch_range(_terms(broker), QueueRange(QUEUE, 0, 10), broker.broker))
    first = bulk_connection.take(broker.broker)
    bulk_connection.give_back(first)
    list(fetch_range(_terms(broker), QueueRange(QUEUE, 0, 10), broker.broker))
    again = bulk_connection.take(broker.broker)
    bulk_connection.give_back(again)
    assert again is first


def test_what_is_not_there_is_an_error_or_passed_over(broker: Cluster) -> None:
    terms = _terms(broker, fetchTimeout="300ms")
    with pytest.raises(DataLost, match=r"100 messages \[3000, 3100\).*failOnDataLoss"):
        _offsets(terms, 2990, 3100, broker.broker)
    lenient = dataclasses.replace(terms, fail_on_data_loss=False)
    assert _offsets(lenient, 2990, 3100, broker.broker) == list(range(2990, 3000))


def test_a_refusal_is_told_in_the_brokers_words(broker: Cluster) -> None:
    queue = MessageQueue("Wide", "broker-a", 99)
    with pytest.raises(BrokerRefused, match=r"queueId\[99\] is illegal"):
        list(fetch_range(_terms(broker, fetchTimeout="0"), QueueRange(queue, 0, 1), broker.broker))


def test_a_fetch_goes_on_after_the_broker_was_away(broker: Cluster) -> None:
    terms = dataclasses.replace(_terms(broker, fetchRetryInterval="100ms"), bulk_bytes=50_000)
    stream = fetch_range(terms, QueueRange(QUEUE, 0, COUNT), broker.broker)
    found = [record.queue_offset for record in split_records(bytes(next(stream)))]
    broker.stop()
    threading.Timer(0.5, broker.start).start()
    for body in stream:
        found += [record.queue_offset for record in split_records(bytes(body))]
    assert found == list(range(COUNT))


def test_a_silent_address_is_an_error_in_time(broker: Cluster) -> None:
    terms = _terms(broker, fetchTimeout="0", requestTimeout="300ms")
    with pytest.raises(RemotingError):
        _offsets(terms, 0, 10, "127.0.0.1:1")


def test_the_first_message_of_a_time_is_found_exactly(broker: Cluster) -> None:
    view = BrokersView(parse_options({"nameserver": broker.nameserver, "subscribe": "Wide"}, streaming=False))
    view.queues()
    stored = [
        record.store_ms
        for body in fetch_range(_terms(broker), QueueRange(QUEUE, 0, COUNT), broker.broker)
        for record in split_records(bytes(body))
    ]
    for at in (0, 1, 100, 1500, COUNT - 1):
        first = next(offset for offset, stored_ms in enumerate(stored) if stored_ms >= stored[at])
        assert view.first_at(QUEUE, stored[at]) == first
    assert view.first_at(QUEUE, 0) == 0
    assert view.first_at(QUEUE, stored[-1] + 1) is None
    view.close()
