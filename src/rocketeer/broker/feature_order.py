"""Which features a broker has, in the order they apply in; `assemble.py` puts together what they add."""

from collections.abc import Sequence
from dataclasses import replace

from rocketeer.broker.feature import Feature, GroupRole
from rocketeer.broker.features.delay.admission import delay_admission_feature
from rocketeer.broker.features.disk import disk_durability
from rocketeer.broker.features.filtering.feature import filtering_feature
from rocketeer.broker.features.replication.tables import table_feature
from rocketeer.broker.features.transaction.half_table import HalfTable
from rocketeer.broker.followed_tables import COPIED_FILES
from rocketeer.broker.live_config import LiveConfig
from rocketeer.broker.make_features import (
    make_access,
    make_clients,
    make_delays,
    make_filtering,
    make_flow,
    make_half_admission,
    make_idempotence,
    make_replication,
    make_replies,
    make_reports,
    make_retries,
    make_timer_admission,
    make_timers,
    make_transactions,
)
from rocketeer.broker.message_path import MessagePath
from rocketeer.broker.registration import Registration
from rocketeer.broker.state import BrokerState
from rocketeer.broker.writer import Writer
from rocketeer.config import BrokerConfig, BrokerRole, FlushMode, ServerConfig, StoreConfig
from rocketeer.record.delay_levels import DelayLevels
from rocketeer.security.access import AccessControl


def all_features(
    state: BrokerState,
    registration: Registration,
    broker: BrokerConfig,
    store: StoreConfig,
    server: ServerConfig,
    live: LiveConfig,
    role: GroupRole | None,
) -> tuple[list[Feature], MessagePath]:
    """Make every feature, in the order in which their guards, resends and rewrites apply, and the path of messages.

    First those that say what becomes of messages on their way into the log, then the writer, which is made of that,
    then those that store messages themselves.
    """
    follows = store.broker_role is BrokerRole.SLAVE
    flushes = store.flush_mode is FlushMode.SYNC_FLUSH and role is None  # in a group its leader sees to that

    def at_rest(feature: Feature) -> Feature:
        """On a slave a feature does nothing by itself: the master does its work, and its tables are copied."""
        if not follows:
            return feature
        return replace(feature, services=(), replays=(), state=(), needs=(), rolls=())

    halves = HalfTable(state.store, state.offsets)
    levels = DelayLevels.parse(store.delay_levels)
    admitting = [
        make_idempotence(state, broker, store, follows=follows),
        make_half_admission(halves, broker, store),
        *([] if follows else [make_timer_admission(state, store)]),
        delay_admission_feature(levels),
    ]
    durable = [
        *([disk_durability(state.store)] if flushes else []),
        *(make_replication(state, registration, store, server) if role is None else role.features),
    ]
    writer = _writer(state, store, [*admitting, *durable])
    filtering = make_filtering(state, broker)
    features = [
        make_access(state, broker, server),
        *make_clients(state, registration, broker, filtering),
        *admitting,
        at_rest(make_retries(state, writer, broker, store)),
        filtering_feature(filtering, state.store, bits=broker.filter_bitmap_enable),
        at_rest(make_transactions(state, writer, halves, broker, store)),
        make_timers(state, writer, broker, store, follows=follows),
        at_rest(make_delays(state, writer, levels, store)),
        registration.feature(),
        *durable,
        # Behind the role: it packs what that answers, too.
        table_feature(state.offsets, COPIED_FILES, state.tables, state.store),
    ]
    path = MessagePath(state, broker, store, filtering, features, writer)
    features += [path.feature(), make_replies(state, writer, broker, path)]
    features += [
        *make_reports(state, registration, broker, filtering, features),
        Feature("settings", handlers=live.handlers()),
    ]
    if broker.fast_failure_enable:
        features.append(make_flow(state, broker, store))
    check_known_to_writer(features, [*admitting, *durable])
    return features, path


def _writer(state: BrokerState, store: StoreConfig, features: list[Feature]) -> Writer:
    """The writer, which does with messages what these features say."""
    return Writer(
        state.store,
        message_bytes_max=store.message_bytes_max,
        counters=state.counters,
        resends=[each for feature in features for each in feature.resends],
        rewrites=[each for feature in features for each in feature.rewrites],
        durability=[each for feature in features for each in feature.durability],
    )


def check_known_to_writer(features: Sequence[Feature], known: Sequence[Feature]) -> None:
    """Assert that no feature has a say in how messages come into the log but those the writer was made of."""
    for feature in features:
        if feature not in known:
            says = feature.resends or feature.rewrites or feature.durability
            assert not says, f"the writer was made without {feature.name}"


def send_access(features: list[Feature]) -> AccessControl | None:
    """What applies the rules of the guards to plain sends; None where a guard has no such form."""
    guarded = [feature for feature in features if feature.guards]
    return guarded[0].send_access if len(guarded) == 1 else None
