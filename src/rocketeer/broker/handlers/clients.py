"""Clients come, stay and go: heartbeat (34), goodbye (35), who consumes (38), the check of a filter (46).

`ClientTable` decides who must hear of a change; here the notices (40) are sent.
"""

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence

from rocketeer.broker.clients import ClientIdentity, ClientTable, Notice, bytes_of
from rocketeer.broker.groups import ConsumerGroupTable
from rocketeer.broker.topics import TopicTable
from rocketeer.clock import Clock
from rocketeer.config import BrokerLimits
from rocketeer.errors import RequestRefused, RocketeerError
from rocketeer.model.subscription import TAG, Subscription
from rocketeer.model.topic import retry_topic
from rocketeer.protocol.bodies.clients import encoding_consumer_list
from rocketeer.protocol.bodies.heartbeat import (
    ConsumerData,
    HeartbeatParts,
    decode_client_check,
    opening_heartbeat,
)
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, reply, request
from rocketeer.protocol.headers.base import decode_header
from rocketeer.protocol.headers.clients import (
    ConsumerGroupHeader,
    UnregisterClientHeader,
)
from rocketeer.remoting.limits import busy_limit, over_limit
from rocketeer.remoting.router import Connection, Handler
from rocketeer.remoting.slices import in_slices, run_sliced
from rocketeer.steps import Steps

log = logging.getLogger(__name__)

UNIT_SUBSCRIPTION_FLAG = 2

CheckExpression = Callable[[str, str], None]
"""Takes (kind, expression): returns when messages can be filtered so, raises RocketeerError with why not."""


ConsumerSeen = Callable[[str, Sequence[Subscription]], Steps[None]]
"""Told a group and its subscriptions with every heartbeat; raises RequestRefused for one that cannot be served."""

NOTICES_A_STEP = 16
NAME_CHARS_MAX = 512
"""Longest name of a client, a group or a topic: twice the longest name of a group that a broker keeps."""
KIND_CHARS_MAX = 32
"""Longest name of a subscription's kind of expression: TAG, SQL92, or what some other broker takes."""
LANGUAGE_CHARS_MAX = 32


def refuse_expressions(kind: str, expression: str) -> None:
    """The answer of a broker that filters by tags only."""
    raise RequestRefused(
        ResponseCode.SYSTEM_ERROR, f"The broker does not support consumer to filter message by {kind:.40}"
    )


def _check_chars(what: str, texts: Iterable[str], most: int) -> None:
    longest = max(map(len, texts), default=0)
    if longest > most:
        raise RequestRefused(
            ResponseCode.SYSTEM_ERROR, f"{what} has {longest} characters, at most {most} are kept"
        )


class ClientService:
    """What heartbeats, goodbyes, closed connections and silence mean, and the notices that follow."""

    def __init__(
        self,
        clients: ClientTable[Connection],
        *,
        groups: ConsumerGroupTable,
        topics: TopicTable,
        clock: Clock,
        check_expression: CheckExpression = refuse_expressions,
        notices_enabled: bool = True,
        limits: BrokerLimits | None = None,
        on_consumer: Sequence[ConsumerSeen] = (),
    ) -> None:
        self._clients = clients
        self._groups = groups
        self._topics = topics
        self._clock = clock
        self._check_expression = check_expression
        self._limits = limits or BrokerLimits()
        self._unsent: OrderedDict[str, None] = OrderedDict()
        """Groups whose members are still to be told; a job sends the notices as long as there is one."""
        self._sending = False
        self._notices_enabled = notices_enabled
        self._on_consumer = on_consumer

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.HEART_BEAT: self.heartbeat,
            RequestCode.UNREGISTER_CLIENT: self.unregister,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self.consumer_list,
            RequestCode.CHECK_CLIENT_CONFIG: self.check_config,
        }

    def enable_notices(self, enabled: bool) -> None:
        """Whether members are told that others came or went, from now on."""
        self._notices_enabled = enabled

    # --- requests ----------------------------------------------------------------------------

    def heartbeat(self, command: Command, connection: Connection) -> Command | Awaitable[Command]:
        return run_sliced(self._heartbeat(command, connection))

    def _heartbeat(self, command: Command, connection: Connection) -> Steps[Command]:
        parts = yield from opening_heartbeat(command.body)
        self._check_heartbeat(parts, connection)
        consumers = yield from parts.reading_consumers()  # all of it is readable, or nothing of it counts
        language = command.language[:LANGUAGE_CHARS_MAX]
        identity = ClientIdentity(parts.client_id, language, command.version)
        now_ms = self._now_ms()
        refused: RequestRefused | None = None
        for consumer in consumers:
            try:
                self._consumer_heartbeat(consumer, connection, identity, now_ms)
                yield
                for seen in self._on_consumer:
                    yield from seen(consumer.group, consumer.subscriptions)
            except RequestRefused as refusal:
                refused = refusal  # said at the end: it must not cost the client its other groups
        for group in parts.producer_groups:
            self._clients.producer_heartbeat(group, connection, identity, now_ms=now_ms)
            yield
        if connection.closed:  # meanwhile: nobody would let go of its groups again
            for _ in self._clients.leaving(connection):
                yield
        if refused is not None:
            raise refused
        return reply(command)

    def _check_heartbeat(self, parts: HeartbeatParts, connection: Connection) -> None:
        limits = self._limits
        groups = parts.group_count
        if groups > limits.heartbeat_groups:
            raise over_limit(
                f"{groups} groups in a heartbeat", "limitHeartbeatGroups", limits.heartbeat_groups
            )
        if self._clients.memberships + groups > limits.client_groups and any(
            not self._clients.is_member(connection, group) for group in parts.group_names()
        ):
            raise busy_limit("groups of all connections", "limitClientGroups", limits.client_groups)
        _check_chars("a name in a heartbeat", (parts.client_id, *parts.group_names()), NAME_CHARS_MAX)
        subscriptions = parts.subscription_count
        if subscriptions > limits.heartbeat_subscriptions:
            what = f"{subscriptions} subscriptions in a heartbeat"
            raise over_limit(what, "limitHeartbeatSubscriptions", limits.heartbeat_subscriptions)
        topics, kinds = parts.topics_and_kinds()
        _check_chars("a topic in a heartbeat", topics, NAME_CHARS_MAX)
        _check_chars("an expressionType in a heartbeat", kinds, KIND_CHARS_MAX)
        if self._clients.group_count(connection) + groups > limits.connection_groups:
            fresh = sum(not self._clients.is_member(connection, group) for group in parts.group_names())
            if self._clients.group_count(connection) + fresh > limits.connection_groups:
                what = "groups of one connection"
                raise over_limit(what, "limitConnectionGroups", limits.connection_groups)

    def _consumer_heartbeat(
        self, consumer: ConsumerData, connection: Connection, identity: ClientIdentity, now_ms: int
    ) -> None:
        known = self._clients.consumer(consumer.group)
        most = self._limits.subscription_bytes
        others = self._clients.subscription_bytes - (0 if known is None else known.subscription_bytes)
        if others + bytes_of(consumer.subscriptions) > most:
            raise busy_limit("bytes of all groups' subscriptions", "limitSubscriptionBytes", most)
        if (
            known is not None
            and len(known.members) >= self._limits.group_members
            and connection not in known.members
        ):
            what = f"members of group {consumer.group}"
            raise busy_limit(what, "limitGroupMembers", self._limits.group_members)
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

    def consumer_list(self, command: Command, connection: Connection) -> Command | Awaitable[Command]:
        group = decode_header(ConsumerGroupHeader, command.ext).consumer_group
        info = self._clients.consumer(group)
        if info is None:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {group}")
        client_ids = info.client_ids()

        def steps() -> Steps[Command]:
            return reply(command, body=(yield from encoding_consumer_list(client_ids)))

        return run_sliced(steps())

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
        """Forget the clients of a closed connection; to be called for each that closes, for whatever reason."""
        run_sliced(self._leave(connection))

    def _leave(self, connection: Connection) -> Steps[None]:
        for notice in self._clients.leaving(connection):
            if notice is not None:
                self.notify((notice,))
            yield

    async def scan(self) -> None:
        """Close the connections of clients that have been silent for too long."""
        await in_slices(self._scanning())

    def _scanning(self) -> Steps[None]:
        dead, notices = yield from self._clients.expiring(self._now_ms())
        for connection in dead:
            connection.close("no heartbeat")
            yield
        for notice in notices:
            self.notify((notice,))
            yield

    def _now_ms(self) -> int:
        """Time that no clock adjustment moves: one must not make every client look dead."""
        return int(self._clock.monotonic_s() * 1000)

    def notify(self, notices: Iterable[Notice[Connection]]) -> None:
        """Tell the members of a changed group to rebalance, once for what changes in quick succession."""
        if not self._notices_enabled:
            return
        for notice in notices:
            self._unsent[notice.group] = None
        if self._unsent and not self._sending:
            self._sending = True
            run_sliced(self._send_notices())

    def _send_notices(self) -> Steps[None]:
        try:
            while self._unsent:
                group, _ = self._unsent.popitem(last=False)
                info = self._clients.consumer(group)
                header = ConsumerGroupHeader(consumer_group=group)
                for number, connection in enumerate(() if info is None else list(info.members), 1):
                    connection.send(request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header, oneway=True))
                    if number % NOTICES_A_STEP == 0:
                        yield
                yield
        finally:
            self._sending = False
