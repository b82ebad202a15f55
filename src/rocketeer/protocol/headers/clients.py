"""Headers about connected clients: goodbye (35), who consumes (38, 40), running state (307, 309)."""

from msgspec import field

from rocketeer.protocol.headers.base import Header


class UnregisterClientHeader(Header):
    """35 UNREGISTER_CLIENT."""

    client_id: str = field(name="clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


class ConsumerGroupHeader(Header):
    """38 GET_CONSUMER_LIST_BY_GROUP, 203 GET_CONSUMER_CONNECTION_LIST, 40 NOTIFY_CONSUMER_IDS_CHANGED to clients."""

    consumer_group: str


class GetProducerConnectionsHeader(Header):
    """204 GET_PRODUCER_CONNECTION_LIST."""

    producer_group: str


class GetConsumerRunningInfoHeader(Header):
    """307 GET_CONSUMER_RUNNING_INFO (to the broker, which passes it on to the client)."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class ConsumeMessageDirectlyHeader(Header):
    """309 CONSUME_MESSAGE_DIRECTLY (to the broker, which passes it on to the client)."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
