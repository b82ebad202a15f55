"""From start to stop: the order in which a broker's components start, and in which they stop."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from rocketeer.broker.feature import Feature, GroupRole
from rocketeer.broker.held_pulls import HeldPulls
from rocketeer.broker.registration import Registration
from rocketeer.broker.replay import replay_log
from rocketeer.broker.services import Services
from rocketeer.broker.state import BrokerState
from rocketeer.broker.watchdog import LoopWatchdog
from rocketeer.model.topic import TopicConfig
from rocketeer.remoting.server import RemotingServer
from rocketeer.store.message_store import RecoveryReport
from rocketeer.threads import finish_in_thread

log = logging.getLogger(__name__)

STOP_FLUSH_S = 30.0


@dataclass(frozen=True)
class Components:
    """What `assemble.py` has put together."""

    state: BrokerState
    registration: Registration
    features: Sequence[Feature]
    role: GroupRole | None
    holds: HeldPulls
    server: RemotingServer
    host: str
    ports: Sequence[int]
    watchdog: LoopWatchdog
    services: Services


class Lifecycle:
    def __init__(self, components: Components) -> None:
        self._components = components
        self._store = components.state.store
        self._runners = [runner for feature in components.features for runner in feature.runners]
        self._saving: asyncio.Future[None] | None = None
        self._unsaved = False

    async def start(self) -> None:
        """Recover, listen, register; or leave nothing."""
        components = self._components
        await self.recover()
        try:
            await components.server.start(components.host, components.ports)
            for runner in self._runners:
                await runner.start()
            components.state.topics.on_change.append(lambda change: self._save_soon())
            components.watchdog.start()
            components.services.start()
            await components.registration.start()
        except BaseException:
            await self.stop()
            raise

    async def recover(self) -> RecoveryReport:
        """Open the store and learn from it what the tables do not know yet; or leave it closed."""
        components, store = self._components, self._store
        try:
            report = await finish_in_thread(store.open)
            components.state.recorder.start()
            components.state.tables.load()
            components.state.offsets.clamp(store.max_queue_offset)
            for recovered in (each for feature in components.features for each in feature.on_recovered):
                recovered()
            self._restore_topics(report)
            replays = [replay for feature in components.features for replay in feature.replays]
            await finish_in_thread(replay_log, store, replays)
        except BaseException:
            store.close()
            raise
        # Only now: what was stored before this start came through the replays.
        store.dispatchers.extend(each for feature in components.features for each in feature.dispatchers)
        return report

    async def stop(self) -> None:
        """Say goodbye first, so that nobody is sent here any more; then finish, then close."""
        components = self._components
        try:
            await components.registration.stop()
            components.holds.wake_all()
            await components.server.stop()
            for runner in self._runners:
                await runner.stop()
            await components.services.stop()
            components.watchdog.stop()
            await self._log_durable()
            try:
                await components.state.tables.save_all()
            finally:
                for close in (close for feature in components.features for close in feature.closers):
                    await finish_in_thread(close)
        finally:  # whatever failed before: the log must reach the disk
            self._store.close()
            components.state.remoting.close()

    async def _log_durable(self) -> None:
        """Wait until the log is on disk: the tables that are saved next speak of it."""
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
            await self._components.state.tables.save_ahead()
            if self._components.state.topics.waits_for_log():  # one was deleted
                await self._components.state.tables.save_changed()

    def _restore_topics(self, report: RecoveryReport) -> None:
        """After a crash a topic may have messages, but its configuration may not have reached the disk."""
        if not report.after_crash:
            return
        topics = self._components.state.topics
        queues: dict[str, int] = {}
        for topic, queue_id in self._store.queues():
            queues[topic] = max(queues.get(topic, 0), queue_id + 1)
        for topic, count in queues.items():
            if topics.get(topic) is None:
                log.warning("topic restored from its queues topic=%s queues=%d", topic, count)
                topics.put(TopicConfig(topic, read_queues=count, write_queues=count))
