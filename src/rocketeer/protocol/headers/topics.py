"""Headers about topics and groups in a broker: create (17), delete (215, 207), figures about them."""

from msgspec import field

from rocketeer.protocol.headers.base import I32, I64, Header


class CreateTopicHeader(Header):
    """17 UPDATE_AND_CREATE_TOPIC."""

    topic: str
    read_queues: I32 = field(name="readQueueNums")
    write_queues: I32 = field(name="writeQueueNums")
    perm: I32
    default_topic: str | None = None
    filter_type: str | None = field(default=None, name="topicFilterType")
    sys_flag: I32 | None = field(default=None, name="topicSysFlag")
    order: bool = False


class TopicHeader(Header):
    """215 DELETE_TOPIC_IN_BROKER, 202 GET_TOPIC_STATS_INFO, 300 QUERY_TOPIC_CONSUME_BY_WHO."""

    topic: str


class DeleteSubscriptionGroupHeader(Header):
    """207 DELETE_SUBSCRIPTIONGROUP; 5.x says cleanOffset for removeOffset."""

    group_name: str
    remove_offset: bool = False
    clean_offset: bool = False


class GetConsumeStatsHeader(Header):
    """208 GET_CONSUME_STATS; without a topic: all of the group's."""

    consumer_group: str
    topic: str | None = None


class QueryConsumeTimeSpanHeader(Header):
    """303 QUERY_CONSUME_TIME_SPAN."""

    topic: str
    group: str


class QueryConsumeQueueHeader(Header):
    """321 QUERY_CONSUME_QUEUE."""

    topic: str
    queue_id: I32 = 0
    index: I64 = 0
    count: I32 = 0
    consumer_group: str | None = None
