"""One life of a broker: the order in which its parts start, and in which they stop."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rocketeer.broker.feature import Feature
from rocketeer.broker.held_pulls import HeldPulls
from rocketeer.broker.replay import replay_log
from rocketeer.broker.services import Services
from rocketeer.broker.state import Ground
from rocketeer.broker.tables import TableKeeper
from rocketeer.broker.watchdog import LoopWatchdog
from rocketeer.model.topic import TopicConfig
from rocketeer.remoting.server import RemotingServer
from rocketeer.store.message_store import RecoveryReport

log = logging.getLogger(__name__)

STOP_FLUSH_S = 30.0


@dataclass(frozen=True)
class Parts:
    """What `assemble.py` has put together."""

    ground: Ground
    features: Sequence[Feature]
    holds: HeldPulls
    server: RemotingServer
    host: str
    ports: Sequence[int]
    tables: TableKeeper
    watchdog: LoopWatchdog
    services: Services


class Life:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._store = parts.ground.store
        self._saving: asyncio.Future[None] | None = None
        self._unsaved = False

    async def start(self) -> None:
        """Open the store, learn from it what the tables do not know yet, listen, register; or leave nothing."""
        parts, store = self._parts, self._store
        undo: list[Callable[[], None]] = []
        try:
            report = await asyncio.to_thread(store.open)
            undo.append(store.close)
            parts.tables.load()
            if store.extension is not None and parts.ground.filter_bits is not None:
                # Not earlier: recovery knows no filters yet, and units without bits rule nothing out.
                store.extension.filter_bits = parts.ground.filter_bits
            self._restore_topics(report)
            replays = [replay for feature in parts.features for replay in feature.replays]
            await asyncio.to_thread(replay_log, store, replays)
            # Only now: what was stored before this life came through the replays.
            store.dispatchers.extend(each for feature in parts.features for each in feature.dispatchers)
            await parts.server.start(parts.host, parts.ports)
        except BaseException:
            for step in reversed(undo):
                step()
            raise
        parts.ground.topics.on_change.append(lambda change: self._save_soon())
        parts.watchdog.start()
        parts.services.start()
        await parts.ground.registration.start()

    async def stop(self) -> None:
        """Say goodbye first, so that nobody is sent here any more; then finish, then close."""
        parts = self._parts
        try:
            await parts.ground.registration.stop()
            parts.holds.wake_all()
            await parts.server.stop()
            await parts.services.stop()
            parts.watchdog.stop()
            await self._log_durable()
            await parts.tables.save_all()
            for close in (close for feature in parts.features for close in feature.closers):
                await asyncio.to_thread(close)
        finally:  # whatever failed before: the log must reach the disk
            self._store.close()
            parts.ground.remoting.close()

    async def _log_durable(self) -> None:
        """What tables say must be true of the log on disk."""
        durable: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._store.when_durable(
            self._store.max_log_offset, lambda ok: None if durable.done() else durable.set_result(ok)
        )
        await asyncio.wait((durable,), timeout=STOP_FLUSH_S)

    def _save_soon(self) -> None:
        """A topic that was created must survive a crash right after it; many at once are saved at once."""
        self._unsaved = True
        if self._saving is None or self._saving.done():
            self._saving = asyncio.ensure_future(self._save_changes())

    async def _save_changes(self) -> None:
        while self._unsaved:
            self._unsaved = False
            await self._parts.tables.save_changed()

    def _restore_topics(self, report: RecoveryReport) -> None:
        """After a crash a topic may have messages, but its configuration may not have reached the disk."""
        if not report.after_crash:
            return
        topics = self._parts.ground.topics
        queues: dict[str, int] = {}
        for topic, queue_id in self._store.queues():
            queues[topic] = max(queues.get(topic, 0), queue_id + 1)
        for topic, count in queues.items():
            if topics.get(topic) is None:
                log.warning("topic restored from its queues topic=%s queues=%d", topic, count)
                topics.put(TopicConfig(topic, read_queues=count, write_queues=count))
