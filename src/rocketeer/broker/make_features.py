"""Makes each feature from the broker's state and configuration; `feature_order.py` says which, and in which order."""

from rocketeer.broker.feature import Feature
from rocketeer.broker.features.access.feature import access_feature, no_access_control
from rocketeer.broker.features.access.log_topics import TopicsInLog
from rocketeer.broker.features.access.requests import BrokerNames
from rocketeer.broker.features.administration.feature import administration_feature
from rocketeer.broker.features.delay.feature import delay_feature
from rocketeer.broker.features.filtering.feature import Filtering
from rocketeer.broker.features.filtering.filter_data import FilterTable
from rocketeer.broker.features.flow import FlowControl, WaitLimits, flow_feature
from rocketeer.broker.features.idempotence.feature import idempotence_feature
from rocketeer.broker.features.idempotence.resends import IdempotenceLimits
from rocketeer.broker.features.idempotence.snapshot import FILE_NAME, Snapshots
from rocketeer.broker.features.members.feature import members_feature
from rocketeer.broker.features.metrics.feature import metrics_feature
from rocketeer.broker.features.replication.master import master_feature
from rocketeer.broker.features.replication.slave import slave_feature
from rocketeer.broker.features.replication.tables import FollowedTables
from rocketeer.broker.features.reply import Replies, reply_feature
from rocketeer.broker.features.retry.feature import SendBack, retry_feature
from rocketeer.broker.features.retry.sent_back import SentBack
from rocketeer.broker.features.timer.admission import TimerRules, timer_admission_feature
from rocketeer.broker.features.timer.feature import timer_feature
from rocketeer.broker.features.timer.recall import RecallRules
from rocketeer.broker.features.transaction.admission import half_admission_feature
from rocketeer.broker.features.transaction.check_back import CheckRules
from rocketeer.broker.features.transaction.feature import transaction_feature
from rocketeer.broker.features.transaction.half_table import HalfTable
from rocketeer.broker.followed_tables import followed_tables
from rocketeer.broker.handlers.clients import ClientService
from rocketeer.broker.management import management_features
from rocketeer.broker.message_path import MessagePath
from rocketeer.broker.registration import Registration
from rocketeer.broker.state import BrokerState
from rocketeer.broker.writer import Writer
from rocketeer.config import BrokerConfig, BrokerRole, ServerConfig, StoreConfig
from rocketeer.filter.bloom import BloomFilter
from rocketeer.filter.sql_tokens import Bounds
from rocketeer.record.delay_levels import DelayLevels
from rocketeer.replication.master import Master
from rocketeer.replication.receiver import Receiver
from rocketeer.security.access import AccessControl
from rocketeer.security.acl_files import AclFiles
from rocketeer.security.rules import BROKER_RULES


def make_access(state: BrokerState, broker: BrokerConfig, server: ServerConfig) -> Feature:
    """The access-control feature, first in the order: nothing is done for a peer that it refuses. Raises
    ConfigError."""
    if not broker.acl_enable:
        return no_access_control()
    identity = state.identity
    return access_feature(
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


def make_filtering(state: BrokerState, broker: BrokerConfig) -> Filtering:
    bounds = Bounds(broker.limits.sql_chars, broker.limits.sql_terms)
    table = FilterTable(
        BloomFilter(broker.filter_error_percent, broker.filter_consumers),
        state.clock,
        keep_dead_ms=broker.filter_keep_dead_ms,
        bounds=bounds,
        chars_max=broker.limits.filter_chars,
    )
    return Filtering(
        table,
        state.clock,
        enabled=broker.property_filter_enable,
        retries=broker.filter_retry_enable,
        bounds=bounds,
    )


def make_clients(
    state: BrokerState, registration: Registration, broker: BrokerConfig, filtering: Filtering
) -> list[Feature]:
    clients = ClientService(
        state.clients,
        check_expression=filtering.check,
        groups=state.groups,
        topics=state.topics,
        clock=state.clock,
        notices_enabled=broker.notify_consumer_ids_changed_enable,
        limits=broker.limits,
        on_consumer=(filtering.consumer_seen,),
    )
    members = members_feature(
        state.clients,
        topics=state.topics,
        offsets=state.offsets,
        store=state.store,
        broker_name=broker.broker_name,
    )
    management = management_features(
        clients=clients,
        topics=state.topics,
        groups=state.groups,
        offsets=state.offsets,
        locks=state.locks,
        store=state.store,
        clock=state.clock,
        announce=registration.announce,
        persist=state.tables.save_changed,
        limits=broker.limits,
    )
    return [*management, members]


def make_idempotence(
    state: BrokerState, broker: BrokerConfig, store: StoreConfig, *, follows: bool
) -> Feature:
    window = IdempotenceLimits(
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


def make_retries(state: BrokerState, writer: Writer, broker: BrokerConfig, store: StoreConfig) -> Feature:
    send_back = SendBack(
        topics=state.topics,
        groups=state.groups,
        store=state.store,
        writer=writer,
        sent=SentBack(state.store, state.offsets),
        broker_ip=broker.host,
        broker_perm=broker.permission,
        counters=state.counters,
        timer_ms_max=store.timer_delay_s_max * 1000 if store.timer_enable else 0,
    )
    return retry_feature(send_back)


def make_half_admission(halves: HalfTable, broker: BrokerConfig, store: StoreConfig) -> Feature:
    return half_admission_feature(
        halves, CheckRules.of(broker, store), broker_ip=broker.host, rejected=broker.reject_transactions
    )


def make_transactions(
    state: BrokerState, writer: Writer, halves: HalfTable, broker: BrokerConfig, store: StoreConfig
) -> Feature:
    return transaction_feature(
        halves,
        store=state.store,
        clients=state.clients,
        topics=state.topics,
        writer=writer,
        clock=state.clock,
        rules=CheckRules.of(broker, store),
        store_host=state.store_host,
        persist=state.tables.save_changed,
        counters=state.counters,
    )


def make_timer_admission(state: BrokerState, store: StoreConfig) -> Feature:
    rules = TimerRules(store.timer_enable, store.timer_delay_s_max * 1000, store.timer_precision_ms)
    return timer_admission_feature(rules, state.clock)


def make_timers(
    state: BrokerState, writer: Writer, broker: BrokerConfig, store: StoreConfig, *, follows: bool
) -> Feature:
    return timer_feature(
        RecallRules(broker.recall_enable, broker.broker_name, broker.region_id),
        folder=store.store_path / "timer",
        flush_ms=store.timer_flush_ms,
        store=state.store,
        topics=state.topics,
        writer=writer,
        clock=state.clock,
        follows=follows,
    )


def make_delays(state: BrokerState, writer: Writer, levels: DelayLevels, store: StoreConfig) -> Feature:
    return delay_feature(
        levels, state.clock, state.store, writer, save_every_s=store.flush_delay_offset_ms / 1000
    )


def make_replication(
    state: BrokerState, registration: Registration, store: StoreConfig, server: ServerConfig
) -> list[Feature]:
    """The replication features: of a master, which sends its log to slaves, or of a slave, which follows one."""
    if store.broker_role is not BrokerRole.SLAVE:
        master = Master(store, state.store.log, state.clock, host=server.bind_host, security=state.peers)
        state.store.on_grown.append(master.log_grew)
        return [master_feature(master, store.broker_role)]
    receiver = Receiver(store, state.store, state.clock, state.peers)
    followed = followed_tables(FollowedTables, state)

    def named(address: str, ha_address: str) -> None:
        followed.master_named(address)
        receiver.master_named(ha_address)

    registration.on_master.append(named)
    return [slave_feature(receiver), followed.feature()]


def make_replies(state: BrokerState, writer: Writer, broker: BrokerConfig, path: MessagePath) -> Feature:
    """Answers to requests that were messages take the same rules as sends."""
    replies = Replies(
        state.clients,
        admit=path.admit,
        writer=writer,
        clock=state.clock,
        store_host=state.store_host,
        reply_ext=path.reply_ext,
        stored=broker.store_reply_enable,
    )
    return reply_feature(replies)


def make_reports(
    state: BrokerState,
    registration: Registration,
    broker: BrokerConfig,
    filtering: Filtering,
    features: list[Feature],
) -> list[Feature]:
    """The features for operators: administration and metrics; `features` add figures of their own."""
    administration, runtime = administration_feature(
        topics=state.topics,
        groups=state.groups,
        offsets=state.offsets,
        clients=state.clients,
        store=state.store,
        filters=filtering.table,
        recorder=state.recorder,
        config=broker,
        clock=state.clock,
        address=state.address,
        persist=state.tables.save_changed,
        internal_topics={topic for feature in features for topic in feature.internal_topics},
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
        permission=lambda: registration.permission,
        runtime=runtime.figures,
        clock=state.clock,
        address=state.address,
        others=[each for feature in features for each in feature.gauges],
        tls=state.tls,
    )
    return [administration, metrics]


def make_flow(state: BrokerState, broker: BrokerConfig, store: StoreConfig) -> Feature:
    flow = FlowControl(
        WaitLimits.of(broker),
        page_cache_busy_ms=store.os_page_cache_busy_ms,
        longest_append_s=state.store.log.take_longest_append_s,
    )
    return flow_feature(flow)
