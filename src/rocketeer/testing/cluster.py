"""Runs the real name server and the real broker on an event loop in a thread of this process."""

import asyncio
import contextlib
import dataclasses
import socket
import tempfile
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

from rocketeer.broker.assemble import Broker
from rocketeer.clock import SystemClock
from rocketeer.config import BrokerConfig, NamesrvConfig, ServerConfig, StoreConfig
from rocketeer.nameserver.server import NameServer

HOST = "127.0.0.1"
START_S_MAX = 60.0

SMALL_STORE = StoreConfig(
    segment_bytes=16 << 20, consume_queue_bytes=20 * 10_000, index_slots=10_000, index_entries=40_000
)
"""Files small enough to be made at once; messages up to 4 MiB still fit."""


class Cluster:
    """A running name server and broker; `stop` and `start` again for tests of clients that lose their broker."""

    def __init__(self, store: Path, *, broker: dict[str, Any], store_settings: dict[str, Any]) -> None:
        self.store = store
        self._namesrv_port = _free_port()
        self._broker_port = _free_port()
        self.nameserver = f"{HOST}:{self._namesrv_port}"
        """What clients are given."""
        self.broker = f"{HOST}:{self._broker_port}"
        self._broker_settings = broker
        self._store_settings = store_settings
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="rocketeer-cluster", daemon=True)
        self._thread.start()
        self._name_server = NameServer(
            NamesrvConfig(
                kv_config_path=store / "namesrv" / "kvConfig.json",
                config_path=store / "namesrv" / "namesrv.properties",
                server=ServerConfig(bind_host=HOST, listen_port=self._namesrv_port),
            )
        )
        self._running: Broker | None = None
        self._run(self._name_server.start())

    def start(self) -> None:
        """Start the broker (again) on its store."""
        assert self._running is None, "the broker runs already"
        settings = {"broker_name": "broker-a", "host": HOST, "ha_host": HOST} | self._broker_settings
        broker = Broker(
            BrokerConfig(namesrv_addresses=(self.nameserver,), **settings),
            dataclasses.replace(SMALL_STORE, store_path=self.store, **self._store_settings),
            ServerConfig(bind_host=HOST, listen_port=self._broker_port),
            SystemClock(),
        )
        self._run(broker.start())
        self._running = broker

    def stop(self) -> None:
        """Stop the broker cleanly; the name server stays, and so does every message."""
        if self._running is not None:
            broker, self._running = self._running, None
            self._run(broker.stop())

    def close(self) -> None:
        """Stop everything."""
        self.stop()
        self._run(self._name_server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(START_S_MAX)


@contextlib.contextmanager
def cluster(
    store: Path | str | None = None,
    *,
    broker: dict[str, Any] | None = None,
    store_settings: dict[str, Any] | None = None,
) -> Iterator[Cluster]:
    """A cluster for as long as the block lasts, in a temporary folder unless `store` names one.

    `broker` and `store_settings` are fields of `rocketeer.config.BrokerConfig` and `StoreConfig`:

        with cluster(broker={"auto_create_topic_enable": False}) as running: ...
    """
    with contextlib.ExitStack() as stack:
        folder = store or stack.enter_context(tempfile.TemporaryDirectory(prefix="rocketeer-"))
        running = Cluster(Path(folder), broker=broker or {}, store_settings=store_settings or {})
        stack.callback(running.close)
        running.start()
        yield running


def _free_port() -> int:
    """A port whose neighbour two below is free too: a broker listens on both."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind((HOST, 0))
            port: int = first.getsockname()[1]
            with contextlib.suppress(OSError):
                second.bind((HOST, port - 2))
                return port
