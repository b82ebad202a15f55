"""Brokers that go and come back, processes that are stopped or forked: consumers go on, or end in time."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketeer.aio import Message, Producer
from rocketeer.client.aio.lite_pull_consumer import LitePullConsumer
from rocketeer.client.aio.push_consumer import PushConsumer
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.sync.push_consumer import PushConsumer as SyncPushConsumer
from rocketeer.config.ports import free_ports
from rocketeer.errors import ClientClosed
from support.cluster import ServerCluster, chosen_make, restart_broker, running_cluster
from support.consuming import make_topic, names, options, send, until, until_sync

pytestmark = pytest.mark.own_cluster


async def test_a_broker_that_was_killed_and_comes_back_is_consumed_again(
    cluster: ServerCluster, topic: str
) -> None:
    make_topic(cluster, topic)
    got: list[str] = []
    polled: list[str] = []
    ordered: list[str] = []
    push = PushConsumer(f"G-{topic}", **options(cluster))
    push.subscribe(topic, lambda message: got.append(message.text))
    in_order = PushConsumer(f"O-{topic}", orderly=True, lock_renew_s=0.3, **options(cluster))
    in_order.subscribe(topic, lambda message: ordered.append(message.text))
    lite = LitePullConsumer(f"L-{topic}", **options(cluster))
    lite.subscribe(topic)
    async with push, in_order, lite:
        await send(cluster, topic, names(10, "before"))
        await until(lambda: len(got) >= 10 and len(ordered) >= 10)
        await asyncio.sleep(0.3)  # offsets are stored
        await asyncio.to_thread(restart_broker, cluster, kill=True)
        await send(cluster, topic, names(10, "after"))
        await until(lambda: set(got) >= set(names(10, "after")))
        await until(lambda: set(ordered) >= set(names(10, "after")))
        while not set(polled) >= set(names(10, "after")):
            polled += [message.text for message in await lite.poll(1)]
    assert set(got) == set(polled) == set(ordered) == set(names(10, "before") + names(10, "after"))


def test_closing_returns_in_time_whatever_hangs(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic)
    asyncio.run(send(cluster, topic, names(4)))
    hang = threading.Event()
    began = threading.Event()
    consumer = SyncPushConsumer(f"G-{topic}", **options(cluster, close_timeout_s=0.3, call_timeout_s=0.5))

    @consumer.subscribe(topic)
    def take(message: ReceivedMessage) -> None:
        began.set()
        hang.wait(60)

    consumer.start()
    assert began.wait(30)
    pid = cluster.broker_process.pid
    os.kill(pid, signal.SIGSTOP)  # it neither answers nor closes
    try:
        began_s = time.monotonic()
        consumer.close()
        took_s = time.monotonic() - began_s
    finally:
        os.kill(pid, signal.SIGCONT)
        hang.set()
    assert took_s < 15


SCRIPT = """
import sys, time
from rocketeer.client.sync.push_consumer import PushConsumer
from rocketeer.model.subscription import ConsumeFromWhere

consumer = PushConsumer(sys.argv[2], nameserver=sys.argv[1], concurrency=1,
                        consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)

@consumer.subscribe(sys.argv[3])
def take(message):
    print("begin", message.text, flush=True)
    time.sleep(0.5)
    print("end", message.text, flush=True)

consumer.run()
print("left", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_finishes_what_is_in_hand_commits_and_leaves(
    cluster: ServerCluster, topic: str, tmp_path: Path, number: signal.Signals
) -> None:
    topic = f"{topic}{number.name}"
    make_topic(cluster, topic, queues=1)
    asyncio.run(send(cluster, topic, names(10)))
    script = tmp_path / "consume.py"
    script.write_text(SCRIPT)
    group = f"G-{topic}"
    process = subprocess.Popen(
        [sys.executable, str(script), cluster.namesrv, group, topic], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "begin m0\n"
        process.send_signal(number)
        out, _ = process.communicate(timeout=30)
    finally:
        process.kill()
    said = out.split("\n")
    assert said[0] == "end m0", "it was finished"
    assert said[-2] == "left"
    assert process.returncode == 0
    done = sum(line.startswith("end") for line in said)
    assert done < 5, "nothing new was begun"

    async def rest() -> list[str]:
        got: list[str] = []
        consumer = PushConsumer(group, **options(cluster))
        consumer.subscribe(topic, lambda message: got.append(message.text))
        async with consumer:
            await until(lambda: "m9" in got)
        return sorted(got)

    assert asyncio.run(rest()) == names(10)[done:], "what it finished was committed"


def test_a_forked_child_may_start_its_own(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic, queues=2)
    got: list[str] = []
    consumer = SyncPushConsumer(f"G-{topic}", **options(cluster))
    consumer.subscribe(topic, lambda message: got.append(message.text))
    with consumer:
        until_sync(lambda: len([q for q in consumer.queues if q.topic == topic]) == 2)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                before = consumer.queues
                consumer.start()
                until_sync(lambda: len([q for q in consumer.queues if q.topic == topic]) == 1, timeout_s=30)
                os.write(write, b"shared" if before == [] else b"not fresh")
                consumer.close()
            except BaseException as error:
                os.write(write, repr(error).encode())
            finally:
                os._exit(0)
        os.close(write)
        assert os.read(read, 1000) == b"shared"
        os.close(read)
        os.waitpid(child, 0)
        until_sync(lambda: len([q for q in consumer.queues if q.topic == topic]) == 2, "the child left")
        asyncio.run(send(cluster, topic, names(6)))
        until_sync(lambda: sorted(got) == names(6))


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[ServerCluster]:
    with running_cluster(tmp_path, peer=chosen_make()) as running:
        yield running


async def test_a_name_server_that_is_gone_stops_nobody(own_cluster: ServerCluster, topic: str) -> None:
    cluster = own_cluster
    make_topic(cluster, topic)
    got: list[str] = []
    consumer = PushConsumer(f"G-{topic}", **options(cluster, route_poll_s=0.1))
    consumer.subscribe(topic, lambda message: got.append(message.text))
    async with consumer:
        await send(cluster, topic, names(1, "a"))
        await until(lambda: got == ["a0"])
        async with Producer("P", nameserver=cluster.namesrv) as producer:
            await producer.send(Message(topic, b"b"))
            cluster.namesrv_process.kill()
            await producer.send(Message(topic, b"c"))
            await until(lambda: sorted(got) == ["a0", "b", "c"])


WAITING = """
import asyncio, logging, sys
import rocketeer, rocketeer.aio

logging.basicConfig(format="%(message)s", stream=sys.stdout)
logging.getLogger("asyncio").setLevel(logging.ERROR)  # a busy machine has slow steps
options = dict(nameserver=sys.argv[2], start_timeout_s=600)
if sys.argv[1] == "app":
    app = rocketeer.App(group="g", **options)
    app.listener("T")(print)
    app.run()
elif sys.argv[1] == "aio":
    consumer = rocketeer.aio.PushConsumer("g", **options)
    consumer.subscribe("T", print)
    asyncio.run(consumer.run())
else:
    consumer = rocketeer.PushConsumer("g", **options)
    consumer.subscribe("T", print)
    consumer.run()
print("left")
"""


@pytest.mark.parametrize("kind", ["app", "aio", "sync"])
def test_ctrl_c_ends_a_start_that_waits_for_a_name_server(kind: str) -> None:
    nowhere = f"127.0.0.1:{free_ports()[0]}"
    command = [sys.executable, "-u", "-X", "dev", "-W", "error", "-c", WAITING, kind, nowhere]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("waiting for a name server")
            process.send_signal(signal.SIGINT)
            out, errors = process.communicate(timeout=30)
        finally:
            process.kill()
    assert (process.returncode, out) == (0, "left\n"), errors
    assert errors == ""


def test_closing_from_another_thread_ends_a_start_that_waits() -> None:
    consumer = SyncPushConsumer("g", nameserver=f"127.0.0.1:{free_ports()[0]}", start_timeout_s=600)
    consumer.subscribe("T", print)
    raised: list[Exception] = []

    def start() -> None:
        try:
            consumer.start()
        except Exception as error:
            raised.append(error)

    starting = threading.Thread(target=start)
    starting.start()
    while starting.is_alive():
        consumer.close()
        starting.join(0.05)
    assert isinstance(raised[0], ClientClosed)
