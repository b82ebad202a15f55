"""The way messages go, in and out: `assemble.py` makes it from the state and from what the features add."""

import asyncio
from collections.abc import Awaitable, Sequence

from rocketeer.broker.fast_path import FastPath
from rocketeer.broker.feature import ConfigChange, Feature, Periodic
from rocketeer.broker.features.offset_moved import OffsetMovedEvents
from rocketeer.broker.features.reply import Replies
from rocketeer.broker.handlers.pull import PullHandler
from rocketeer.broker.handlers.query import QueryHandler
from rocketeer.broker.handlers.send import SendHandler
from rocketeer.broker.held_pulls import HeldPulls
from rocketeer.broker.plain_properties import PlainParser
from rocketeer.broker.plain_sends import AfterReads, PlainSends, can_send_in_bulk
from rocketeer.broker.pull import PullService
from rocketeer.broker.send import SendRules, SendService
from rocketeer.broker.state import BrokerState
from rocketeer.config import BrokerConfig, BrokerRole, StoreConfig
from rocketeer.engine.sends import StoredIds
from rocketeer.model.property_names import PRODUCER_ID
from rocketeer.model.topic import Perm
from rocketeer.remoting.router import Router
from rocketeer.remoting.slices import run_sliced
from rocketeer.security.access import AccessControl
from rocketeer.store.dispatch import Listener

HOLD_TICK_S = 0.05


class MessagePath:
    """Sends, pulls and queries: `feature` is how clients reach them; others need parts of the path itself."""

    def __init__(
        self, state: BrokerState, broker: BrokerConfig, store: StoreConfig, features: Sequence[Feature]
    ) -> None:
        """`features`: whose messages take the general path, and what becomes of messages there."""
        self._state = state
        self._broker = broker
        self._store_config = store
        dispatchers = [each for feature in features for each in feature.dispatchers]
        self._all_followed = any(each.each_queue for each in dispatchers)
        self._followed_topics = {topic for each in dispatchers for topic in each.topics}
        followed = [name for each in dispatchers for name in each.properties]
        claims = [name for feature in features for name in feature.claims]
        self._stored_ids = _stored_ids(features, followed)
        self._plain = PlainParser(broker.cluster_name, [*claims, *followed])
        for feature in features:
            state.writer.resends.extend(feature.resends)
            state.writer.rewrites.extend(feature.rewrites)
            state.writer.durability.extend(feature.durability)
        self._service = SendService(
            SendRules(
                broker.cluster_name,
                broker.host,
                broker.permission,
                store.message_bytes_max,
                broker.limits.batch_messages,
                broker.limits.other_batch_messages,
                broker.limits.batch_keys,
            ),
            topics=state.topics,
            groups=state.groups,
            writer=state.writer,
            plain=self._plain,
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
        arrived: Listener = self.holds.arrived
        if state.confirmed is not None:
            arrived = state.confirmed.listener(self.holds.waiting, arrived)
        state.store.listeners.append((self.holds.waiting, arrived))
        self._pull_service = PullService(
            state.store,
            topics=state.topics,
            groups=state.groups,
            clients=state.clients,
            filters=state.filtering,
            broker_ip=broker.host,
            broker_perm=broker.permission,
            tags_max=broker.limits.tags,
            slave_read_enable=broker.slave_read_enable,
        )
        self._pulls = self._pull_handler()

    def _pull_handler(self) -> PullHandler:
        state, broker = self._state, self._broker
        events = OffsetMovedEvents(
            writer=state.writer,
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
            self._pull_service.broker_perm = broker.permission

        def poll(broker: BrokerConfig, store: StoreConfig) -> None:
            self._pulls.set_polling(broker.long_polling_enable, broker.short_polling_ms)

        def end_held_pulls() -> Awaitable[None] | None:
            return run_sliced(self.holds.expiring(state.clock.monotonic_s()))

        return Feature(
            "messages",
            handlers={**self._sends.handlers(), **self._pulls.handlers(), **queries.handlers()},
            services=(Periodic("end held pulls", HOLD_TICK_S, end_held_pulls),),
            changes=(
                ConfigChange(("brokerPermission",), permit),
                ConfigChange(("longPollingEnable", "shortPollingTimeMills"), poll),
            ),
        )

    def replies(self) -> Replies:
        """Answers to requests that were messages take the same rules as sends."""
        state = self._state
        return Replies(
            state.clients,
            admit=self._service.admit,
            writer=state.writer,
            clock=state.clock,
            store_host=state.store_host,
            reply_ext=self._sends.ext,
            stored=self._broker.store_reply_enable,
        )

    def fast(self, router: Router, after_reads: AfterReads, access: AccessControl | None = None) -> FastPath:
        """The short way for plain sends and pulls; all else goes to the router.

        `access` applies the rules of the router's guards to many sends at once, if it can be done so.
        """
        state, limits = self._state, self._broker.limits
        sends = None
        extended = state.store.extension is not None
        followed = (router.guarded and access is None) or self._all_followed
        if not followed and can_send_in_bulk(state.store_host, extended_queues=extended):
            sends = PlainSends(
                router,
                topics=state.topics,
                followed_topics=self._followed_topics,
                store=state.store,
                store_host=state.store_host,
                writer=state.writer,
                plain=self._plain,
                reply_ext=self._sends.ext,
                clock=state.clock,
                message_bytes_max=self._store_config.message_bytes_max,
                batch_messages_max=limits.batch_messages,
                batch_keys_max=limits.batch_keys,
                after_reads=after_reads,
                counters=state.counters,
                access=access,
                stored_ids=self._stored_ids,
                named_batch_messages_max=limits.other_batch_messages,
            )
        return FastPath(router, sends, self._pulls, writable=bool(self._broker.permission & Perm.WRITE))


def _stored_ids(features: Sequence[Feature], followed: Sequence[str]) -> StoredIds | None:
    """What tells new ids from known ones in bulk; None where somebody else looks for resends or at producers, too."""
    examining = [feature for feature in features if feature.resends]
    if len(examining) != 1 or PRODUCER_ID in followed:
        return None
    return examining[0].stored_ids
