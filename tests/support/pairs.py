"""A master and its slave in this process, or a stranger at the master's HA port."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from rocketeer.config import BrokerRole, NamesrvConfig, ServerConfig
from rocketeer.nameserver.server import NameServer
from support.broker import BrokerUnderTest, broker_at

SEGMENT_BYTES = 1 << 20
SLAVE = {"broker_role": BrokerRole.SLAVE, "flush_least_pages": 0}
"""What is on its disk counts: it does not wait for four pages, which come after ten seconds at the latest."""


def ha_address(master: BrokerUnderTest) -> str:
    host, _, port = master.address.rpartition(":")
    return f"{host}:{int(port) + 1}"


@contextlib.asynccontextmanager
async def slave_at(
    folder: Path,
    master_ha: str,
    *,
    store: dict[str, Any] | None = None,
    broker: dict[str, Any] | None = None,
    server: dict[str, Any] | None = None,
) -> AsyncIterator[BrokerUnderTest]:
    settings = {**SLAVE, "ha_master_address": master_ha, **(store or {})}
    async with broker_at(
        folder, store=settings, broker={"broker_id": 1, **(broker or {})}, server=server
    ) as slave:
        yield slave


@contextlib.asynccontextmanager
async def nameserver_at(folder: Path) -> AsyncIterator[str]:
    server = NameServer(
        NamesrvConfig(
            kv_config_path=folder / "kvConfig.json",
            config_path=folder / "namesrv.properties",
            server=ServerConfig(bind_host="127.0.0.1", listen_port=0),
        )
    )
    await server.start()
    try:
        yield f"127.0.0.1:{server.port}"
    finally:
        await server.stop()


@contextlib.asynccontextmanager
async def pair_at(
    folder: Path,
    *,
    master: dict[str, Any] | None = None,
    slave: dict[str, Any] | None = None,
    broker: dict[str, Any] | None = None,
) -> AsyncIterator[tuple[BrokerUnderTest, BrokerUnderTest]]:
    """A name server, a master in `m` and a slave in `s`, which finds its master through the name server."""
    async with nameserver_at(folder) as namesrv:
        known = {"namesrv_addresses": (namesrv,), **(broker or {})}
        async with (
            broker_at(folder / "m", broker=known, store=master) as master_broker,
            broker_at(
                folder / "s",
                broker={**known, "broker_id": 1},
                store={**SLAVE, **(slave or {})},
            ) as slave_broker,
        ):
            yield master_broker, slave_broker


async def eventually(ask: Callable[[], Awaitable[bool]], *, seconds: float = 60.0, what: str = "") -> None:
    """Wait for an answer that will come."""
    deadline_s = time.monotonic() + seconds
    while not await ask():
        assert time.monotonic() < deadline_s, f"not within {seconds:g} s: {what}"
        await asyncio.sleep(0.05)


async def until(condition: Callable[[], bool], *, seconds: float = 60.0, what: str = "") -> None:
    """Wait for something that will be so."""
    deadline_s = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline_s, f"not within {seconds:g} s: {what}"
        await asyncio.sleep(0.02)


def log_bytes(folder: Path) -> dict[str, bytes]:
    """The log's files without the zeros behind the last record."""
    return {
        path.name: path.read_bytes().rstrip(b"\0")
        for path in sorted((folder / "commitlog").iterdir())
        if path.name.isdigit()
    }


def same_logs(one: Path, other: Path) -> bool:
    ours = {name: data for name, data in log_bytes(one).items() if data}
    return ours == {name: data for name, data in log_bytes(other).items() if data}


class CutLink:
    """Stands before an HA port and cuts each connection after the next of `lengths` bytes from the master."""

    def __init__(self, lengths: list[int]) -> None:
        self._lengths = lengths
        self.connections = 0
        self.address = ""

    @contextlib.asynccontextmanager
    async def before(self, master_ha: str) -> AsyncIterator["CutLink"]:
        host, _, port = master_ha.rpartition(":")

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            left = self._lengths[self.connections] if self.connections < len(self._lengths) else 1 << 60
            self.connections += 1
            from_master, to_master = await asyncio.open_connection(host, int(port))
            reports = asyncio.create_task(_pass_on(reader, to_master))
            while left and (data := await from_master.read(min(left, 1 << 16))):
                left -= len(data)
                writer.write(data)
                await writer.drain()
            writer.close()
            to_master.close()
            reports.cancel()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(4096):
        writer.write(data)
