"""What one request, one connection and everybody together may cost: keys of our own, all begin with `limit`.

The defaults are far above what honest clients need; what is beyond a limit is refused with its key in the text.
docs/limits.md explains each.
"""

from dataclasses import dataclass, field
from typing import Any


def _limit(key: str, default: int, *, least: int = 1, most: int = 2**31 - 1) -> Any:
    return field(default=default, metadata={"java": key, "least": least, "most": most})


@dataclass(frozen=True, kw_only=True)
class ServerLimits:
    """Limits of every server: what is taken from the network before anybody looks at it."""

    header_bytes: int = _limit("limitHeaderBytes", 256 << 10, least=64 << 10)
    request_bytes: int = _limit("limitRequestBytes", 1 << 20, least=64 << 10)
    """The body of a request that carries neither messages nor a registration."""
    settings_bytes: int = _limit("limitSettingsBytes", 16 << 10, least=1 << 10)
    """The body of a request that changes settings."""
    unfinished_bytes: int = _limit("limitUnfinishedBytes", 256 << 20, least=16 << 20)
    """Bytes of all frames that have begun and not ended, together."""
    unread_bytes: int = _limit("limitUnreadBytes", 256 << 20, least=16 << 20)
    """Bytes of all replies that were written and not taken by their peers, together."""
    requests_under_way: int = _limit("limitRequestsUnderWay", 4_096)
    """Requests of one connection whose answer takes a while."""
    bytes_under_way: int = _limit("limitBytesUnderWay", 256 << 20, least=16 << 20)
    """Memory of the requests of all connections whose answer takes a while, 4 KB each at least."""
    tls_handshakes: int = _limit("limitTlsHandshakes", 64)
    """TLS handshakes under way at a time; others wait."""


@dataclass(frozen=True, kw_only=True)
class BrokerLimits:
    """Limits of a broker: what requests may ask for, and what may pile up."""

    heartbeat_bytes: int = _limit("limitHeartbeatBytes", 1 << 20, least=1 << 10)
    heartbeat_groups: int = _limit("limitHeartbeatGroups", 1_000)
    heartbeat_subscriptions: int = _limit("limitHeartbeatSubscriptions", 5_000)
    connection_groups: int = _limit("limitConnectionGroups", 2_000)
    client_groups: int = _limit("limitClientGroups", 500_000)
    """Groups that all connections together speak for."""
    group_members: int = _limit("limitGroupMembers", 10_000)
    held_pulls: int = _limit("limitHeldPulls", 200_000)
    connection_held_pulls: int = _limit("limitConnectionHeldPulls", 20_000)
    request_queues: int = _limit("limitRequestQueues", 4_096)
    queue_locks: int = _limit("limitQueueLocks", 200_000)
    auto_topics_per_minute: int = _limit("limitAutoTopicsPerMinute", 6_000)
    topics: int = _limit("limitTopics", 100_000)
    """Beyond it no topic appears by itself; administrators may make more."""
    groups: int = _limit("limitGroups", 100_000)
    offsets: int = _limit("limitConsumerOffsets", 1_000_000)
    offset_pairs: int = _limit("limitConsumerOffsetPairs", 300_000)
    """Pairs of a topic and a group that has offsets there."""
    offset_chars: int = _limit("limitConsumerOffsetChars", 128 << 20, least=1 << 20)
    """Characters of the names of topics and groups that have offsets."""
    subscription_bytes: int = _limit("limitSubscriptionBytes", 128 << 20, least=1 << 20)
    """What the subscriptions of all groups that are here take."""
    filter_chars: int = _limit("limitFilterChars", 4 << 20, least=64 << 10)
    """Characters of the SQL92 expressions of all groups, also of those that left within a day."""
    held_chars: int = _limit("limitHeldChars", 1 << 20, least=64 << 10)
    """Characters of the different expressions that held pulls wait with."""
    sql_chars: int = _limit("limitSqlChars", 16 << 10)
    sql_terms: int = _limit("limitSqlTerms", 1_024)
    tags: int = _limit("limitSubscriptionTags", 4_096)
    batch_messages: int = _limit("limitBatchMessages", 16_384)
    other_batch_messages: int = _limit("limitOtherBatchMessages", 2_048)
    batch_keys: int = _limit("limitBatchKeys", 65_536)
    producer_places: int = _limit("limitProducerPlaces", 16 << 20, least=1 << 10)
    """Where numbered messages of idempotent producers lie, of all together."""
    query_entries: int = _limit("limitQueryEntries", 200_000)
    half_messages: int = _limit("limitHalfMessages", 300_000)
    """Half messages of transactions that have not ended."""
    half_bytes: int = _limit("limitHalfBytes", 1 << 30, least=16 << 20, most=1 << 40)
    """Bytes that half messages take in the log."""


@dataclass(frozen=True, kw_only=True)
class NamesrvLimits:
    """Limits of a name server: what brokers may register, and what is kept for administrators."""

    registration_bytes: int = _limit("limitRegistrationBytes", 8 << 20, least=1 << 20)
    brokers: int = _limit("limitBrokers", 2_000)
    routes: int = _limit("limitRoutes", 1_000_000)
    """Pairs of a topic and a broker that has it."""
    topics: int = _limit("limitRouteTopics", 300_000)
    """Different topics that the brokers have, all together."""
    kv_entries: int = _limit("limitKvEntries", 20_000)
    kv_bytes: int = _limit("limitKvBytes", 2 << 20)
    """Characters of their namespaces, keys and values."""
