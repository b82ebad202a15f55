"""A start that does not come about leaves nothing open, whenever it ends."""

import asyncio
import contextlib
import dataclasses
from pathlib import Path

import pytest

from rocketeer.broker.assemble import Broker
from rocketeer.clock import SystemClock
from rocketeer.config import BrokerConfig, ServerConfig
from rocketeer.config.ports import free_ports
from support.broker import LOCAL, SMALL


async def test_a_start_that_is_cancelled_while_a_name_server_is_silent_leaves_the_store_cleanly_closed(
    tmp_path: Path,
) -> None:
    """The store stayed open, and the next start took it for one that had crashed."""
    asked = asyncio.Event()
    silent: list[asyncio.StreamWriter] = []

    async def says_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        silent.append(writer)
        await reader.readexactly(1)
        asked.set()

    async with await asyncio.start_server(says_nothing, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        _, listen_port = free_ports()
        broker = Broker(
            BrokerConfig(**LOCAL, namesrv_addresses=(f"127.0.0.1:{port}",)),  # type: ignore[arg-type]
            dataclasses.replace(SMALL, store_path=tmp_path, ha_port=listen_port + 1),
            ServerConfig(bind_host="127.0.0.1", listen_port=listen_port),
            SystemClock(),
        )
        start = asyncio.create_task(broker.start())
        await asyncio.wait_for(asked.wait(), 60)
        assert (tmp_path / "abort").exists()
        start.cancel()
        with pytest.raises(asyncio.CancelledError):
            await start
        for writer in silent:
            writer.close()
    assert not (tmp_path / "abort").exists()
    assert (tmp_path / "config" / "topics.json").exists()
    with contextlib.closing(
        await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", listen_port)
    ):
        pass
