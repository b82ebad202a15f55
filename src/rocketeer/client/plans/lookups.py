"""Finding messages: by id, by key and time, by place in a queue; asked of every broker that has the topic.

Brokers look keys up by their hash, so what they find is compared here: another key of the same hash is left out.
"""

from typing import Final

from rocketeer.client.core.config import ClientConfig
from rocketeer.client.core.received import ReceivedMessage, split_messages
from rocketeer.client.plans.brokers import ClusterRoutes
from rocketeer.client.plans.effects import Plan
from rocketeer.client.plans.pull import PullSettings, pull
from rocketeer.client.plans.queries import FOREVER_MS, query_records
from rocketeer.client.plans.reading import checked_place
from rocketeer.client.plans.replies import ask
from rocketeer.client.plans.routes import ask_nameservers, find_route
from rocketeer.clock import Clock
from rocketeer.errors import BadMessageId, BrokerRefused, MessageNotFound, RemotingError
from rocketeer.model.offsets import LogOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.model.route import MASTER_ID
from rocketeer.model.subscription import Subscription
from rocketeer.protocol.bodies.route import decode_cluster_info
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import request
from rocketeer.protocol.headers.query import ViewMessageHeader
from rocketeer.record.hosts import host_text
from rocketeer.record.ids import decode_uniq_key_time, parse_offset_msg_id

COUNT_MAX: Final = 64
EARLIER_MS: Final = 1000
"""Clocks differ: a message may have been stored a little before its id was made."""


class Lookups:
    """One client's view of what is stored; keeps no state, so threads may share it."""

    def __init__(self, config: ClientConfig, cluster: ClusterRoutes, clock: Clock) -> None:
        self._config = config
        self._cluster = cluster
        self._clock = clock

    def view(self, message_id: str, topic: str | None = None) -> Plan[ReceivedMessage]:
        """The message of an offset id, or with `topic` also of the id its sender gave; raises MessageNotFound."""
        if topic is not None:
            found = yield from self._by_unique_key(topic, message_id)
            if found is not None:
                return found
        try:
            host, log_offset = parse_offset_msg_id(message_id)
        except BadMessageId as error:
            missing = f"no message with id {message_id} in topic {topic!r}"
            raise MessageNotFound(str(error) if topic is None else missing) from None
        address = host_text(host)
        name = self._broker_at(address)
        if topic is not None and not name:
            # A sender's id looks like an offset id; taken for one, it would name a machine that is no broker.
            raise MessageNotFound(f"no message with id {message_id} in topic {topic!r}")
        command = request(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageHeader(log_offset))
        try:
            reply = yield from ask(address, command, self._cluster.timeout_s)
        except BrokerRefused as error:
            raise MessageNotFound(f"no message with id {message_id}: {error}") from None
        except RemotingError:
            found = yield from self._elsewhere(message_id, log_offset, address)
            if found is None:
                raise
            return found
        messages = self._split(reply.body, name)
        if not messages:
            raise MessageNotFound(f"no message with id {message_id}: broker {address} sent none")
        return messages[0]

    def _elsewhere(self, message_id: str, log_offset: LogOffset, gone: str) -> Plan[ReceivedMessage | None]:
        """Ask another member of the broker's group for the message: all members have it at the same log offset."""
        command = request(RequestCode.GET_BROKER_CLUSTER_INFO)
        answer = yield from ask_nameservers(self._cluster.nameservers, command, self._cluster.timeout_s)
        for name, broker in decode_cluster_info(answer.body).brokers.items():
            for address in broker.addresses.values():
                if address == gone:
                    continue
                view = request(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageHeader(log_offset))
                try:
                    reply = yield from ask(address, view, self._cluster.timeout_s)
                except (BrokerRefused, RemotingError):
                    continue
                for message in self._split(reply.body, name):
                    if message.offset_message_id == message_id:
                        return message
        return None

    def query(
        self,
        topic: str,
        key: str,
        *,
        begin_ms: int = 0,
        end_ms: int = FOREVER_MS,
        max_count: int = COUNT_MAX,
    ) -> Plan[list[ReceivedMessage]]:
        """The messages with this key stored between the two times, oldest first; at most `max_count` per broker."""
        full = self._config.full_topic(topic)
        found = yield from self._ask_all(full, key, begin_ms, end_ms, max_count, unique=False)
        return [each for each in found if each.stored_topic == full and key in each.keys]

    def all_with_id(self, topic: str, message_id: str) -> Plan[tuple[ReceivedMessage, ...]]:
        """Everything stored under an id its sender gave, oldest first."""
        full = self._config.full_topic(topic)
        try:
            begin_ms = decode_uniq_key_time(message_id, self._clock.now_ms()) - EARLIER_MS
        except BadMessageId:
            begin_ms = 0
        found = yield from self._ask_all(full, message_id, begin_ms, FOREVER_MS, COUNT_MAX, unique=True)
        return tuple(each for each in found if each.stored_topic == full and each.message_id == message_id)

    def message_at(self, queue: MessageQueue, offset: int) -> Plan[ReceivedMessage]:
        """The message at a place in a queue; raises MessageNotFound when it holds none (any more, or yet)."""
        place = checked_place(queue, offset)
        full = self._config.full_topic(queue.topic)
        inner = MessageQueue(full, queue.broker_name, queue.queue_id)
        settings = PullSettings(
            self._config.full_group, max_count=1, hold_s=0.0, namespace=self._config.namespace
        )
        result = yield from pull(settings, self._cluster, inner, place, Subscription(full))
        for message in result.messages:
            if message.queue_offset == offset:
                return message
        raise MessageNotFound(
            f"no message at offset {offset} of {queue}: it holds {result.min_offset} .. {result.max_offset - 1}"
        )

    # --- brokers -----------------------------------------------------------------------------

    def _by_unique_key(self, topic: str, message_id: str) -> Plan[ReceivedMessage | None]:
        """The first that was stored: one that was sent twice is the same message."""
        found = yield from self.all_with_id(topic, message_id)
        return found[0] if found else None

    def _ask_all(
        self, topic: str, key: str, begin_ms: int, end_ms: int, max_count: int, *, unique: bool
    ) -> Plan[list[ReceivedMessage]]:
        routes, nameservers, timeout_s = self._cluster
        known = yield from find_route(topic, routes, nameservers, timeout_s)
        found: list[ReceivedMessage] = []
        failure: Exception | None = None
        answered = False
        for broker in known.route.brokers:
            where = routes.address(broker.broker_name, MASTER_ID)
            if where is None:
                continue
            try:
                body = yield from query_records(
                    where.address,
                    topic,
                    key,
                    timeout_s,
                    max_count=max_count,
                    begin_ms=begin_ms,
                    end_ms=end_ms,
                    unique_key=unique,
                )
            except (RemotingError, BrokerRefused) as error:
                failure = error  # another broker may have it
                continue
            answered = True
            found += self._split(body, broker.broker_name)
        if not answered and failure is not None:
            raise failure
        return sorted(found, key=lambda message: message.store_ms)

    def _split(self, body: bytes, broker_name: str) -> list[ReceivedMessage]:
        messages = split_messages(body, MessageQueue("", broker_name, 0), namespace=self._config.namespace)
        for message in messages:
            message.queue = MessageQueue(message.stored_topic, broker_name, message.stored_queue_id)
        return messages

    def _broker_at(self, address: str) -> str:
        brokers = self._cluster.routes.brokers().items()
        return next((name for name, addresses in brokers if address in addresses.values()), "")
