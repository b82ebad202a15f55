"""Bodies that servers write and read in steps, at once."""

from collections.abc import Mapping

from rocketeer.model.route import BrokerData, Route
from rocketeer.protocol.bodies.consume_stats import (
    BrokerConsumeStats,
    ConsumeStats,
    encoding_broker_consume_stats,
    writing_consume_stats,
)
from rocketeer.protocol.bodies.heartbeat import Heartbeat, opening_heartbeat
from rocketeer.protocol.bodies.locks import LockRequest, opening_lock_request
from rocketeer.protocol.bodies.long_body import LongBody
from rocketeer.protocol.bodies.register import RegistrationBody, reading_registration
from rocketeer.protocol.bodies.route import encoding_cluster_info, encoding_route
from rocketeer.steps import finish


def encode_route(route: Route, *, strict: bool) -> bytes:
    return finish(encoding_route(route, strict=strict))


def encode_cluster_info(brokers: Mapping[str, BrokerData], clusters: Mapping[str, list[str]]) -> bytes:
    return finish(encoding_cluster_info(brokers.items(), clusters))


def decode_registration(body: bytes, *, compressed: bool = False) -> RegistrationBody:
    return finish(reading_registration(body, compressed=compressed))


def encode_consume_stats(stats: ConsumeStats) -> bytes:
    body = LongBody()
    finish(writing_consume_stats(body, stats.tps, stats.queues.items()))
    return body.whole()


def encode_broker_consume_stats(stats: BrokerConsumeStats) -> bytes:
    groups = (
        (group, [(each.tps, each.queues.items()) for each in topics])
        for group, topics in stats.groups.items()
    )
    return finish(encoding_broker_consume_stats(stats.broker_address, lambda: stats.total_lag, groups))


def decode_heartbeat(data: bytes) -> Heartbeat:
    parts = finish(opening_heartbeat(data))
    return Heartbeat(parts.client_id, tuple(parts.producer_groups), tuple(finish(parts.reading_consumers())))


def decode_lock_request(data: bytes) -> LockRequest:
    parts = finish(opening_lock_request(data))
    return LockRequest(parts.consumer_group, parts.client_id, frozenset(parts.queues(0, parts.queue_count)))
