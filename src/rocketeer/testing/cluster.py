"""Runs the real name server and the real broker on an event loop in a thread of this process."""

import asyncio
import contextlib
import dataclasses
import tempfile
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

from rocketeer.broker.assemble import Broker
from rocketeer.clock import SystemClock
from rocketeer.config import BrokerConfig, NamesrvConfig, ServerConfig, StoreConfig
from rocketeer.config.ports import HOST, free_ports
from rocketeer.errors import PortInUse
from rocketeer.nameserver.server import NameServer

START_S_MAX = 60.0
START_TRIES = 5  # another process may take a port between our look and the server's bind

SMALL_STORE = StoreConfig(
    segment_bytes=16 << 20,
    consume_queue_bytes=20 * 10_000,
    index_slots=10_000,
    index_entries=40_000,
    os_page_cache_busy_ms=20_000,
)
"""Files small enough to be made at once; messages up to 4 MiB still fit."""
PATIENT = {"send_wait_ms_max": 20_000, "pull_wait_ms_max": 20_000, "transaction_wait_ms_max": 20_000}
"""Settings of patient brokers: a machine busy with tests is no reason to refuse a send after 200 ms."""


class Cluster:
    """A running name server and broker; `stop` and `start` again for tests of clients that lose their broker."""

    def __init__(self, store: Path, *, broker: dict[str, Any], store_settings: dict[str, Any]) -> None:
        self.store = store
        self._namesrv_port, self._broker_port = free_ports()
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
        try:
            self._run(self._name_server.start())
        except BaseException:
            self._end_loop()
            raise

    def start(self) -> None:
        """Start the broker (again) on its store."""
        assert self._running is None, "the broker runs already"
        names = {"broker_name": "broker-a", "host": HOST, "ha_host": HOST}
        settings: dict[str, Any] = {**names, **PATIENT, **self._broker_settings}
        broker = Broker(
            BrokerConfig(namesrv_addresses=(self.nameserver,), **settings),
            dataclasses.replace(
                SMALL_STORE,
                store_path=self.store,
                **{"ha_port": self._broker_port + 1, **self._store_settings},
            ),
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
        self._end_loop()

    def _end_loop(self) -> None:
        self._run(self._loop.shutdown_default_executor())  # a thread that reads a file may be at work still
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
        running = _started(Path(folder), broker or {}, store_settings or {})
        stack.callback(running.close)
        yield running


def _started(folder: Path, broker: dict[str, Any], store_settings: dict[str, Any]) -> Cluster:
    for attempt in range(1, START_TRIES + 1):
        try:
            running = Cluster(folder, broker=broker, store_settings=store_settings)
            try:
                running.start()
            except BaseException:
                running.close()
                raise
        except PortInUse:
            if attempt == START_TRIES:
                raise
        else:
            return running
    raise AssertionError("not reached")
