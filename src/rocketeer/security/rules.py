"""What each request needs: one rule for every request code that a server answers. A code without one fails at start.

4.9.8 asks only for a valid key where these rules ask for more: batches (320), ends of transactions (37), offsets (14,
29-32), messages by id (33) and sent back (36: there whoever has a group gets the messages of any topic into it), and
whatever only tools ask for (there: anybody with a key; here: admins).
"""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Final, NamedTuple, Protocol, TypeVar

from rocketeer.errors import RocketeerError
from rocketeer.model.offsets import LogOffset
from rocketeer.model.topic import DLQ_PREFIX, RETRY_PREFIX
from rocketeer.protocol.bodies.heartbeat import decode_client_check, opening_heartbeat
from rocketeer.protocol.bodies.locks import opening_lock_request
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import Command
from rocketeer.protocol.headers.base import Header, decode_header
from rocketeer.protocol.headers.query import ViewMessageHeader
from rocketeer.protocol.headers.send import ConsumerSendMsgBackHeader
from rocketeer.protocol.headers.transaction import EndTransactionHeader
from rocketeer.security.accounts import Permission
from rocketeer.steps import Steps

H = TypeVar("H", bound=Header)


class Scope(Enum):
    """Needs that name no topic and no group."""

    SIGNED_IN = "any account"
    ADMIN = "an admin"


class RequiredPermission(NamedTuple):
    """PUB or SUB on a topic, or on a group."""

    is_group: bool
    name: str
    permission: Permission


Needs = Scope | tuple[RequiredPermission, ...]


class TopicOfMessage(Protocol):
    """What rules ask of the store: requests that name a place in the log instead of a topic."""

    def topic_at(self, log_offset: LogOffset) -> str | None:
        """The topic a message was sent to (of a half message: the one it is for); None if there is none."""
        ...


Rule = Callable[[Command, TopicOfMessage], Needs | Steps[Needs]]
"""In steps, where it looks at a body."""
LOCKS_AT_ONCE: Final = 64


def topic_need(topic: str, permission: Permission) -> RequiredPermission:
    """A retry topic and a dead letter topic belong to their group: who may consume may use them."""
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if topic.startswith(prefix):
            return RequiredPermission(True, topic.removeprefix(prefix), Permission.SUB)
    return RequiredPermission(False, topic, permission)


def _pub(field: str) -> Rule:
    return lambda command, stored: (topic_need(_field(command, field), Permission.PUB),)


def _sub(*, topic: str | None = None, groups: Iterable[str] = ()) -> Rule:
    """SUB on what these fields of the header name; fields that are missing name nothing."""

    def rule(command: Command, stored: TopicOfMessage) -> Needs:
        needs = [
            RequiredPermission(True, _field(command, name), Permission.SUB)
            for name in groups
            if name in command.ext
        ]
        if topic is not None:
            needs.append(topic_need(_field(command, topic), Permission.SUB))
        return tuple(needs) or Scope.SIGNED_IN

    return rule


def _heartbeat(command: Command, stored: TopicOfMessage) -> Steps[Needs]:
    needs: dict[RequiredPermission, None] = {}
    parts = yield from opening_heartbeat(command.body)
    for consumer in (yield from parts.reading_consumers()):
        needs[RequiredPermission(True, consumer.group, Permission.SUB)] = None
        for subscription in consumer.subscriptions:
            needs[topic_need(subscription.topic, Permission.SUB)] = None
            yield
        yield
    return tuple(needs) or Scope.SIGNED_IN


def _locks(command: Command, stored: TopicOfMessage) -> Steps[Needs]:
    parts = yield from opening_lock_request(command.body)
    topics: dict[str, None] = {}
    for start in range(0, parts.queue_count, LOCKS_AT_ONCE):
        topics.update((queue.topic, None) for queue in parts.queues(start, start + LOCKS_AT_ONCE))
        yield
    needs = [RequiredPermission(True, parts.consumer_group, Permission.SUB)]
    for topic in topics:
        needs.append(topic_need(topic, Permission.SUB))
        yield
    return tuple(needs)


def _client_check(command: Command, stored: TopicOfMessage) -> Needs:
    check = decode_client_check(command.body)
    return RequiredPermission(True, check.group, Permission.SUB), topic_need(
        check.subscription.topic, Permission.SUB
    )


def _sequence(command: Command, stored: TopicOfMessage) -> Needs:
    """PUB on the topic; for topic `?`, which clients send to probe for the code, any signed-in account will do."""
    topic = _field(command, "topic")
    return Scope.SIGNED_IN if topic == "?" else (topic_need(topic, Permission.PUB),)


def _stored(kind: type[H], place: Callable[[H], int], permission: Permission) -> Rule:
    """On the topic of the message that lies there; where none lies the handler has nothing to give away.

    The place is read as the handler reads it: `+5` and `005` are 5.
    """

    def rule(command: Command, stored: TopicOfMessage) -> Needs:
        topic = stored.topic_at(LogOffset(place(decode_header(kind, command.ext))))
        return Scope.SIGNED_IN if topic is None else (topic_need(topic, permission),)

    return rule


def _sent_back(command: Command, stored: TopicOfMessage) -> Needs:
    """SUB on the group, which gets the message, and on the topic it is of."""
    header = decode_header(ConsumerSendMsgBackHeader, command.ext)
    group = RequiredPermission(True, header.group, Permission.SUB)
    topic = stored.topic_at(LogOffset(header.offset))
    return (group,) if topic is None else (group, topic_need(topic, Permission.SUB))


def _always(scope: Scope) -> Rule:
    return lambda command, stored: scope


def _field(command: Command, name: str) -> str:
    return command.ext.get(name, "")


def OPEN(command: Command, stored: TopicOfMessage) -> Needs:
    """Nobody has to sign in."""
    return ()


_ADMIN: Final = _always(Scope.ADMIN)
_SUB_TOPIC: Final = _sub(topic="topic")
_SUB_BOTH: Final = _sub(topic="topic", groups=("consumerGroup",))

BROKER_RULES: Final[Mapping[int, Rule]] = {
    RequestCode.SEND_MESSAGE: _pub("topic"),
    RequestCode.SEND_MESSAGE_V2: _pub("b"),
    RequestCode.SEND_BATCH_MESSAGE: _pub("b"),
    RequestCode.SEND_REPLY_MESSAGE: _pub("topic"),
    RequestCode.SEND_REPLY_MESSAGE_V2: _pub("b"),
    RequestCode.RECALL_MESSAGE: _pub("topic"),
    RequestCode.GET_PRODUCER_SEQUENCE: _sequence,
    RequestCode.END_TRANSACTION: _stored(
        EndTransactionHeader, lambda header: header.log_offset, Permission.PUB
    ),
    RequestCode.PULL_MESSAGE: _SUB_BOTH,
    RequestCode.QUERY_CONSUMER_OFFSET: _SUB_BOTH,
    RequestCode.UPDATE_CONSUMER_OFFSET: _SUB_BOTH,
    RequestCode.QUERY_MESSAGE: _SUB_TOPIC,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: _SUB_TOPIC,
    RequestCode.GET_MAX_OFFSET: _SUB_TOPIC,
    RequestCode.GET_MIN_OFFSET: _SUB_TOPIC,
    RequestCode.GET_EARLIEST_MSG_STORETIME: _SUB_TOPIC,
    RequestCode.VIEW_MESSAGE_BY_ID: _stored(ViewMessageHeader, lambda header: header.offset, Permission.SUB),
    RequestCode.HEART_BEAT: _heartbeat,
    RequestCode.CHECK_CLIENT_CONFIG: _client_check,
    RequestCode.UNREGISTER_CLIENT: _sub(groups=("consumerGroup",)),
    RequestCode.CONSUMER_SEND_MSG_BACK: _sent_back,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: _sub(groups=("consumerGroup",)),
    RequestCode.LOCK_BATCH_MQ: _locks,
    RequestCode.UNLOCK_BATCH_MQ: _locks,
    **dict.fromkeys(
        (
            RequestCode.UPDATE_AND_CREATE_TOPIC,
            RequestCode.GET_ALL_TOPIC_CONFIG,
            RequestCode.UPDATE_BROKER_CONFIG,
            RequestCode.GET_BROKER_CONFIG,
            RequestCode.GET_BROKER_RUNTIME_INFO,
            RequestCode.GET_ALL_CONSUMER_OFFSET,
            RequestCode.GET_ALL_DELAY_OFFSET,
            RequestCode.GET_BROKER_TABLE,
            RequestCode.GET_REPLICA_GROUP,
            RequestCode.SWITCH_LEADER,
            RequestCode.UPDATE_AND_CREATE_ACL_CONFIG,
            RequestCode.DELETE_ACL_CONFIG,
            RequestCode.GET_BROKER_CLUSTER_ACL_INFO,
            RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
            RequestCode.GET_TOPIC_STATS_INFO,
            RequestCode.GET_CONSUMER_CONNECTION_LIST,
            RequestCode.GET_PRODUCER_CONNECTION_LIST,
            RequestCode.DELETE_SUBSCRIPTIONGROUP,
            RequestCode.GET_CONSUME_STATS,
            RequestCode.DELETE_TOPIC_IN_BROKER,
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO,
            RequestCode.QUERY_CONSUME_TIME_SPAN,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
            RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
            RequestCode.GET_CONSUMER_RUNNING_INFO,
            RequestCode.QUERY_CORRECTION_OFFSET,
            RequestCode.CONSUME_MESSAGE_DIRECTLY,
            RequestCode.CLONE_GROUP_OFFSET,
            RequestCode.VIEW_BROKER_STATS_DATA,
            RequestCode.CLEAN_UNUSED_TOPIC,
            RequestCode.GET_BROKER_CONSUME_STATS,
            RequestCode.QUERY_CONSUME_QUEUE,
            RequestCode.RESUME_CHECK_HALF_MESSAGE,
            RequestCode.GET_ALL_PRODUCER_INFO,
            RequestCode.DELETE_EXPIRED_COMMITLOG,
        ),
        _ADMIN,
    ),
}

NAMESERVER_RULES: Final[Mapping[int, Rule]] = {
    RequestCode.GET_ROUTEINFO_BY_TOPIC: _always(Scope.SIGNED_IN),
    RequestCode.GET_BROKER_CLUSTER_INFO: _always(Scope.SIGNED_IN),
    RequestCode.GET_KV_CONFIG: _always(Scope.SIGNED_IN),
    **dict.fromkeys(
        (
            RequestCode.PUT_KV_CONFIG,
            RequestCode.DELETE_KV_CONFIG,
            RequestCode.GET_KVLIST_BY_NAMESPACE,
            RequestCode.REGISTER_BROKER,
            RequestCode.UNREGISTER_BROKER,
            RequestCode.QUERY_DATA_VERSION,
            RequestCode.WIPE_WRITE_PERM_OF_BROKER,
            RequestCode.ADD_WRITE_PERM_OF_BROKER,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
            RequestCode.DELETE_TOPIC_IN_NAMESRV,
            RequestCode.GET_TOPICS_BY_CLUSTER,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS,
            RequestCode.GET_UNIT_TOPIC_LIST,
            RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
            RequestCode.UPDATE_NAMESRV_CONFIG,
            RequestCode.GET_NAMESRV_CONFIG,
        ),
        _ADMIN,
    ),
}


class NothingStored:
    """For servers that keep no messages."""

    def topic_at(self, log_offset: LogOffset) -> str | None:
        return None


def nameserver_rules(*, open_routes: bool) -> Mapping[int, Rule]:
    """Stock clients do not sign in to name servers: with `open_routes` they need not, to find their brokers."""
    if not open_routes:
        return NAMESERVER_RULES
    return {**NAMESERVER_RULES, RequestCode.GET_ROUTEINFO_BY_TOPIC: OPEN}


def check_complete(codes: Iterable[int], rules: Mapping[int, Rule]) -> None:
    """Every code that is answered has a rule; an answer that nobody thought about is no answer."""
    missing = sorted(set(codes) - set(rules))
    if missing:
        raise RocketeerError(f"request codes without a rule of access: {missing}")
