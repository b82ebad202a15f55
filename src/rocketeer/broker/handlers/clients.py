"""Clients come, stay and go: heartbeat (34), goodbye (35), who consumes (38), the check of a filter (46).

`ClientTable` decides who must hear of a change; here the notices (40) are sent.
"""

import logging
from collections.abc import Callable, Iterable, Sequence

from rocketeer.broker.clients import ClientIdentity, ClientTable, Notice
from rocketeer.broker.groups import GroupTable
from rocketeer.broker.topics import TopicTable
from rocketeer.clock import Clock
from rocketeer.errors import RequestRefused, RocketeerError
from rocketeer.model.subscription import TAG, Subscription
from rocketeer.model.topic import retry_topic
from rocketeer.protocol.bodies.clients import encode_consumer_list
from rocketeer.protocol.bodies.heartbeat import ConsumerData, decode_client_check, decode_heartbeat
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, reply, request
from rocketeer.protocol.headers import (
    GetConsumerListHeader,
    NotifyConsumerIdsChangedHeader,
    UnregisterClientHeader,
    decode_header,
)
from rocketeer.remoting.server import Connection, Handler

log = logging.getLogger(__name__)

UNIT_SUBSCRIPTION_FLAG = 2

CheckExpression = Callable[[str, str], None]
"""Takes (kind, expression): returns when messages can be filtered so, raises RocketeerError with why not."""


ConsumerSeen = Callable[[str, Sequence[Subscription]], None]
"""Told a group and its subscriptions with every heartbeat; raises RequestRefused for one that cannot be served."""


def refuse_expressions(kind: str, expression: str) -> None:
    """The answer of a broker that filters by tags only."""
    raise RequestRefused(
        ResponseCode.SYSTEM_ERROR, f"The broker does not support consumer to filter message by {kind}"
    )


class ClientService:
    """What heartbeats, goodbyes, closed connections and silence mean, and the notices that follow."""

    def __init__(
        self,
        clients: ClientTable[Connection],
        *,
        groups: GroupTable,
        topics: TopicTable,
        clock: Clock,
        check_expression: CheckExpression = refuse_expressions,
        notices_enabled: bool = True,
    ) -> None:
        self._clients = clients
        self._groups = groups
        self._topics = topics
        self._clock = clock
        self._check_expression = check_expression
        self.notices_enabled = notices_enabled
        self.on_consumer: list[ConsumerSeen] = []

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.HEART_BEAT: self.heartbeat,
            RequestCode.UNREGISTER_CLIENT: self.unregister,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self.consumer_list,
            RequestCode.CHECK_CLIENT_CONFIG: self.check_config,
        }

    # --- requests ----------------------------------------------------------------------------

    def heartbeat(self, command: Command, connection: Connection) -> Command:
        beat = decode_heartbeat(command.body)
        identity = ClientIdentity(beat.client_id, command.language, command.version)
        now_ms = self._now_ms()
        refused: RequestRefused | None = None
        for consumer in beat.consumers:
            self._consumer_heartbeat(consumer, connection, identity, now_ms)
            try:
                for seen in self.on_consumer:
                    seen(consumer.group, consumer.subscriptions)
            except RequestRefused as refusal:
                refused = refusal  # said at the end: it must not cost the client its other groups
        for group in beat.producer_groups:
            self._clients.producer_heartbeat(group, connection, identity, now_ms=now_ms)
        if refused is not None:
            raise refused
        return reply(command)

    def _consumer_heartbeat(
        self, consumer: ConsumerData, connection: Connection, identity: ClientIdentity, now_ms: int
    ) -> None:
        settings = self._groups.get_or_create(consumer.group)
        if settings is not None:
            # Where a message that could not be consumed waits for its next try exists from now on.
            sys_flag = UNIT_SUBSCRIPTION_FLAG if consumer.unit_mode else 0
            topic = retry_topic(consumer.group)
            self._topics.create_in_send_back(topic, settings.retry_queues, sys_flag=sys_flag)
        notices = self._clients.consumer_heartbeat(
            consumer.group,
            connection,
            identity,
            consume_type=consumer.consume_type,
            message_model=consumer.message_model,
            consume_from_where=consumer.consume_from_where,
            subscriptions=consumer.subscriptions,
            now_ms=now_ms,
        )
        if notices:
            log.info("group changed group=%s client=%s remote=%s",
                     consumer.group, identity.client_id, connection.remote)  # fmt: skip
        if settings is None or settings.notify_consumer_ids_changed_enable:
            self.notify(notices)

    def unregister(self, command: Command, connection: Connection) -> Command:
        header = decode_header(UnregisterClientHeader, command.ext)
        if header.producer_group is not None:
            self._clients.unregister_producer(header.producer_group, connection)
        if header.consumer_group is not None:
            notices = self._clients.unregister_consumer(header.consumer_group, connection)
            settings = self._groups.get(header.consumer_group)
            if settings is None or settings.notify_consumer_ids_changed_enable:
                self.notify(notices)
        return reply(command)

    def consumer_list(self, command: Command, connection: Connection) -> Command:
        group = decode_header(GetConsumerListHeader, command.ext).consumer_group
        info = self._clients.consumer(group)
        if info is None:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {group}")
        return reply(command, body=encode_consumer_list(info.client_ids()))

    def check_config(self, command: Command, connection: Connection) -> Command:
        check = decode_client_check(command.body)
        if check.subscription.kind != TAG:
            try:
                self._check_expression(check.subscription.kind, check.subscription.expression)
            except RequestRefused:
                raise
            except RocketeerError as error:
                raise RequestRefused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)) from None
        return reply(command)

    # --- events ------------------------------------------------------------------------------

    def connection_closed(self, connection: Connection) -> None:
        """To be called for every connection that closes, for whatever reason."""
        self.notify(self._clients.connection_closed(connection))

    def scan(self) -> None:
        """Close the connections of clients that have been silent for too long."""
        dead, notices = self._clients.expire(self._now_ms())
        for connection in dead:
            connection.close("no heartbeat")
        self.notify(notices)

    def _now_ms(self) -> int:
        """Time that no clock adjustment moves: one must not make every client look dead."""
        return int(self._clock.monotonic_s() * 1000)

    def notify(self, notices: Iterable[Notice[Connection]]) -> None:
        """Tell the members of a changed group to rebalance."""
        if not self.notices_enabled:
            return
        for group, connections in notices:
            header = NotifyConsumerIdsChangedHeader(consumer_group=group)
            for connection in connections:
                connection.send(request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header, oneway=True))
