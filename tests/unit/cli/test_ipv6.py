"""IPv6 from end to end: servers on `::1` and `::`, clients and tools at `[::1]:port`, records with 16-byte addresses."""

import asyncio
import socket
import urllib.request
from pathlib import Path

import pytest

from rocketeer import Message, Producer, PullConsumer
from rocketeer.observe.exposition import MetricsBody
from rocketeer.observe.http import MetricsServer
from rocketeer.record.flags import HOSTS_V6
from support.shell import Shell, read_until, stop


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


pytestmark = pytest.mark.skipif(not has_ipv6(), reason="this machine has no ::1")


def test_messages_go_over_ipv6_and_are_found_by_their_longer_ids_also_after_a_restart(
    shell: Shell, base_port: int
) -> None:
    up = (
        "up",
        "--host",
        "::1",
        "--port",
        base_port,
        "--namesrv-port",
        base_port + 5,
        "--store",
        "s",
        "--no-console",
    )
    namesrv = f"[::1]:{base_port + 5}"
    process = shell.start(*up)
    banner = read_until(process, "Ctrl-C")
    assert f"broker-a     [::1]:{base_port}" in banner
    with Producer("P", nameserver=namesrv) as producer:
        alone = producer.send(Message("six", b"one", keys="k1"))
        batch = producer.send([Message("six", b"%d" % n) for n in range(3)])
        many = [producer.send_async(Message("six", b"async %d" % n)) for n in range(20)]
        ids = [alone.offset_message_id, *batch.offset_message_id.split(",")]
        ids += [future.result(10).offset_message_id for future in many]
        assert {len(each) for each in ids} == {56}, "16 bytes of address, 4 of port, 8 of offset"
        check(producer, alone.offset_message_id, base_port)
    assert stop(process)[0] == 0
    process = shell.start(*up)
    read_until(process, "Ctrl-C")
    with Producer("P", nameserver=namesrv) as producer:
        check(producer, alone.offset_message_id, base_port)
    with PullConsumer("G", nameserver=namesrv) as consumer:
        read = [message for queue in consumer.queues("six") for message in consumer.read(queue)]
    assert len(read) == 24
    assert all(message.store_host == f"[::1]:{base_port}" for message in read)
    shown = shell.run("admin", "clusterList", "-n", namesrv)
    assert f"[::1]:{base_port}" in shown.stdout, shown.stderr
    assert stop(process)[0] == 0


def check(producer: Producer, identity: str, port: int) -> None:
    found = producer.view_message(identity)
    assert (found.body, found.keys) == (b"one", ["k1"])
    assert found.store_host == f"[::1]:{port}"
    assert found.born_host.startswith("[::1]:")
    assert found.sys_flag & HOSTS_V6 == HOSTS_V6
    assert [message.body for message in producer.query_messages("six", "k1")] == [b"one"]


def test_all_networks_of_ipv6_are_those_of_ipv4_too(shell: Shell, base_port: int) -> None:
    process = shell.start(
        "up",
        "--host",
        "::",
        "--port",
        base_port,
        "--namesrv-port",
        base_port + 5,
        "--store",
        "s",
        "--no-console",
    )
    read_until(process, "Ctrl-C")
    for number, host in enumerate(("127.0.0.1", "[::1]")):
        with Producer("P", nameserver=f"{host}:{base_port + 5}") as producer:
            assert producer.send(Message("both", b"x")).ok, number
    for host, port in (("127.0.0.1", base_port), ("::1", base_port), ("::1", base_port + 1)):
        socket.create_connection((host, port), 10).close()
    assert stop(process)[0] == 0


def test_brokers_and_name_servers_take_ipv6_from_their_files(
    shell: Shell, base_port: int, tmp_path: Path
) -> None:
    (tmp_path / "namesrv.conf").write_text(f"listenPort={base_port + 5}\nbindAddress=::1\n")
    (tmp_path / "broker.conf").write_text(
        f"listenPort={base_port}\nbindAddress=[::1]\nbrokerIP1=::1\nhaListenPort={base_port + 1}\n"
        f"namesrvAddr=[::1]:{base_port + 5}\nstorePathRootDir={tmp_path / 'store'}\nbrokerName=six\n"
    )
    namesrv = shell.start("namesrv", "-c", tmp_path / "namesrv.conf")
    assert f"[::1]:{base_port + 5}" in read_until(namesrv, "listens")
    broker = shell.start("broker", "-c", tmp_path / "broker.conf")
    assert f"[::1]:{base_port}" in read_until(broker, "listens")
    with Producer("P", nameserver=f"[::1]:{base_port + 5}") as producer:
        assert producer.send(Message("six", b"x")).queue.broker_name == "six"
    assert stop(broker)[0] == 0
    assert stop(namesrv)[0] == 0


async def test_metrics_are_served_on_ipv6() -> None:
    async def page() -> MetricsBody:
        return MetricsBody.of(b"up 1\n")

    server = MetricsServer("[::1]", 0, {"/metrics": page})
    await server.start()
    try:
        url = f"http://[::1]:{server.port}/metrics"
        got = await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=10).read())
        assert got == b"up 1\n"
    finally:
        await server.stop()
