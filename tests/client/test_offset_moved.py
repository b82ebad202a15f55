"""A broker that has not the offset a consumer asks for: it lags, lost its end, or deleted what was there.

Wherever it leads a consumer, what was pulled and is not finished is consumed before, or pulled again.
"""

import logging
import threading
import time
from collections.abc import Iterator

import pytest

from rocketeer.client.plans.pull import SUSPEND
from rocketeer.client.sync.push_consumer import PushConsumer
from rocketeer.model.route import BrokerData, QueueData, Route
from rocketeer.protocol.bodies.clients import encoding_consumer_list
from rocketeer.protocol.bodies.locks import encode_locked_queues, opening_lock_request
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, reply
from rocketeer.record.hosts import encode_host
from rocketeer.record.layout import PendingMessage, encode_pending
from rocketeer.steps import finish
from support.bodies import decode_heartbeat, encode_route
from support.consuming import until_sync
from support.scripted_broker import Play, ScriptedBroker, scripted_broker

HOST = encode_host("127.0.0.1", 1)
PULLED = 10
"""Messages of the first answer."""


def pull_reply(asked: Command, code: int, next_offset: int, body: bytes = b"") -> Command:
    ext = {
        "nextBeginOffset": str(next_offset),
        "minOffset": "0",
        "maxOffset": str(PULLED),
        "suggestWhichBrokerId": "0",
    }
    return reply(asked, code, ext=ext, body=body)


def records(topic: str, first: int) -> bytes:
    return b"".join(
        encode_pending(
            PendingMessage(topic, 0, 0, 0, 1, HOST, str(offset).encode(), b""),
            queue_offset=offset,
            log_offset=1 + offset,
            store_ms=1,
            store_host=HOST,
        )
        for offset in range(first, PULLED)
    )


class Broker:
    """One queue of ten messages. Whoever asks for more is led to `leads_to` with `code`, `times` times; then it is held."""

    def __init__(self, code: int, leads_to: int, times: int = 1) -> None:
        self.code = code
        self.leads_to = leads_to
        self.times = times
        self.clients: list[str] = []
        self.leads = True

    def table(self) -> dict[int, Play]:
        return {
            RequestCode.HEART_BEAT: self._heartbeat,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: lambda asked: reply(
                asked, body=finish(encoding_consumer_list(self.clients))
            ),
            RequestCode.QUERY_CONSUMER_OFFSET: lambda asked: reply(asked, ext={"offset": "0"}),
            RequestCode.UPDATE_CONSUMER_OFFSET: reply,
            RequestCode.GET_CONSUMER_CONNECTION_LIST: lambda asked: reply(asked, ResponseCode.SYSTEM_ERROR),
            RequestCode.LOCK_BATCH_MQ: self._lock,
            RequestCode.UNLOCK_BATCH_MQ: reply,
            RequestCode.PULL_MESSAGE: self._pull,
        }

    def _heartbeat(self, asked: Command) -> Command:
        self.clients = [decode_heartbeat(asked.body).client_id]
        return reply(asked)

    def _lock(self, asked: Command) -> Command:
        if not self.leads:
            return reply(asked, ResponseCode.SERVICE_NOT_AVAILABLE, "this member does not lead its group")
        wish = finish(opening_lock_request(asked.body))
        return reply(asked, body=encode_locked_queues(wish.queues(0, wish.queue_count)))

    def _pull(self, asked: Command) -> Command | None:
        offset = int(asked.ext["queueOffset"])
        if offset < PULLED:
            body = records(asked.ext["topic"], offset)
            return pull_reply(asked, ResponseCode.SUCCESS, PULLED, body)
        if not self.times:
            # As a broker does: a pull that tells an offset does not wish to be held.
            return (
                None
                if int(asked.ext["sysFlag"]) & SUSPEND
                else pull_reply(asked, ResponseCode.PULL_NOT_FOUND, offset)
            )
        self.times -= 1
        return pull_reply(asked, self.code, self.leads_to)


def route_to(broker: ScriptedBroker) -> Play:
    def answer(asked: Command) -> Command:
        if asked.ext["topic"].startswith("%RETRY%"):
            return reply(asked, ResponseCode.TOPIC_NOT_EXIST)
        brokers = (BrokerData("c", "scripted", {0: broker.address}),)
        return reply(asked, body=encode_route(Route((QueueData("scripted", 1, 1, 6),), brokers), strict=True))

    return answer


def committed(broker: ScriptedBroker) -> list[int]:
    return [int(asked.ext["commitOffset"]) for asked in broker.asked(RequestCode.UPDATE_CONSUMER_OFFSET)]


@pytest.fixture
def moved() -> Iterator[threading.Event]:
    """Set when a consumer hears that its offset moved."""
    heard = threading.Event()

    class Listening(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.getMessage().startswith("offset moved"):
                heard.set()

    handler = Listening()
    logger = logging.getLogger("rocketeer.client.aio.puller")
    logger.addHandler(handler)
    yield heard
    logger.removeHandler(handler)


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "ordered"])
@pytest.mark.parametrize("leads_to", [5, PULLED, 20], ids=["it lost its end", "it lags", "it deleted them"])
def test_what_is_in_hand_is_consumed_wherever_the_broker_leads(
    moved: threading.Event, orderly: bool, leads_to: int
) -> None:
    got: list[int] = []

    def take(message):  # type: ignore[no-untyped-def]
        if not got:
            assert moved.wait(30), "it hears of it while it is at the first message"
        got.append(int(message.text))

    broker = Broker(ResponseCode.PULL_OFFSET_MOVED, leads_to)
    with scripted_broker(broker.table()) as master:
        master._plays[RequestCode.GET_ROUTEINFO_BY_TOPIC] = route_to(master)
        consumer = PushConsumer(
            "G", nameserver=master.address, orderly=orderly, concurrency=1, commit_interval_s=0.1
        )
        consumer.subscribe("T", take)
        with consumer:
            until_sync(lambda: set(got) == set(range(PULLED)), "every message is consumed")
            end = max(leads_to, PULLED)
            until_sync(lambda: end in committed(master), "and then committed")
        first = {offset: got.index(offset) for offset in range(PULLED)}
        for offset in committed(master):
            assert offset <= end
            assert set(range(min(offset, PULLED))) <= set(got), "nothing is committed that was not consumed"
    assert list(first) == sorted(first, key=first.__getitem__), "in their order"


def test_a_broker_that_sends_it_away_at_once_is_not_asked_without_pause() -> None:
    broker = Broker(ResponseCode.PULL_RETRY_IMMEDIATELY, PULLED, times=1_000_000)
    got: list[str] = []
    with scripted_broker(broker.table()) as master:
        master._plays[RequestCode.GET_ROUTEINFO_BY_TOPIC] = route_to(master)
        consumer = PushConsumer("G", nameserver=master.address)
        consumer.subscribe("T", lambda message: got.append(message.text))
        with consumer:
            until_sync(lambda: len(got) == PULLED)
            routes = len(master.asked(RequestCode.GET_ROUTEINFO_BY_TOPIC))
            before, began_s = len(master.asked(RequestCode.PULL_MESSAGE)), time.monotonic()
            master.wait_for(RequestCode.PULL_MESSAGE, before + 4)
            assert time.monotonic() - began_s > 0.25, "each pause is longer than the one before"
            master.wait_for(RequestCode.GET_ROUTEINFO_BY_TOPIC, routes + 1)


def test_a_member_that_leads_no_longer_has_the_leader_looked_for_at_once() -> None:
    before, after = Broker(ResponseCode.SUCCESS, 0, times=0), Broker(ResponseCode.SUCCESS, 0, times=0)
    with scripted_broker(before.table()) as old, scripted_broker(after.table()) as new:
        old._plays[RequestCode.GET_ROUTEINFO_BY_TOPIC] = route_to(old)
        consumer = PushConsumer("G", nameserver=old.address, orderly=True, lock_renew_s=0.2)
        consumer.subscribe("T", lambda message: None)
        with consumer:
            old.wait_for(RequestCode.LOCK_BATCH_MQ)
            before.leads = False
            old._plays[RequestCode.GET_ROUTEINFO_BY_TOPIC] = route_to(new)
            new.wait_for(RequestCode.LOCK_BATCH_MQ, timeout_s=20)  # routes are polled every 30 s
