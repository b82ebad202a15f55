"""Which features a broker has, in the order they apply in; `assemble.py` puts together what they add."""

from dataclasses import replace

from rocketeer.broker.feature import Feature, GroupRole
from rocketeer.broker.features.access import AccessFeature, BrokerNames, TopicsInLog, no_access_control
from rocketeer.broker.features.administration import administration_feature
from rocketeer.broker.features.delay.feature import delay_feature
from rocketeer.broker.features.disk import disk_durability
from rocketeer.broker.features.filtering.feature import filtering_feature
from rocketeer.broker.features.flow import FlowControl, WaitLimits, flow_feature
from rocketeer.broker.features.idempotence.feature import idempotence_feature
from rocketeer.broker.features.idempotence.resends import Window
from rocketeer.broker.features.idempotence.snapshot import FILE_NAME, Snapshots
from rocketeer.broker.features.management import management_features
from rocketeer.broker.features.members import MemberCalls, members_feature
from rocketeer.broker.features.metrics.feature import metrics_feature
from rocketeer.broker.features.replication.master import master_feature
from rocketeer.broker.features.replication.slave import slave_feature
from rocketeer.broker.features.replication.tables import FollowedTables, table_feature
from rocketeer.broker.features.reply import reply_feature
from rocketeer.broker.features.retry.feature import SendBack, retry_feature
from rocketeer.broker.features.retry.sent_back import SentBack
from rocketeer.broker.features.timer.admission import TimerRules
from rocketeer.broker.features.timer.feature import timer_feature
from rocketeer.broker.features.timer.recall import RecallRules
from rocketeer.broker.features.transaction.check_back import CheckRules
from rocketeer.broker.features.transaction.feature import transaction_feature
from rocketeer.broker.followed_tables import followed_tables
from rocketeer.broker.live_config import LiveConfig
from rocketeer.broker.message_path import MessagePath
from rocketeer.broker.state import BrokerState
from rocketeer.config import BrokerConfig, BrokerRole, FlushMode, ServerConfig, StoreConfig
from rocketeer.record.delay_levels import DelayLevels
from rocketeer.replication.master import Master
from rocketeer.replication.receiver import Receiver
from rocketeer.security.access import AccessControl
from rocketeer.security.acl_files import AclFiles
from rocketeer.security.rules import BROKER_RULES


def all_features(
    state: BrokerState,
    broker: BrokerConfig,
    store: StoreConfig,
    server: ServerConfig,
    live: LiveConfig,
    role: GroupRole | None,
) -> tuple[list[Feature], MessagePath]:
    """In the order their guards, resends and rewrites apply in; and the path of messages, which is made of most."""
    follows = store.broker_role is BrokerRole.SLAVE
    flushes = store.flush_mode is FlushMode.SYNC_FLUSH and role is None  # in a group its leader sees to that

    def at_rest(feature: Feature) -> Feature:
        """On a slave a feature does nothing by itself: the master does its work, and its tables are copied."""
        if not follows:
            return feature
        return replace(feature, services=(), replays=(), state=(), needs=(), rolls=())

    features = [
        _access(state, broker, server),
        *_clients(state, broker),
        _idempotence(state, broker, store, follows=follows),
        at_rest(_retries(state, broker, store)),
        filtering_feature(state.filtering),
        at_rest(_transactions(state, broker, store)),
        _timers(state, broker, store, follows=follows),
        at_rest(_delays(state, store)),
        state.registration.feature(),
        *([disk_durability(state.store)] if flushes else []),
        table_feature(state.offsets, state.tables, state.store),
        *(_replication(state, store, server) if role is None else role.features),
    ]
    path = MessagePath(state, broker, store, features)
    features += [path.feature(), reply_feature(path.replies())]
    features += [*_reports(state, broker, features), Feature("settings", handlers=live.handlers())]
    if broker.fast_failure_enable:
        flow = FlowControl(
            WaitLimits.of(broker),
            page_cache_busy_ms=store.os_page_cache_busy_ms,
            longest_append_s=state.store.log.take_longest_append_s,
        )
        features.append(flow_feature(flow))
    return features, path


def _access(state: BrokerState, broker: BrokerConfig, server: ServerConfig) -> Feature:
    """Stands first: nothing is done for whom it does not let in. Raises ConfigError for files of no use."""
    if not broker.acl_enable:
        return no_access_control()
    identity = state.identity
    access = AccessFeature(
        AccessControl(
            BROKER_RULES,
            TopicsInLog(state.store),
            now_ms=state.clock.now_ms,
            trace_topic=broker.trace_topic,
            require_nonce=server.acl_require_nonce,
        ),
        AclFiles(server.acl_path, state.clock.now_ms),
        BrokerNames(identity.cluster, identity.broker_name, identity.address),
    )
    access.load()
    return access.feature()


def _clients(state: BrokerState, broker: BrokerConfig) -> list[Feature]:
    calls = MemberCalls(
        state.clients,
        topics=state.topics,
        offsets=state.offsets,
        store=state.store,
        broker_name=broker.broker_name,
    )
    management = management_features(
        clients=state.client_service,
        topics=state.topics,
        groups=state.groups,
        offsets=state.offsets,
        locks=state.locks,
        store=state.store,
        clock=state.clock,
        announce=state.registration.announce,
        persist=state.tables.save_changed,
        limits=broker.limits,
    )
    return [*management, members_feature(calls)]


def _idempotence(state: BrokerState, broker: BrokerConfig, store: StoreConfig, *, follows: bool) -> Feature:
    window = Window(
        ids=broker.idempotent_ids_max,
        numbers=broker.idempotent_window,
        places=broker.limits.producer_places,
        idle_ms=broker.idempotent_idle_hours * 3_600_000,
    )
    snapshots = Snapshots(
        window,
        state.store,
        state.clock,
        path=store.store_path / "config" / FILE_NAME,
        segment_bytes=store.segment_bytes,
    )
    return idempotence_feature(snapshots, follows=follows)


def _retries(state: BrokerState, broker: BrokerConfig, store: StoreConfig) -> Feature:
    send_back = SendBack(
        topics=state.topics,
        groups=state.groups,
        store=state.store,
        writer=state.writer,
        sent=SentBack(state.store, state.offsets),
        broker_ip=broker.host,
        broker_perm=broker.permission,
        counters=state.counters,
        timer_ms_max=store.timer_delay_s_max * 1000 if store.timer_enable else 0,
    )
    state.offsets.on_back.append(send_back.sent.set_back)
    return retry_feature(send_back)


def _transactions(state: BrokerState, broker: BrokerConfig, store: StoreConfig) -> Feature:
    return transaction_feature(
        store=state.store,
        clients=state.clients,
        topics=state.topics,
        offsets=state.offsets,
        writer=state.writer,
        clock=state.clock,
        rules=CheckRules.of(broker, store),
        store_host=state.store_host,
        broker_ip=broker.host,
        rejected=broker.reject_transactions,
        persist=state.tables.save_changed,
        counters=state.counters,
    )


def _timers(state: BrokerState, broker: BrokerConfig, store: StoreConfig, *, follows: bool) -> Feature:
    return timer_feature(
        TimerRules(store.timer_enable, store.timer_delay_s_max * 1000, store.timer_precision_ms),
        RecallRules(broker.recall_enable, broker.broker_name, broker.region_id),
        folder=store.store_path / "timer",
        flush_ms=store.timer_flush_ms,
        store=state.store,
        topics=state.topics,
        writer=state.writer,
        clock=state.clock,
        follows=follows,
    )


def _delays(state: BrokerState, store: StoreConfig) -> Feature:
    return delay_feature(
        DelayLevels.parse(store.delay_levels),
        state.clock,
        state.store,
        state.writer,
        save_every_s=store.flush_delay_offset_ms / 1000,
    )


def _replication(state: BrokerState, store: StoreConfig, server: ServerConfig) -> list[Feature]:
    """Of a master, which sends its log to slaves, or of a slave, which follows one."""
    if store.broker_role is not BrokerRole.SLAVE:
        master = Master(store, state.store.log, state.clock, host=server.bind_host, security=state.peers)
        state.store.on_grown.append(master.grown)
        return [master_feature(master, store.broker_role)]
    receiver = Receiver(store, state.store, state.clock, state.peers)
    followed = followed_tables(FollowedTables, state)

    def named(address: str, ha_address: str) -> None:
        followed.master_named(address)
        receiver.master_named(ha_address)

    state.registration.on_master.append(named)
    return [slave_feature(receiver), followed.feature()]


def _reports(state: BrokerState, broker: BrokerConfig, features: list[Feature]) -> list[Feature]:
    """What people and their tools ask for, and `features` tell of themselves."""
    administration, runtime = administration_feature(
        topics=state.topics,
        groups=state.groups,
        offsets=state.offsets,
        clients=state.clients,
        store=state.store,
        filters=state.filtering.table,
        recorder=state.recorder,
        config=broker,
        clock=state.clock,
        address=state.address,
        persist=state.tables.save_changed,
        queues_gone=state.forget_queues,
        others=[each for feature in features for each in feature.runtime_info],
    )
    metrics = metrics_feature(
        config=broker,
        recorder=state.recorder,
        store=state.store,
        topics=state.topics,
        groups=state.groups,
        offsets=state.offsets,
        clients=state.clients,
        permission=lambda: state.registration.permission,
        runtime=runtime.figures,
        clock=state.clock,
        address=state.address,
        others=[each for feature in features for each in feature.gauges],
        tls=state.tls,
    )
    return [administration, metrics]


def send_access(features: list[Feature]) -> AccessControl | None:
    """What applies the rules of the guards to plain sends; None where a guard has no such form."""
    guarded = [feature for feature in features if feature.guards]
    return guarded[0].send_access if len(guarded) == 1 else None
