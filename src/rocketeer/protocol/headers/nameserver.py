"""Headers the name server answers: KV config (100-102, 219), brokers (103, 104, 205, 322, 327), routes."""

from msgspec import field

from rocketeer.protocol.headers.base import I32, I64, Header


class PutKvConfigHeader(Header):
    """100 PUT_KV_CONFIG."""

    namespace: str
    key: str
    value: str


class KvKeyHeader(Header):
    """101 GET_KV_CONFIG, 102 DELETE_KV_CONFIG."""

    namespace: str
    key: str


class GetKvConfigReplyHeader(Header):
    """The reply to 101."""

    value: str | None = None


class GetKvListHeader(Header):
    """219 GET_KVLIST_BY_NAMESPACE."""

    namespace: str


class RegisterBrokerHeader(Header):
    """103 REGISTER_BROKER; `body_crc32` 0: the body is not checked."""

    broker_name: str
    broker_address: str = field(name="brokerAddr")
    cluster_name: str
    broker_id: I64
    ha_address: str | None = field(default=None, name="haServerAddr")
    compressed: bool = False
    body_crc32: I64 = 0
    group_epoch: I64 | None = field(default=None, name="rocketeerGroupEpoch")
    """Ours: of the leader of a group; a name server keeps the master of the higher one."""


class RegisterBrokerReplyHeader(Header):
    """The reply to 103: a slave learns its master here."""

    ha_address: str | None = field(default=None, name="haServerAddr")
    master_address: str | None = field(default=None, name="masterAddr")


class BrokerIdentityHeader(Header):
    """104 UNREGISTER_BROKER, 322 QUERY_DATA_VERSION."""

    broker_name: str
    broker_address: str = field(name="brokerAddr")
    cluster_name: str
    broker_id: I64


class QueryDataVersionReplyHeader(Header):
    """The reply to 322."""

    changed: bool


class GetRouteHeader(Header):
    """105 GET_ROUTEINFO_BY_TOPIC."""

    topic: str
    strict_json: bool = field(default=False, name="acceptStandardJsonOnly")


class BrokerNameHeader(Header):
    """205 WIPE_WRITE_PERM_OF_BROKER, 327 ADD_WRITE_PERM_OF_BROKER."""

    broker_name: str


class WipeWritePermReplyHeader(Header):
    """The reply to 205."""

    topics: I32 = field(name="wipeTopicCount")


class AddWritePermReplyHeader(Header):
    """The reply to 327."""

    topics: I32 = field(name="addTopicCount")


class DeleteTopicInNamesrvHeader(Header):
    """216 DELETE_TOPIC_IN_NAMESRV; without a cluster: in all."""

    topic: str
    cluster_name: str | None = None


class GetTopicsByClusterHeader(Header):
    """224 GET_TOPICS_BY_CLUSTER."""

    cluster: str
