"""The way messages go, in and out: `assemble.py` makes it from the state and from what the features add."""

import asyncio
from collections.abc import Awaitable, Collection, Mapping, Sequence

from rocketeer.broker.feature import ConfigChange, Feature, Periodic
from rocketeer.broker.handlers.pull import PullHandler
from rocketeer.broker.handlers.query import QueryHandler
from rocketeer.broker.handlers.send import SendHandler
from rocketeer.broker.held_pulls import HeldPulls
from rocketeer.broker.offset_moved import OffsetMovedEvents
from rocketeer.broker.plain_properties import PlainParser
from rocketeer.broker.plain_sends import AfterReads, PlainSends, can_send_in_bulk
from rocketeer.broker.pull import PropertyFilters, PullService
from rocketeer.broker.request_processor import RequestProcessor
from rocketeer.broker.send import Admit, SendRules, SendService
from rocketeer.broker.state import BrokerState
from rocketeer.broker.writer import Writer
from rocketeer.config import BrokerConfig, BrokerRole, StoreConfig
from rocketeer.engine.sends import StoredIds
from rocketeer.model.property_names import PRODUCER_ID
from rocketeer.model.topic import Perm
from rocketeer.remoting.router import Router
from rocketeer.remoting.slices import run_sliced
from rocketeer.security.access import AccessControl
from rocketeer.store.dispatch import OnArrival, followed_by

HOLD_TICK_S = 0.05


class MessagePath:
    """Sends, pulls and queries: `feature` is how clients reach them; others need parts of the path itself."""

    def __init__(
        self,
        state: BrokerState,
        broker: BrokerConfig,
        store: StoreConfig,
        filters: PropertyFilters,
        features: Sequence[Feature],
        writer: Writer,
    ) -> None:
        """`features`: whose messages take the general path, and what becomes of messages there."""
        self._state = state
        self._writer = writer
        self._broker = broker
        self._store_config = store
        dispatchers = [each for feature in features for each in feature.dispatchers]
        self._followed = followed_by(dispatchers)
        claims = [name for feature in features for name in feature.claims]
        self._stored_ids = _stored_ids(features, self._followed.properties)
        self._plain = PlainParser(broker.cluster_name, [*claims, *self._followed.properties])
        self._send_rules = SendRules(
            broker.host,
            broker.permission,
            store.message_bytes_max,
            broker.limits.batch_messages,
            broker.limits.other_batch_messages,
            broker.limits.batch_keys,
        )
        self._service = SendService(
            self._send_rules,
            topics=state.topics,
            writer=writer,
            plain=self._plain,
            redirects=[each for feature in features for each in feature.redirects],
        )
        self._sends = SendHandler(
            self._service,
            store_host=state.store_host,
            region=broker.region_id,
            trace_on=broker.trace_on,
            counters=state.counters,
            fields=[field for feature in features for field in feature.reply_fields],
        )
        self.holds = HeldPulls(asyncio.get_running_loop().call_soon, run=run_sliced, limits=broker.limits)
        arrived: OnArrival = self.holds.arrived
        if state.store.confirmed is not None:
            arrived = state.store.confirmed.listener(self.holds.waiting, arrived)
        state.store.listeners.append((self.holds.waiting, arrived))
        self._pull_service = PullService(
            state.store,
            topics=state.topics,
            groups=state.groups,
            clients=state.clients,
            filters=filters,
            broker_ip=broker.host,
            broker_perm=broker.permission,
            tags_max=broker.limits.tags,
            slave_read_enable=broker.slave_read_enable,
        )
        self._pulls = self._pull_handler()

    def _pull_handler(self) -> PullHandler:
        state, broker = self._state, self._broker
        events = OffsetMovedEvents(
            writer=self._writer,
            clock=state.clock,
            broker_name=broker.broker_name,
            store_host=state.store_host,
        )
        return PullHandler(
            self._pull_service,
            holds=self.holds,
            offsets=state.offsets,
            clock=state.clock,
            offset_moved=events.record,
            long_polling=broker.long_polling_enable,
            short_polling_ms=broker.short_polling_ms,
            keeps_offsets=self._store_config.broker_role is not BrokerRole.SLAVE,
            counters=state.counters,
        )

    def feature(self) -> Feature:
        state = self._state
        queries = QueryHandler(
            state.store.lookup,
            unique_key_count_max=self._store_config.query_count_max,
            entries_max=self._broker.limits.query_entries,
        )

        def permit(broker: BrokerConfig, store: StoreConfig) -> None:
            self._service.set_permission(broker.permission)
            self._pull_service.set_permission(broker.permission)

        def poll(broker: BrokerConfig, store: StoreConfig) -> None:
            self._pulls.set_polling(broker.long_polling_enable, broker.short_polling_ms)

        def end_held_pulls() -> Awaitable[None] | None:
            return run_sliced(self.holds.expiring(state.clock.monotonic_s()))

        return Feature(
            "messages",
            handlers={**self._sends.handlers(), **self._pulls.handlers(), **queries.handlers()},
            on_close=(self.holds.forget,),
            services=(Periodic("end held pulls", HOLD_TICK_S, end_held_pulls),),
            changes=(
                ConfigChange(("brokerPermission",), permit),
                ConfigChange(("longPollingEnable", "shortPollingTimeMills"), poll),
            ),
        )

    @property
    def admit(self) -> Admit:
        """The rules every message must keep."""
        return self._service.admit

    @property
    def reply_ext(self) -> Mapping[str, str]:
        """What every reply to a send carries."""
        return self._sends.ext

    def processor(
        self, router: Router, after_reads: AfterReads, access: AccessControl | None = None
    ) -> RequestProcessor:
        """What takes all requests: plain sends and pulls in fewer steps, all else goes to the router.

        `access` applies the rules of the router's guards to many sends at once, if it can be done so.
        """
        state, sends = self._state, None
        extended = state.store.extension is not None
        followed = (router.guarded and access is None) or self._followed.each_queue
        if not followed and can_send_in_bulk(state.store_host, extended_queues=extended):
            sends = PlainSends(
                router,
                topics=state.topics,
                followed_topics=self._followed.topics,
                store=state.store,
                store_host=state.store_host,
                writer=self._writer,
                plain=self._plain,
                reply_ext=self._sends.ext,
                clock=state.clock,
                limits=self._send_rules,
                after_reads=after_reads,
                counters=state.counters,
                access=access,
                stored_ids=self._stored_ids,
            )
        return RequestProcessor(
            router, sends, self._pulls, writable=bool(self._broker.permission & Perm.WRITE)
        )


def _stored_ids(features: Sequence[Feature], followed: Collection[str]) -> StoredIds | None:
    """What tells new ids from known ones in bulk; None where somebody else looks for resends or at producers, too."""
    examining = [feature for feature in features if feature.resends]
    if len(examining) != 1 or PRODUCER_ID in followed:
        return None
    return examining[0].stored_ids
