"""Behind NAT: clients are told an address that is not the broker's own, by name and with another port."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketeer import Message, Producer, PullConsumer
from rocketeer.config import NamesrvConfig, ServerConfig
from rocketeer.nameserver.server import NameServer
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import request
from support.broker import broker_at
from support.raw_connection import RawConnection


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Gate:
    """Forwards what comes to its own port to another one, and counts the connections."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.listener.getsockname()[1])
        self.target = 0
        self.passed = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                outer, _ = self.listener.accept()
            except OSError:
                return
            self.passed += 1
            inner = socket.create_connection(("127.0.0.1", self.target))
            for one, other in ((outer, inner), (inner, outer)):
                threading.Thread(target=self._copy, args=(one, other), daemon=True).start()

    @staticmethod
    def _copy(one: socket.socket, other: socket.socket) -> None:
        try:
            while data := one.recv(1 << 16):
                other.sendall(data)
        except OSError:
            pass
        other.close()


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.listener.close()


async def test_clients_come_through_the_advertised_address(tmp_path: Path, gate: Gate) -> None:
    config = NamesrvConfig(
        kv_config_path=tmp_path / "kv.json",
        config_path=tmp_path / "namesrv.properties",
        server=ServerConfig(bind_host="127.0.0.1", listen_port=free_port()),
    )
    server = NameServer(config)
    await server.start()
    nameserver = f"127.0.0.1:{server.port}"
    settings = {"advertised_address": f"localhost:{gate.port}", "namesrv_addresses": (nameserver,)}
    try:
        async with broker_at(tmp_path / "store", broker=settings) as broker:
            gate.target = int(broker.address.rpartition(":")[2])
            await asyncio.to_thread(send_and_pull, nameserver, gate)
    finally:
        await server.stop()


def send_and_pull(nameserver: str, gate: Gate) -> None:
    with RawConnection(nameserver) as line:
        route = line.ask(request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TBW102"}))
    assert f'"localhost:{gate.port}"'.encode() in route.body
    with Producer("shop", nameserver=nameserver) as producer:
        sent = producer.send(Message("orders", b"over there"))
        assert gate.passed > 0
        # A message id has the address in numbers: whoever asks there for the message comes through, too.
        assert sent.offset_message_id.startswith(f"7F000001{gate.port:08X}")
        assert producer.view_message(sent.offset_message_id).body == b"over there"
    with PullConsumer("billing", nameserver=nameserver) as consumer:
        found = consumer.pull(sent.queue, 0)
        assert [message.body for message in found.messages] == [b"over there"]
