"""The composition root: puts every part of a broker together.

state (store, tables, clients) -> features, in the order they apply in (`feature_order.py`) -> the path of messages ->
what runs
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from rocketeer.broker.fast_path import FastPath
from rocketeer.broker.feature import ConfigChange, Feature, GroupRole, Periodic, Rest
from rocketeer.broker.feature_order import all_features, send_access
from rocketeer.broker.features.replication.packed import packed_tables
from rocketeer.broker.features.replication.slave import slave_refusals
from rocketeer.broker.lifecycle import Components, Lifecycle
from rocketeer.broker.live_config import FILE_NAME as FILE_NAME_OF_CHANGES
from rocketeer.broker.live_config import LiveConfig, saved_changes
from rocketeer.broker.services import Services
from rocketeer.broker.state import BrokerState
from rocketeer.broker.watchdog import CHECK_S, LoopWatchdog
from rocketeer.clock import Clock
from rocketeer.config import BrokerConfig, BrokerRole, Role, ServerConfig, StoreConfig
from rocketeer.config.changing import with_changes
from rocketeer.model.topic import Perm
from rocketeer.observe.log_lines import set_log_level
from rocketeer.observe.recorder import TICK_S
from rocketeer.protocol.codes import RequestCode
from rocketeer.remoting.limits import RequestLimits
from rocketeer.remoting.router import Connection, Handler, Router
from rocketeer.remoting.server import RemotingServer, SocketSizes
from rocketeer.remoting.slices import run_sliced
from rocketeer.remoting.streams import new_poller
from rocketeer.security.rules import BROKER_RULES, check_complete
from rocketeer.store.message_store import RECONFIGURABLE

MESSAGE_CODES = frozenset(
    {
        RequestCode.SEND_MESSAGE,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE_V2,
    }
)
"""Requests whose body is a message, or several: the store says how large those may be."""


MakeRole = Callable[[BrokerState, StoreConfig, ServerConfig], GroupRole]
STORE_TICK_S = 0.005
STORE_REST_S = 0.05
CERTIFICATES_WATCH_S = 2.0


class Broker:
    """A whole broker: `start` opens the store, listens and registers; `stop` does it all backwards."""

    def __init__(
        self,
        broker: BrokerConfig,
        store: StoreConfig,
        server: ServerConfig,
        clock: Clock,
        *,
        config_path: Path | None = None,
        extras: Mapping[str, str] | None = None,
        make_role: MakeRole | None = None,
    ) -> None:
        """`config_path`: the file of the settings, which changes at run time go to. Without one they go to
        <store>/config/broker.properties, and what was changed there before holds again. `extras`: its keys that
        nothing here reads. `make_role`: of a member of a group, what it is there for as long as this broker runs.
        """
        self._make_role = make_role
        self._broker = broker
        self._store_config = store
        self._server_config = server
        self._clock = clock
        self._config_path = config_path
        self._extras = extras or {}
        self._lifecycle: Lifecycle | None = None
        self.role: GroupRole | None = None
        """What `make_role` has made, once all is started."""

    async def start(self) -> None:
        """Raises PortInUse, StoreLocked, StoreError ... and leaves nothing behind."""
        components = self.components()
        lifecycle = Lifecycle(components)
        await lifecycle.start()
        self._lifecycle, self.role = lifecycle, components.role

    def components(self) -> Components:
        """Everything this broker is made of; needs a running loop, opens nothing."""
        broker, store, path = self._broker, self._store_config, self._config_path
        if path is None:
            path = store.store_path / "config" / FILE_NAME_OF_CHANGES
            changes = saved_changes(path)
            broker = with_changes(broker, changes, Role.BROKER)
            store = with_changes(store, changes, Role.BROKER)
        live = LiveConfig(
            broker, store, self._server_config, path=path, extras=self._extras, clock=self._clock
        )
        return _assemble(broker, store, self._server_config, self._clock, live, self._make_role)

    async def stop(self) -> None:
        if self._lifecycle is not None:
            await self._lifecycle.stop()
            self._lifecycle = None


def handled_codes(
    broker: BrokerConfig, store: StoreConfig, server: ServerConfig, clock: Clock
) -> frozenset[int]:
    """Every request code that a broker with these settings answers; needs a running loop, opens nothing."""
    live = LiveConfig(broker, store, server, path=store.store_path / "none", extras={}, clock=clock)
    return frozenset(_all_handlers(list(_assemble(broker, store, server, clock, live).features)))


def _assemble(
    broker: BrokerConfig,
    store: StoreConfig,
    server: ServerConfig,
    clock: Clock,
    live: LiveConfig,
    make_role: MakeRole | None = None,
) -> Components:
    state = BrokerState(broker, store, server, clock)
    if make_role is not None:
        state.confirmed = state.store.bound_reads()
    role = None if make_role is None else make_role(state, store, server)
    features, path = all_features(state, broker, store, server, live, role)
    router = _router(state, broker, store, server, features, role)
    loop = asyncio.get_running_loop()
    poller = new_poller(loop)
    after_reads = loop.call_soon if poller is None else poller.after_reads
    fast_path = path.fast(router, after_reads, send_access(features))
    state.queue_holders.append(fast_path.forget_topics)
    for feature in features:
        for connect_brake in feature.brakes:
            connect_brake(fast_path.brake)
    live.add(_state_changes(state, fast_path))
    live.add(change for feature in features for change in feature.changes)

    def closed(connection: Connection) -> None:
        path.holds.forget(connection)
        state.client_service.connection_closed(connection)

    remoting = RemotingServer(
        fast_path.process,
        serve_front=fast_path.serve_front,
        poller=poller,
        on_close=closed,
        idle_s=server.idle_s,
        sizes=SocketSizes(server.backlog, server.send_buffer_bytes, server.receive_buffer_bytes),
        limits=server.limits,
        tls=state.tls.context,
        plain=state.tls.takes_plain,
    )
    state.tables.add(table for feature in features for table in feature.state)
    state.store.needs.extend(need for feature in features for need in feature.needs)
    state.store.rolls.extend(roll for feature in features for roll in feature.rolls)
    watchdog = LoopWatchdog()
    services = [
        Periodic("store", STORE_TICK_S, state.store.tick, Rest(state.store.is_idle, STORE_REST_S)),
        Periodic("tables", broker.flush_consumer_offset_ms / 1000, state.tables.save_changed),
        Periodic("watchdog", CHECK_S, watchdog.beat),
        Periodic("figures", TICK_S, lambda: run_sliced(state.recorder.tick())),
    ]
    if state.tls.has_files:
        services.append(Periodic("watch certificates", CERTIFICATES_WATCH_S, state.watch_certificates))
    return Components(
        state=state,
        features=features,
        role=role,
        holds=path.holds,
        server=remoting,
        host=server.bind_host,
        ports=[server.listen_port, server.fast_port],
        watchdog=watchdog,
        services=Services([*services, *(service for feature in features for service in feature.services)]),
    )


def _router(
    state: BrokerState,
    broker: BrokerConfig,
    store: StoreConfig,
    server: ServerConfig,
    features: list[Feature],
    role: GroupRole | None,
) -> Router:
    handlers = _all_handlers(features)
    check_complete(handlers, BROKER_RULES)
    if store.broker_role is BrokerRole.SLAVE:
        handlers |= slave_refusals()
    if role is not None:
        handlers = role.handlers(handlers)
    handlers |= packed_tables(handlers)
    router = Router(
        handlers,
        [guard for feature in features for guard in feature.guards],
        RequestLimits(
            server.limits,
            bulk=MESSAGE_CODES,
            bodies={
                RequestCode.HEART_BEAT: ("limitHeartbeatBytes", broker.limits.heartbeat_bytes),
                RequestCode.UPDATE_BROKER_CONFIG: ("limitSettingsBytes", server.limits.settings_bytes),
            },
        ),
    )
    router.on_answered = state.counters.answered_by_router
    return router


def _state_changes(state: BrokerState, fast_path: FastPath) -> list[ConfigChange]:
    """What store, tables and registration can follow."""

    def permission(broker: BrokerConfig, store: StoreConfig) -> None:
        fast_path.set_writable(bool(broker.permission & Perm.WRITE))
        state.registration.set_permission(broker.permission)

    return [
        ConfigChange(RECONFIGURABLE, lambda broker, store: state.store.reconfigure(store)),
        ConfigChange(
            ("autoCreateTopicEnable",),
            lambda broker, store: state.topics.set_auto_create(
                broker.auto_create_topic_enable, broker.default_queues
            ),
        ),
        ConfigChange(
            ("autoCreateSubscriptionGroup",),
            lambda broker, store: setattr(state.groups, "auto_create", broker.auto_create_group_enable),
        ),
        ConfigChange(
            ("notifyConsumerIdsChangedEnable",),
            lambda broker, store: setattr(
                state.client_service, "notices_enabled", broker.notify_consumer_ids_changed_enable
            ),
        ),
        ConfigChange(("brokerPermission",), permission),
        ConfigChange(("logLevel",), lambda broker, store: set_log_level(broker.log_level)),
    ]


def _all_handlers(features: list[Feature]) -> dict[int, Handler]:
    handlers: dict[int, Handler] = {}
    for feature in features:
        for code, handler in feature.handlers.items():
            assert code not in handlers, f"two features answer request code {code}"
            handlers[code] = handler
    return handlers
