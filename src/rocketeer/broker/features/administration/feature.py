"""What operators and their tools ask of a broker: how far all is, how it is, who is here; and cleaning up."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

from rocketeer.broker.clients import ClientTable
from rocketeer.broker.feature import Feature
from rocketeer.broker.features.administration.consume_queue import GroupFilters, consume_queue_handlers
from rocketeer.broker.features.administration.housekeeping import housekeeping_handlers
from rocketeer.broker.features.administration.offset_tables import OffsetTables
from rocketeer.broker.features.administration.producers import producer_handlers
from rocketeer.broker.features.administration.progress import ProgressHandlers
from rocketeer.broker.features.administration.runtime_info import RuntimeInfo
from rocketeer.broker.groups import ConsumerGroupTable
from rocketeer.broker.offsets import ConsumerOffsets
from rocketeer.broker.topics import TopicTable
from rocketeer.clock import Clock
from rocketeer.config import BrokerConfig
from rocketeer.config.settings import effective_properties
from rocketeer.observe.recorder import Recorder
from rocketeer.remoting.connection import Connection
from rocketeer.store.message_store import MessageStore


def administration_feature(
    *,
    topics: TopicTable,
    groups: ConsumerGroupTable,
    offsets: ConsumerOffsets,
    clients: ClientTable[Connection],
    store: MessageStore,
    filters: GroupFilters,
    recorder: Recorder,
    config: BrokerConfig,
    clock: Clock,
    address: str,
    persist: Callable[[], Awaitable[None]],
    internal_topics: Collection[str],
    queues_gone: Callable[[], None],
    others: Iterable[Callable[[], Mapping[str, str]]],
) -> tuple[Feature, RuntimeInfo]:
    """`others` are what the other features tell of themselves; see the handlers for the rest."""
    progress = ProgressHandlers(
        topics=topics,
        groups=groups,
        offsets=offsets,
        clients=clients,
        queues=store,
        rates=recorder,
        clock=clock,
        broker_name=config.broker_name,
        address=address,
    )
    tables = OffsetTables(offsets, topics=topics, clients=clients, queues=store, persist=persist)
    runtime = RuntimeInfo(
        recorder,
        store,
        effective_properties(config),
        clock,
        log_folder=store.config.commit_log_path,
        others=tuple(others),
    )
    feature = Feature(
        "administration",
        handlers={
            **progress.handlers(),
            **tables.handlers(),
            **runtime.handlers(),
            **producer_handlers(clients, clock),
            **consume_queue_handlers(store.read_queues, clients, filters),
            **housekeeping_handlers(store, topics, internal_topics, queues_gone),
        },
    )
    return feature, runtime
