"""The composition root: puts every part of a broker together.

state (store, tables, clients) -> features, in the order they apply in (`feature_order.py`) -> the path of messages ->
what runs
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from rocketeer.broker.feature import ConfigChange, Feature, GroupRole, IdlePause, Periodic
from rocketeer.broker.feature_order import all_features, send_access
from rocketeer.broker.lifecycle import Components, Lifecycle
from rocketeer.broker.live_config import FILE_NAME as FILE_NAME_OF_CHANGES
from rocketeer.broker.live_config import LiveConfig, saved_changes
from rocketeer.broker.registration import Registration
from rocketeer.broker.request_processor import RequestProcessor
from rocketeer.broker.services import Services
from rocketeer.broker.state import BrokerState
from rocketeer.broker.watchdog import CHECK_S, LoopWatchdog
from rocketeer.clock import Clock
from rocketeer.config import BrokerConfig, ServerConfig, ServerRole, StoreConfig
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
        """Open the store, listen and register. Raises PortInUse, StoreLocked, StoreError ... and leaves nothing
        open."""
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
            broker = with_changes(broker, changes, ServerRole.BROKER)
            store = with_changes(store, changes, ServerRole.BROKER)
        live = LiveConfig(
            broker, store, self._server_config, path=path, extras=self._extras, clock=self._clock
        )
        return _assemble(broker, store, self._server_config, self._clock, live, self._make_role)

    async def stop(self) -> None:
        if self._lifecycle is not None:
            await self._lifecycle.stop()
            self._lifecycle = None


def _assemble(
    broker: BrokerConfig,
    store: StoreConfig,
    server: ServerConfig,
    clock: Clock,
    live: LiveConfig,
    make_role: MakeRole | None,
) -> Components:
    state = BrokerState(broker, store, server, clock)
    role = None if make_role is None else make_role(state, store, server)
    leading = None if role is None else role.leading
    registration = Registration(
        broker, state.identity, client=state.remoting, topics=state.topics, leading=leading
    )
    state.remoting.on_close.append(registration.connection_lost)
    features, path = all_features(state, registration, broker, store, server, live, role)
    router = _router(state, broker, server, features)
    loop = asyncio.get_running_loop()
    poller = new_poller(loop)
    after_reads = loop.call_soon if poller is None else poller.after_reads
    processor = path.processor(router, after_reads, send_access(features))
    state.queue_holders.append(processor.forget_topics)
    for feature in features:
        for connect_guard in feature.temporary_guards:
            connect_guard(processor.set_temporary_guard)
    live.add(_state_changes(state, registration, processor))
    live.add(change for feature in features for change in feature.changes)

    remoting = RemotingServer(
        processor.process,
        serve_front=processor.serve_front,
        poller=poller,
        on_close=forget_by_all(features),
        idle_s=server.idle_s,
        sizes=SocketSizes(server.backlog, server.send_buffer_bytes, server.receive_buffer_bytes),
        limits=server.limits,
        tls=state.tls.context,
        plain=state.tls.takes_plain,
    )
    state.clients.on_gone.extend(gone for feature in features for gone in feature.on_group_gone)
    state.offsets.on_back.extend(back for feature in features for back in feature.on_offset_back)
    state.tables.add(table for feature in features for table in feature.state)
    state.store.needs.extend(need for feature in features for need in feature.needs)
    state.store.rolls.extend(roll for feature in features for roll in feature.rolls)
    watchdog = LoopWatchdog()
    services = [
        Periodic("store", STORE_TICK_S, state.store.tick, IdlePause(state.store.is_idle, STORE_REST_S)),
        Periodic("tables", broker.flush_consumer_offset_ms / 1000, state.tables.save_changed),
        Periodic("watchdog", CHECK_S, watchdog.beat),
        Periodic("figures", TICK_S, lambda: run_sliced(state.recorder.tick())),
    ]
    if state.tls.has_files:
        services.append(Periodic("watch certificates", CERTIFICATES_WATCH_S, state.watch_certificates))
    return Components(
        state=state,
        registration=registration,
        features=features,
        role=role,
        holds=path.holds,
        server=remoting,
        host=server.bind_host,
        ports=[server.listen_port, server.fast_port],
        watchdog=watchdog,
        services=Services([*services, *(service for feature in features for service in feature.services)]),
    )


def forget_by_all(features: Sequence[Feature]) -> Callable[[Connection], None]:
    """What to call when a connection has closed: every feature forgets it, also when another one fails at that."""
    forgetting = [forget for feature in features for forget in feature.on_close]

    def forget_connection(connection: Connection) -> None:
        with ExitStack() as all_of_them:  # runs the last first, and raises what failed when all have run
            for forget in reversed(forgetting):
                all_of_them.callback(forget, connection)

    return forget_connection


def _router(
    state: BrokerState,
    broker: BrokerConfig,
    server: ServerConfig,
    features: list[Feature],
) -> Router:
    handlers = _all_handlers(features)
    check_complete(handlers, BROKER_RULES)
    for override in (each for feature in features for each in feature.overrides):
        handlers |= override(handlers)
    return Router(
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
        on_answered=state.counters.answered_by_router,
    )


def _state_changes(
    state: BrokerState, registration: Registration, processor: RequestProcessor
) -> list[ConfigChange]:
    """The settings that store, tables and registration apply while the broker runs."""

    def permission(broker: BrokerConfig, store: StoreConfig) -> None:
        processor.set_writable(bool(broker.permission & Perm.WRITE))
        registration.set_permission(broker.permission)

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
            lambda broker, store: state.groups.set_auto_create(broker.auto_create_group_enable),
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
