"""A broker in this process, on free loopback ports, with the real client in front of it."""

import contextlib
import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from rocketeer.broker.assemble import Broker
from rocketeer.clock import Clock, SystemClock
from rocketeer.config import BrokerConfig, ServerConfig, StoreConfig
from rocketeer.config.ports import free_ports
from rocketeer.errors import PortInUse
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import Command, request
from rocketeer.record.layout import StoredMessage
from rocketeer.remoting.client import RemotingClient
from rocketeer.testing.cluster import PATIENT, START_TRIES
from support.records import split_records

SMALL = StoreConfig(
    segment_bytes=1 << 20,
    consume_queue_bytes=20 * 1000,
    index_slots=500,
    index_entries=2000,
    os_page_cache_busy_ms=20_000,
)
LOCAL = {"broker_name": "broker-a", "host": "127.0.0.1", "ha_host": "127.0.0.1"}


class BrokerUnderTest:
    """The address of a running broker and the requests tests send most."""

    def __init__(self, address: str, client: RemotingClient) -> None:
        self.address = address
        self.client = client

    async def ask(
        self, code: int, ext: dict[str, Any] | None = None, body: bytes = b"", **fields: Any
    ) -> Command:
        command = request(code, {name: str(value) for name, value in (ext or {}).items()}, body)
        for name, value in fields.items():
            setattr(command, name, value)
        return await self.client.invoke(self.address, command, 20)

    async def send(
        self, topic: str, body: bytes, *, queue_id: int = 0, properties: str = "TAGS\x01TagA", **ext: Any
    ) -> Command:
        header = {
            "a": "PG", "b": topic, "c": "TBW102", "d": 4, "e": queue_id, "f": 0, "g": 1_700_000_000_000, "h": 0,
            "i": properties, "j": 0, "k": "false", "m": "false",
        }  # fmt: skip
        return await self.ask(RequestCode.SEND_MESSAGE_V2, header | ext, body)

    async def pull(self, topic: str, queue_id: int = 0, offset: int = 0, **ext: Any) -> Command:
        header = {
            "consumerGroup": "CG", "topic": topic, "queueId": queue_id, "queueOffset": offset, "maxMsgNums": 32,
            "sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0, "subscription": "*", "subVersion": 0,
            "expressionType": "TAG",
        }  # fmt: skip
        return await self.ask(RequestCode.PULL_MESSAGE, header | ext)

    async def messages(
        self, topic: str, queue_id: int = 0, offset: int = 0, **ext: Any
    ) -> list[StoredMessage]:
        return list(split_records((await self.pull(topic, queue_id, offset, **ext)).body))


@contextlib.asynccontextmanager
async def broker_at(
    folder: Path,
    *,
    clock: Clock | None = None,
    store: dict[str, Any] | None = None,
    broker: dict[str, Any] | None = None,
    server: dict[str, Any] | None = None,
    config_path: Path | None = None,
) -> AsyncIterator[BrokerUnderTest]:
    """A small store under `folder`; leaving the block stops the broker cleanly."""
    for attempt in range(START_TRIES):
        _, port = free_ports()
        running = Broker(
            BrokerConfig(**{**LOCAL, **PATIENT, **(broker or {})}),
            dataclasses.replace(SMALL, store_path=folder, **{"ha_port": port + 1, **(store or {})}),
            ServerConfig(bind_host="127.0.0.1", listen_port=port, **(server or {})),
            clock or SystemClock(),
            config_path=config_path,
        )
        try:
            await running.start()
            break
        except PortInUse:
            if attempt == START_TRIES - 1:
                raise
    client = RemotingClient()
    try:
        yield BrokerUnderTest(f"127.0.0.1:{port}", client)
    finally:
        await running.stop()
        client.close()
