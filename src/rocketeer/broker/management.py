"""Everything a broker does beside moving messages: clients, offsets, topics, groups and queue locks."""

from collections.abc import Awaitable, Callable

from rocketeer.broker.feature import ConfigChange, Feature, Periodic
from rocketeer.broker.groups import ConsumerGroupTable
from rocketeer.broker.handlers.clients import ClientService
from rocketeer.broker.handlers.groups import group_handlers
from rocketeer.broker.handlers.locks import lock_handlers, lock_time_ms
from rocketeer.broker.handlers.offsets import offset_handlers
from rocketeer.broker.handlers.topics import topic_handlers
from rocketeer.broker.locks import QueueLockTable
from rocketeer.broker.offsets import ConsumerOffsets
from rocketeer.broker.topics import TopicTable
from rocketeer.clock import Clock
from rocketeer.config import BrokerConfig, BrokerLimits, StoreConfig
from rocketeer.model.topic import TopicConfig
from rocketeer.remoting.slices import in_slices
from rocketeer.store.message_store import MessageStore

CLIENT_SCAN_S = 10.0
LOCK_SCAN_S = 60.0


def management_features(
    *,
    clients: ClientService,
    topics: TopicTable,
    groups: ConsumerGroupTable,
    offsets: ConsumerOffsets,
    locks: QueueLockTable,
    store: MessageStore,
    clock: Clock,
    announce: Callable[[TopicConfig], Awaitable[None]],
    persist: Callable[[], Awaitable[None]],
    limits: BrokerLimits | None = None,
) -> list[Feature]:
    """The features in a written order; their `state` is what must be on disk after a restart.

    `persist` brings what changed of it there now: an administrator's change outlives a crash right after it.
    """

    async def forget_locks() -> None:
        await in_slices(locks.forgetting_expired(lock_time_ms(clock)))

    def set_notices(broker: BrokerConfig, store: StoreConfig) -> None:
        clients.enable_notices(broker.notify_consumer_ids_changed_enable)

    return [
        Feature(
            "clients",
            handlers=clients.handlers(),
            on_close=(clients.connection_closed,),
            services=(Periodic("scan clients", CLIENT_SCAN_S, clients.scan),),
            changes=(ConfigChange(("notifyConsumerIdsChangedEnable",), set_notices),),
        ),
        Feature("offsets", handlers=offset_handlers(offsets, store), state=(offsets,)),
        Feature(
            "topics",
            handlers=topic_handlers(topics, store, announce, persist),
            state=(topics,),
        ),
        Feature("groups", handlers=group_handlers(groups, offsets, persist), state=(groups,)),
        Feature(
            "queue locks",
            handlers=lock_handlers(locks, clock, limits),
            services=(Periodic("forget expired locks", LOCK_SCAN_S, forget_locks),),
        ),
    ]
