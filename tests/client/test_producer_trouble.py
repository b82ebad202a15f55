"""Producers when brokers are silent, refuse, die, come back; and when the process forks or must end."""

import asyncio
import contextlib
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from rocketeer import Message, Producer, TransactionProducer, TransactionState
from rocketeer import aio as rocketeer_aio
from rocketeer.config.ports import free_ports
from rocketeer.errors import ClientClosed, ClientError, SendFailed, SendTimeout, TooManyInFlight
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import Command, reply
from support.bodies import decode_heartbeat
from support.cluster import TEST_CONF, ServerCluster, chosen_make, running_cluster
from support.consuming import until_sync, wait_stored
from support.scripted_broker import ScriptedBroker, scripted_broker, silence

SEND = int(RequestCode.SEND_MESSAGE_V2)
SEND_BATCH = int(RequestCode.SEND_BATCH_MESSAGE)


def test_a_silent_broker_costs_the_time_limit_and_no_more() -> None:
    with scripted_broker({SEND: silence}) as quiet, Producer("g", nameserver=quiet.address) as producer:
        began_s = time.monotonic()
        with pytest.raises(SendTimeout, match=r"within 0\.3 s.*scripted"):
            producer.send(Message("T", b"x"), timeout_s=0.3)
        with pytest.raises(SendTimeout):
            producer.send_async(Message("T", b"x"), timeout_s=0.3).result(30)
        assert time.monotonic() - began_s < 10


def test_closing_returns_though_sends_are_unanswered() -> None:
    with scripted_broker({SEND: silence}) as quiet:
        producer = Producer("g", nameserver=quiet.address, close_timeout_s=0.5)
        future = producer.send_async(Message("T", b"x"), timeout_s=60)
        quiet.wait_for(SEND)
        began_s = time.monotonic()
        producer.close()
        assert time.monotonic() - began_s < 15
        with pytest.raises(ClientClosed):
            future.result(30)


def test_closing_wakes_threads_that_wait_for_an_answer() -> None:
    with scripted_broker({SEND: silence}) as quiet:
        producer = Producer("g", nameserver=quiet.address)
        errors: list[Exception] = []

        def send() -> None:
            try:
                producer.send(Message("T", b"x"), timeout_s=60)
            except ClientClosed as error:
                errors.append(error)

        thread = threading.Thread(target=send)
        thread.start()
        quiet.wait_for(SEND)
        producer.close()
        thread.join(30)
        assert len(errors) == 1


def test_closing_returns_though_the_goodbye_is_unanswered() -> None:
    with scripted_broker({RequestCode.UNREGISTER_CLIENT: silence}) as quiet:
        producer = Producer("g", nameserver=quiet.address)
        producer.send(Message("T", b"x"))
        began_s = time.monotonic()
        producer.close()
        assert time.monotonic() - began_s < 15


async def test_closing_on_asyncio_returns_too() -> None:
    with scripted_broker({SEND: silence}) as quiet:
        producer = rocketeer_aio.Producer("g", nameserver=quiet.address, close_timeout_s=0.3)
        await producer.start()
        sending = asyncio.create_task(producer.send(Message("T", b"x"), timeout_s=60))
        await asyncio.to_thread(quiet.wait_for, SEND)
        began_s = time.monotonic()
        await producer.close()
        with pytest.raises(SendFailed):
            await sending
        assert time.monotonic() - began_s < 15, "no attempt can succeed any more"


def test_unanswered_sends_are_limited() -> None:
    with scripted_broker({SEND: silence, SEND_BATCH: silence}) as quiet:
        producer = Producer(
            "g", nameserver=quiet.address, in_flight_max=3, place_timeout_s=0.1, close_timeout_s=0.2
        )
        futures = [producer.send_async(Message("T", b"x"), timeout_s=20) for _ in range(3)]
        with pytest.raises(TooManyInFlight, match="3 sends"):
            producer.send_async(Message("T", b"x"))
        producer.close()
        assert all(isinstance(future.exception(30), ClientClosed) for future in futures)


@contextlib.contextmanager
def stopped_reading() -> Iterator[ScriptedBroker]:
    """A broker that takes the first message and then reads no more until it is let go."""
    go_on = threading.Event()

    def hold(command: Command) -> None:
        go_on.wait(20)

    with scripted_broker({SEND: hold}) as broker:
        try:
            yield broker
        finally:
            go_on.set()


async def test_one_way_sends_that_nobody_reads_are_limited() -> None:
    body = b"x" * (2 << 20)
    with stopped_reading() as broker:
        async with rocketeer_aio.Producer(
            "g",
            nameserver=broker.address,
            oneway_in_flight_max=3,
            place_timeout_s=0.3,
            send_timeout_s=1.0,
            compress_over_bytes=8 << 20,
        ) as producer:
            outcomes = await asyncio.gather(
                *(producer.send_oneway(Message("T", body)) for _ in range(40)), return_exceptions=True
            )
    kinds = Counter(type(outcome).__name__ for outcome in outcomes)
    # What the two sockets and the connection's buffer hold has left; three waited; the others got no place.
    assert kinds["TooManyInFlight"] > 0, kinds
    assert kinds["SendTimeout"] <= 6, kinds
    assert set(kinds) <= {"NoneType", "SendTimeout", "SendFailed", "TooManyInFlight"}
    assert kinds["NoneType"] * len(body) < 32 << 20, (
        "back-pressure: memory does not take what the broker does not"
    )
    refused = next(outcome for outcome in outcomes if isinstance(outcome, TooManyInFlight))
    assert "3 sends are waiting for a broker to read" in str(refused)


def test_threads_that_send_one_way_are_limited_too() -> None:
    body = b"x" * (4 << 20)
    with stopped_reading() as broker:
        producer = Producer(
            "g", nameserver=broker.address, oneway_in_flight_max=1, send_timeout_s=1.0,
            compress_over_bytes=8 << 20, close_timeout_s=1.0,
        )  # fmt: skip
        with producer:
            outcomes: Counter[str] = Counter()

            def send() -> None:
                try:
                    for _ in range(8):
                        producer.send_oneway(Message("T", body))
                        outcomes["sent"] += 1
                except (SendTimeout, SendFailed, TooManyInFlight) as error:
                    outcomes[type(error).__name__] += 1

            threads = [threading.Thread(target=send) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(20)
    assert outcomes["TooManyInFlight"] >= 1, outcomes
    assert outcomes["sent"] * len(body) < 64 << 20, outcomes


async def test_one_way_sends_go_on_when_the_broker_reads_again() -> None:
    body = b"x" * (1 << 20)
    with scripted_broker() as broker:
        async with rocketeer_aio.Producer(
            "g", nameserver=broker.address, oneway_in_flight_max=2, compress_over_bytes=8 << 20
        ) as producer:
            await asyncio.gather(*(producer.send_oneway(Message("T", body)) for _ in range(30)))
            await asyncio.to_thread(broker.wait_for, SEND, 30)


async def test_a_cancelled_send_gives_its_place_back() -> None:
    with scripted_broker({SEND: silence}) as quiet:
        async with rocketeer_aio.Producer(
            "g", nameserver=quiet.address, in_flight_max=1, close_timeout_s=0.2
        ) as producer:
            first = asyncio.create_task(producer.send(Message("T", b"x"), timeout_s=20))
            await asyncio.to_thread(quiet.wait_for, SEND)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            with pytest.raises(SendTimeout):
                await producer.send(Message("T", b"x"), timeout_s=0.1)


def test_brokers_hear_of_a_producer_at_once_and_when_it_leaves() -> None:
    with scripted_broker() as broker:
        with Producer("shop", nameserver=broker.address, instance_name="one") as producer:
            producer.send(Message("T", b"x"))
            beat = decode_heartbeat(broker.wait_for(RequestCode.HEART_BEAT)[0].body)
            assert beat.producer_groups == ("shop",)
            assert beat.client_id.endswith("@one")
        goodbye = broker.wait_for(RequestCode.UNREGISTER_CLIENT)[0].ext
        assert (goodbye["producerGroup"], goodbye["clientID"]) == ("shop", beat.client_id)


def test_heartbeats_and_routes_are_repeated() -> None:
    with scripted_broker() as broker:
        options = {"route_poll_s": 0.05, "heartbeat_s": 0.05}
        with Producer("shop", nameserver=broker.address, **options) as producer:  # type: ignore[arg-type]
            producer.send(Message("T", b"x"))
            broker.wait_for(RequestCode.HEART_BEAT, 3)
            broker.wait_for(RequestCode.GET_ROUTEINFO_BY_TOPIC, 3)


def test_many_senders_fetch_a_route_once() -> None:
    with scripted_broker() as broker:
        with Producer("g", nameserver=broker.address) as producer:
            futures = [producer.send_async(Message("T", b"x")) for _ in range(100)]
            assert all(future.result(10).ok for future in futures)
        assert len(broker.asked(RequestCode.GET_ROUTEINFO_BY_TOPIC)) == 1


def test_a_refused_heartbeat_does_not_stop_a_producer() -> None:
    no = {RequestCode.HEART_BEAT: lambda command: reply(command, 1, "not you")}
    with scripted_broker(no) as broker, Producer("g", nameserver=broker.address) as producer:
        assert producer.send(Message("T", b"x")).ok
        broker.wait_for(RequestCode.HEART_BEAT)
        assert producer.send(Message("T", b"x")).ok


def test_a_forked_child_sends_on_connections_of_its_own() -> None:
    with scripted_broker() as broker, Producer("g", nameserver=broker.address) as producer:
        parents = producer.send(Message("T", b"parent")).message_id
        producer.send_async(Message("T", b"parent")).result(10)
        before = set(broker.connections)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                mine = producer.send(Message("T", b"child")).message_id
                producer.send_async(Message("T", b"child")).result(10)
                os.write(writing, mine.encode())
                producer.close()
                code = 0
            finally:
                os._exit(code)
        os.close(writing)
        with os.fdopen(reading) as told:
            childs = told.read()
        assert os.waitpid(child, 0)[1] == 0
        assert childs
        assert childs[:20] != parents[:20], "another process, another id"
        assert len(broker.connections - before) >= 2, "none of the parent's connections was used"
        assert producer.send(Message("T", b"parent")).ok
        assert producer.send_async(Message("T", b"parent")).result(10).ok
        assert len(broker.wait_for(SEND, 6)) == 6, "each message once"
        beats = [decode_heartbeat(command.body) for command in broker.asked(RequestCode.HEART_BEAT)]
        assert len({beat.client_id for beat in beats}) == 2


def test_a_child_that_does_nothing_leaves_the_parents_connections_alone() -> None:
    with scripted_broker() as broker, Producer("g", nameserver=broker.address) as producer:
        producer.send(Message("T", b"x"))
        producer.send_async(Message("T", b"x")).result(10)
        connections = set(broker.connections)
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        for _ in range(5):
            producer.send(Message("T", b"x"))
            producer.send_async(Message("T", b"x")).result(10)
        assert broker.connections == connections


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[ServerCluster]:
    with running_cluster(tmp_path, peer=chosen_make()) as running:
        yield running


def test_a_producer_survives_the_restart_of_its_broker(own_cluster: ServerCluster) -> None:
    with Producer("g", nameserver=own_cluster.namesrv) as producer:
        assert producer.send(Message("T", b"x")).ok
        assert producer.send_async(Message("T", b"x")).result(10).ok
        topics = own_cluster.store / "config" / "topics.json"
        until_sync(lambda: topics.exists() and '"T"' in topics.read_text(), "the topic is on disk")
        # Apache's does not start again if it is killed while it makes a queue's file.
        wait_stored(own_cluster, "T", 2)
        own_cluster.kill_broker()
        with pytest.raises(SendFailed, match=rf"\d attempts failed within 1 s.*{own_cluster.broker}"):
            producer.send(Message("T", b"x"), timeout_s=1)
        with pytest.raises(SendFailed):
            producer.send_async(Message("T", b"x"), timeout_s=1).result(10)
        meanwhile = producer.send_async(Message("T", b"sent while the broker is away"), timeout_s=60)
        starting = threading.Timer(0.5, own_cluster.start_broker)
        starting.start()
        assert producer.send(Message("T", b"x"), timeout_s=60).ok
        assert meanwhile.result(60).ok
        starting.join()


def test_with_one_broker_dead_the_other_takes_the_messages(
    own_cluster: ServerCluster, tmp_path: Path
) -> None:
    other = ServerCluster(
        chosen_make(), tmp_path / "other", conf={**TEST_CONF, "brokerName": "broker-b"}, heap="512m"
    )
    other.namesrv_port = own_cluster.namesrv_port
    other.broker_port = free_ports()[1]
    other.folder.mkdir()
    other.start_broker()
    try:
        with Producer("g", nameserver=own_cluster.namesrv) as producer:
            names = {producer.send(Message("T", b"x")).queue.broker_name for _ in range(8)}
            assert names == {"broker-a", "broker-b"}
            other.kill_broker()
            results = [producer.send(Message("T", b"x")) for _ in range(8)]
            assert {result.queue.broker_name for result in results} == {"broker-a"}
            futures = [producer.send_async(Message("T", b"x")) for _ in range(8)]
            assert {future.result(10).queue.broker_name for future in futures} == {"broker-a"}
    finally:
        other.kill_broker()


def test_a_producer_nobody_holds_any_more_leaves_by_itself() -> None:
    with scripted_broker() as broker:
        producer = Producer("shop", nameserver=broker.address)
        producer.send(Message("T", b"x"))
        broker.wait_for(RequestCode.HEART_BEAT)
        with pytest.warns(ResourceWarning, match="'shop' was not closed"):
            del producer
        broker.wait_for(RequestCode.UNREGISTER_CLIENT)


@pytest.mark.parametrize(
    "kind", [Producer, partial(TransactionProducer, check=lambda message: TransactionState.UNKNOWN)]
)
def test_a_closed_producer_holds_no_connection_and_sends_nothing_until_it_is_started_again(
    kind: Callable[..., Producer],
) -> None:
    def connections() -> int:
        port = int(broker.address.rpartition(":")[2])
        own = psutil.Process().net_connections("tcp")
        return sum(
            each.status == "ESTABLISHED" and bool(each.raddr) and each.raddr.port == port for each in own
        )

    with scripted_broker() as broker:
        with kind("g", nameserver=broker.address) as producer:
            producer.send(Message("T", b"x"))
            producer.send_async(Message("T", b"x")).result(60)
            assert connections() >= 2, "one of the thread, one of the loop"
        until_sync(lambda: connections() == 0, "all are closed")
        with pytest.raises(ClientClosed):
            producer.send(Message("T", b"y"))
        producer.start()
        producer.send(Message("T", b"z"))
        producer.close()
        assert [command.body for command in broker.asked(SEND)] == [b"x", b"x", b"z"]


def test_a_moved_broker_is_found_without_waiting_for_the_next_poll() -> None:
    with (
        scripted_broker() as old,
        scripted_broker() as new,
        Producer("g", nameserver=old.address, retries=0) as producer,
    ):
        producer.send(Message("T", b"x"))
        here = old.address
        old.address = new.address  # what the name server answers from now on
        instance_routes = producer._started().sender.routes
        instance_routes.suspect("T")
        old.wait_for(RequestCode.GET_ROUTEINFO_BY_TOPIC, 2)
        until_sync(lambda: instance_routes.master("scripted") == new.address)
        assert producer.send(Message("T", b"x")).ok
        assert len(new.asked(SEND)) == 1
        assert here != new.address


def test_a_producer_of_another_loop_says_so() -> None:
    with scripted_broker() as broker:
        producer = rocketeer_aio.Producer("g", nameserver=broker.address)
        asyncio.run(producer.start())
        with pytest.raises(ClientError, match="another event loop"):
            asyncio.run(producer.send(Message("T", b"x")))
