"""The composition root: the only file that knows every part of the broker, and the order they stand in."""

import asyncio
import logging
from collections.abc import Callable

from rocketeer.broker.clients import ClientTable
from rocketeer.broker.fast_path import FastPath
from rocketeer.broker.feature import Feature, Periodic
from rocketeer.broker.features.delay import delay_feature
from rocketeer.broker.features.disk import disk_durability
from rocketeer.broker.features.filtering import Filtering, filtering_feature
from rocketeer.broker.features.flow import FlowControl, WaitLimits, flow_feature
from rocketeer.broker.features.idempotence import idempotence_feature
from rocketeer.broker.features.management import management_features
from rocketeer.broker.features.members import MemberCalls, members_feature
from rocketeer.broker.features.offset_moved import OffsetMovedEvents
from rocketeer.broker.features.reply import Replies, reply_feature
from rocketeer.broker.features.retry import SendBack, retry_feature
from rocketeer.broker.features.timer import timer_feature
from rocketeer.broker.features.transaction import transaction_feature
from rocketeer.broker.features.transaction_check import CheckRules
from rocketeer.broker.filter_data import FilterTable
from rocketeer.broker.groups import GroupTable
from rocketeer.broker.handlers.clients import ClientService
from rocketeer.broker.handlers.pull import PullHandler
from rocketeer.broker.handlers.query import QueryHandler
from rocketeer.broker.handlers.send import SendHandler
from rocketeer.broker.holds import HeldPulls
from rocketeer.broker.idempotence import Window
from rocketeer.broker.idempotence_snapshot import FILE_NAME, Snapshots
from rocketeer.broker.locks import QueueLocks
from rocketeer.broker.offsets import ConsumerOffsets
from rocketeer.broker.plain_properties import PlainParser
from rocketeer.broker.pull import PullService
from rocketeer.broker.registration import BrokerIdentity, Registration
from rocketeer.broker.replaying import replay_log
from rocketeer.broker.send import SendRules, SendService
from rocketeer.broker.sent_back import SentBack
from rocketeer.broker.services import Services
from rocketeer.broker.tables import TableKeeper
from rocketeer.broker.timing.admission import TimerRules
from rocketeer.broker.timing.recall import RecallRules
from rocketeer.broker.topics import TopicTable
from rocketeer.broker.watchdog import CHECK_S, LoopWatchdog
from rocketeer.broker.writer import Writer
from rocketeer.clock import Clock
from rocketeer.config import BrokerConfig, BrokerRole, FlushMode, ServerConfig, StoreConfig
from rocketeer.filter.bloom import BloomFilter
from rocketeer.model.topic import Perm, TopicConfig
from rocketeer.record.delay_levels import DelayLevels
from rocketeer.record.hosts import encode_host
from rocketeer.remoting.client import RemotingClient
from rocketeer.remoting.connection import address_text
from rocketeer.remoting.server import Connection, Handler, RemotingServer, Router
from rocketeer.store.message_store import MessageStore, RecoveryReport

log = logging.getLogger(__name__)

STORE_TICK_S = 0.005
HOLD_TICK_S = 0.05
STOP_FLUSH_S = 30.0


class Broker:
    """A whole broker: `start` opens the store, listens and registers; `stop` does it all backwards."""

    def __init__(self, broker: BrokerConfig, store: StoreConfig, server: ServerConfig, clock: Clock) -> None:
        self._broker = broker
        self._store_config = store
        self._server_config = server
        self._clock = clock
        self._running: _Running | None = None

    async def start(self) -> None:
        """Raises PortInUse, StoreLocked, StoreError ... and leaves nothing behind."""
        running = _Running(self._broker, self._store_config, self._server_config, self._clock)
        await running.start()
        self._running = running

    async def stop(self) -> None:
        if self._running is not None:
            await self._running.stop()
            self._running = None


class _Running:
    """The parts of one life of a broker, made and wired in the order they depend on each other."""

    def __init__(self, broker: BrokerConfig, store: StoreConfig, server: ServerConfig, clock: Clock) -> None:
        loop = asyncio.get_running_loop()
        self._saving: asyncio.Future[None] | None = None
        self._unsaved = False
        self._server_config = server
        store_host = encode_host(broker.host.strip("[]"), server.listen_port)

        def post(run: Callable[[], None]) -> None:
            loop.call_soon_threadsafe(run)

        self.store = MessageStore(store, clock=clock, store_host=store_host, post=post)
        self.topics = TopicTable(broker, clock)
        self.groups = GroupTable(broker, clock)
        self.offsets = ConsumerOffsets()
        clients: ClientTable[Connection] = ClientTable()
        bloom = BloomFilter(broker.filter_error_percent, broker.filter_consumers)
        filtering = Filtering(
            FilterTable(bloom, clock, keep_dead_ms=broker.filter_keep_dead_ms),
            enabled=broker.property_filter_enable,
            retries=broker.filter_retry_enable,
        )
        self._compute_filter_bits = (
            (lambda entry: filtering.bits_of(entry, self.store.log)) if broker.filter_bitmap_enable else None
        )
        self.client_service = ClientService(
            clients,
            check_expression=filtering.check,
            groups=self.groups,
            topics=self.topics,
            clock=clock,
            notices_enabled=broker.notify_consumer_ids_changed_enable,
        )
        self.client_service.on_consumer.append(filtering.consumer_seen)
        clients.on_gone.append(filtering.table.unregister)
        self.remoting = RemotingClient(on_close=lambda address: self.registration.connection_lost(address))
        self.registration = Registration(
            broker,
            BrokerIdentity(
                cluster=broker.cluster_name,
                broker_name=broker.broker_name,
                broker_id=broker.broker_id,
                address=address_text((broker.host.strip("[]"), server.listen_port)),
                ha_address=address_text((broker.ha_host.strip("[]"), store.ha_port)),
            ),
            client=self.remoting,
            topics=self.topics,
        )

        # --- features, in the order their rewrites and guards apply --------------------------
        send_back = SendBack(
            topics=self.topics,
            groups=self.groups,
            store=self.store,
            writer=lambda: self.writer,
            sent=SentBack(self.store, self.offsets, clock),
            broker_ip=broker.host,
            broker_perm=broker.permission,
        )
        self.offsets.on_back.append(send_back.sent.set_back)
        features: list[Feature] = [
            *management_features(
                clients=self.client_service,
                topics=self.topics,
                groups=self.groups,
                offsets=self.offsets,
                locks=QueueLocks(),
                store=self.store,
                clock=clock,
                role=store.broker_role,
                announce=self.registration.announce,
                persist=lambda: self.tables.save_changed(),
            ),
            members_feature(
                MemberCalls(
                    clients,
                    topics=self.topics,
                    offsets=self.offsets,
                    store=self.store,
                    broker_name=broker.broker_name,
                )
            ),
            idempotence_feature(
                Snapshots(
                    Window(
                        ids=broker.idempotent_ids_max,
                        sequences=broker.idempotent_window,
                        idle_ms=broker.idempotent_idle_hours * 3_600_000,
                    ),
                    self.store,
                    clock,
                    path=store.store_path / "config" / FILE_NAME,
                    segment_bytes=store.segment_bytes,
                ),
                follows=store.broker_role is BrokerRole.SLAVE,
            ),
            retry_feature(send_back),
            filtering_feature(filtering),
            transaction_feature(
                store=self.store,
                clients=clients,
                topics=self.topics,
                offsets=self.offsets,
                writer=lambda: self.writer,
                clock=clock,
                rules=CheckRules(
                    timeout_ms=broker.transaction_timeout_ms,
                    times_max=broker.transaction_checks_max,
                    interval_ms=broker.transaction_check_interval_ms,
                ),
                store_host=store_host,
                broker_ip=broker.host,
                rejected=broker.reject_transactions,
                persist=lambda: self.tables.save_changed(),
            ),
            timer_feature(
                TimerRules(store.timer_enable, store.timer_delay_s_max * 1000, store.timer_precision_ms),
                RecallRules(broker.recall_enable, broker.broker_name, broker.region_id),
                folder=store.store_path / "timer",
                flush_ms=store.timer_flush_ms,
                store=self.store,
                topics=self.topics,
                writer=lambda: self.writer,
                clock=clock,
            ),
            delay_feature(DelayLevels.parse(store.delay_levels), clock, self.store, lambda: self.writer),
            self.registration.feature(),
        ]
        if store.flush_mode is FlushMode.SYNC_FLUSH:
            features.append(disk_durability(self.store))
        flow = FlowControl(
            WaitLimits(
                send_ms=broker.send_wait_ms_max,
                pull_ms=broker.pull_wait_ms_max,
                heartbeat_ms=broker.heartbeat_wait_ms_max,
                transaction_ms=broker.transaction_wait_ms_max,
            ),
            page_cache_busy_ms=store.os_page_cache_busy_ms,
            brake=lambda guard: fast_path.brake(guard),
        )
        if broker.fast_failure_enable:
            features.append(flow_feature(flow))

        # --- what the features are put into --------------------------------------------------
        claims = [name for feature in features for name in feature.claims]
        plain = PlainParser(broker.cluster_name, claims)
        self.writer = Writer(
            self.store,
            resends=[examine for feature in features for examine in feature.resends],
            rewrites=[rewrite for feature in features for rewrite in feature.rewrites],
            durability=[durable for feature in features for durable in feature.durability],
            clock=clock,
            message_bytes_max=store.message_bytes_max,
        )
        send_service = SendService(
            SendRules(broker.cluster_name, broker.host, broker.permission, store.message_bytes_max),
            topics=self.topics,
            groups=self.groups,
            writer=self.writer,
            plain=plain,
        )
        sends = SendHandler(
            send_service,
            store_host=store_host,
            region=broker.region_id,
            trace_on=broker.trace_on,
            fields=[field for feature in features for field in feature.reply_fields],
        )
        self.holds = HeldPulls(loop.call_soon)
        events = OffsetMovedEvents(
            writer=lambda: self.writer, clock=clock, broker_name=broker.broker_name, store_host=store_host
        )
        pulls = PullHandler(
            PullService(
                self.store,
                topics=self.topics,
                groups=self.groups,
                clients=clients,
                filters=filtering,
                broker_ip=broker.host,
                broker_perm=broker.permission,
            ),
            holds=self.holds,
            offsets=self.offsets,
            clock=clock,
            offset_moved=events.record,
            long_polling=broker.long_polling_enable,
            short_polling_ms=broker.short_polling_ms,
            broker_id=broker.broker_id,
        )
        queries = QueryHandler(self.store, unique_key_count_max=store.query_count_max)
        features.append(
            Feature(
                "messages",
                handlers={**sends.handlers(), **pulls.handlers(), **queries.handlers()},
                services=(
                    Periodic("end held pulls", HOLD_TICK_S, lambda: self.holds.expire(clock.monotonic_s())),
                ),
            )
        )
        features.append(
            reply_feature(
                Replies(
                    clients,
                    admit=send_service.admit,
                    writer=lambda: self.writer,
                    clock=clock,
                    store_host=store_host,
                    reply_ext=sends.ext,
                    stored=broker.store_reply_enable,
                )
            )
        )
        router = Router(_all_handlers(features), [guard for feature in features for guard in feature.guards])
        fast_path = FastPath(
            router,
            topics=self.topics,
            store=self.store,
            store_host=store_host,
            writer=self.writer,
            plain=plain,
            pulls=pulls,
            reply_ext=sends.ext,
            clock=clock,
            broker_writable=bool(broker.permission & Perm.WRITE),
        )
        self.server = RemotingServer(
            fast_path.process, take=fast_path.take, on_close=self._connection_closed, idle_s=server.idle_s
        )
        self.tables = TableKeeper(
            store.store_path / "config", [table for feature in features for table in feature.state]
        )
        self.watchdog = LoopWatchdog(storing_stalled=flow.storing_stalled)
        self.services = Services(
            [
                Periodic("store", STORE_TICK_S, self.store.tick),
                Periodic("tables", broker.flush_consumer_offset_ms / 1000, self.tables.save_changed),
                Periodic("watchdog", CHECK_S, self.watchdog.beat),
                *(service for feature in features for service in feature.services),
            ]
        )
        self._closers = [close for feature in features for close in feature.closers]
        self._replays = [replay for feature in features for replay in feature.replays]
        self.store.needs.extend(need for feature in features for need in feature.needs)
        self.store.rolls.extend(roll for feature in features for roll in feature.rolls)
        self._dispatchers = [dispatch for feature in features for dispatch in feature.dispatchers]
        self.store.listeners.append((self.holds.waiting, self.holds.arrived))

    async def start(self) -> None:
        undo: list[Callable[[], None]] = []
        try:
            report = await asyncio.to_thread(self.store.open)
            undo.append(self.store.close)
            self.tables.load()
            if self.store.extension is not None and self._compute_filter_bits is not None:
                self.store.extension.filter_bits = self._compute_filter_bits
            self._restore_topics(report)
            await asyncio.to_thread(replay_log, self.store, self._replays)
            self.store.dispatchers.extend(self._dispatchers)
            server = self._server_config
            await self.server.start(server.bind_host, [server.listen_port, server.fast_port])
        except BaseException:
            for step in reversed(undo):
                step()
            raise
        self.topics.on_change.append(lambda change: self._save_soon())
        self.watchdog.start()
        self.services.start()
        await self.registration.start()

    async def stop(self) -> None:
        """Say goodbye first, so that nobody is sent here any more; then finish, then close."""
        try:
            await self.registration.stop()
            self.holds.wake_all()
            await self.server.stop()
            await self.services.stop()
            self.watchdog.stop()
            await self._log_durable()
            await self.tables.save_all()
            for close in self._closers:
                await asyncio.to_thread(close)
        finally:  # whatever failed before: the log must reach the disk
            self.store.close()
            self.remoting.close()

    async def _log_durable(self) -> None:
        """What tables say must be true of the log on disk."""
        durable: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.store.when_durable(
            self.store.max_log_offset, lambda ok: None if durable.done() else durable.set_result(ok)
        )
        await asyncio.wait((durable,), timeout=STOP_FLUSH_S)

    def _connection_closed(self, connection: Connection) -> None:
        self.holds.forget(connection)
        self.client_service.connection_closed(connection)

    def _save_soon(self) -> None:
        """A topic that was created must survive a crash right after it; many at once are saved at once."""
        self._unsaved = True
        if self._saving is None or self._saving.done():
            self._saving = asyncio.ensure_future(self._save_changes())

    async def _save_changes(self) -> None:
        while self._unsaved:
            self._unsaved = False
            await self.tables.save_changed()

    def _restore_topics(self, report: RecoveryReport) -> None:
        """After a crash a topic may have messages, but its configuration may not have reached the disk."""
        if not report.after_crash:
            return
        queues: dict[str, int] = {}
        for topic, queue_id in self.store.queues():
            queues[topic] = max(queues.get(topic, 0), queue_id + 1)
        for topic, count in queues.items():
            if self.topics.get(topic) is None:
                log.warning("topic restored from its queues topic=%s queues=%d", topic, count)
                self.topics.put(TopicConfig(topic, read_queues=count, write_queues=count))


def _all_handlers(features: list[Feature]) -> dict[int, Handler]:
    handlers: dict[int, Handler] = {}
    for feature in features:
        for code, handler in feature.handlers.items():
            assert code not in handlers, f"two features answer request code {code}"
            handlers[code] = handler
    return handlers
