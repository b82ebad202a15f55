"""Pulling messages of one queue: the request, and what the reply means.

A pull that finds nothing is held by the broker for `hold_s`; a consumer pulls again as soon as it is answered.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from rocketeer.client.core.received import ReceivedMessage, split_messages
from rocketeer.client.plans.brokers import ClusterRoutes, broker_of
from rocketeer.client.plans.effects import Call, Plan
from rocketeer.client.plans.replies import refused
from rocketeer.errors import BadHeader
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.model.subscription import SUB_ALL, TAG, Subscription
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, request

COMMIT_OFFSET: Final = 1
SUSPEND: Final = 2
SUBSCRIPTION: Final = 4
LITE_PULL: Final = 16

BULK_FIELD: Final = "rocketeerMaxBytes"
ANSWER_S: Final = 10.0
"""How much longer than the broker may hold a pull its answer may take."""


class PullStatus(Enum):
    """What a pull came back with."""

    FOUND = "FOUND"
    """The pull brought messages."""
    NO_NEW = "NO_NEW"
    """The queue has no message at that offset yet."""
    NO_MATCH = "NO_MATCH"
    """The queue has messages there, but none that the subscription asks for."""
    OFFSET_ILLEGAL = "OFFSET_ILLEGAL"
    """The queue has no such offset: too old, or beyond the end. `next_offset` is where to go on."""


PULL_STATUS: Final = {
    int(ResponseCode.SUCCESS): PullStatus.FOUND,
    int(ResponseCode.PULL_NOT_FOUND): PullStatus.NO_NEW,
    int(ResponseCode.PULL_RETRY_IMMEDIATELY): PullStatus.NO_MATCH,
    int(ResponseCode.PULL_OFFSET_MOVED): PullStatus.OFFSET_ILLEGAL,
}


class PullResult(NamedTuple):
    """The answer to one pull; the next one begins at `next_offset`."""

    status: PullStatus
    """Whether there are messages, or why not."""
    messages: Sequence[ReceivedMessage]
    """The messages that the subscription asks for, in their order."""
    next_offset: QueueOffset
    min_offset: QueueOffset
    """The first offset that the queue still has."""
    max_offset: QueueOffset
    """Where the next message of the queue will be."""
    broker_id: int
    """The broker to read from next: 0 the master, else a slave."""
    bulk: bool = False
    """The broker gives more than RocketMQ's caps, if it is asked for more."""
    told: bool = False
    """The broker has taken the offset that the pull carried."""


@dataclass(frozen=True, slots=True)
class PullSettings:
    """What all pulls of a consumer have in common."""

    group: str
    max_count: int = 32
    hold_s: float = 15.0
    namespace: str | None = None
    send_subscription: bool = True
    """The expression travels with every pull; otherwise the broker takes it from the heartbeat."""
    lite: bool = False


def pull_request(
    settings: PullSettings,
    queue: MessageQueue,
    offset: QueueOffset,
    subscription: Subscription,
    *,
    commit_offset: QueueOffset | None = None,
    hold: bool = True,
    max_count: int | None = None,
    bulk_bytes: int | None = None,
) -> Command:
    """The request, with the group's own offset if there is one to tell. The hot path: texts are made by hand.

    Without `hold` it is answered at once, whatever it finds.

    `bulk_bytes` asks for so much at once instead of 32 messages; only our own broker understands it, and says so by
    putting BULK_FIELD into its reply.
    """
    flags = (
        (COMMIT_OFFSET if commit_offset else 0)
        | (SUSPEND if hold and settings.hold_s > 0 else 0)
        | (SUBSCRIPTION if settings.send_subscription else 0)
        | (LITE_PULL if settings.lite else 0)
    )
    ext = {
        "consumerGroup": settings.group,
        "topic": queue.topic,
        "queueId": str(queue.queue_id),
        "queueOffset": str(offset),
        "maxMsgNums": str(max_count or settings.max_count),
        "sysFlag": str(flags),
        "commitOffset": str(commit_offset or 0),
        "suspendTimeoutMillis": str(int(settings.hold_s * 1000)),
        # A pull that carries its expression has no version to compare with the heartbeat's.
        "subVersion": "0" if settings.send_subscription else str(subscription.version),
        "expressionType": subscription.kind,
        "bname": queue.broker_name,
    }
    if settings.send_subscription:
        ext["subscription"] = subscription.expression
    if bulk_bytes is not None:
        ext[BULK_FIELD] = str(bulk_bytes)
    return request(RequestCode.PULL_MESSAGE, ext)


def reply_offsets(
    reply: Command, queue: MessageQueue, address: str
) -> tuple[QueueOffset, QueueOffset, QueueOffset]:
    """Where to pull next, and the oldest and next offset of the queue; raises BadHeader, and BrokerRefused."""
    if reply.code not in PULL_STATUS:
        raise refused(reply, f"{queue.broker_name} ({address})", queue)
    ext = reply.ext
    try:
        return (
            QueueOffset(int(ext["nextBeginOffset"])),
            QueueOffset(int(ext["minOffset"])),
            QueueOffset(int(ext["maxOffset"])),
        )
    except (KeyError, ValueError) as error:
        raise BadHeader(f"the answer of {address} to a pull of {queue} lacks an offset: {error!r}") from None


def read_reply(
    reply: Command,
    settings: PullSettings,
    queue: MessageQueue,
    subscription: Subscription,
    address: str,
    *,
    told: bool = False,
) -> PullResult:
    """What a reply says; raises BrokerRefused for codes that are no outcome of a pull."""
    offsets = reply_offsets(reply, queue, address)
    status = PULL_STATUS[reply.code]
    suggested = int(reply.ext.get("suggestWhichBrokerId") or 0)
    found = PullResult(status, (), *offsets, suggested, BULK_FIELD in reply.ext, told)
    if status is not PullStatus.FOUND:
        return found
    # Brokers compare hashes of tags, which may collide; SQL expressions are theirs alone.
    tags = (
        subscription.tags
        if subscription.kind == TAG and subscription.expression != SUB_ALL
        else frozenset[str]()
    )
    messages = split_messages(
        reply.body,
        queue,
        tags=tags,
        namespace=settings.namespace,
        min_offset=found.min_offset,
        max_offset=found.max_offset,
    )
    return found._replace(messages=messages)


def pull(
    settings: PullSettings,
    cluster: ClusterRoutes,
    queue: MessageQueue,
    offset: QueueOffset,
    subscription: Subscription,
    *,
    broker_id: int = 0,
    commit_offset: QueueOffset | None = None,
    max_count: int | None = None,
    bulk_bytes: int | None = None,
    timeout_s: float | None = None,
) -> Plan[PullResult]:
    """Ask the broker that has the queue. `timeout_s` is for the whole call, the broker's hold included.

    A pull that carries an offset is not held: its answer is what says that the offset was taken, and whoever wants to
    send a newer one waits for it.
    """
    where = cluster.routes.address(queue.broker_name, broker_id)
    if where is None:
        where = yield from broker_of(queue, cluster, broker_id)
    # A slave cannot keep offsets: they would be lost when the master's table is copied over.
    told = None if where.is_slave else commit_offset or None
    command = pull_request(
        settings,
        queue,
        offset,
        subscription,
        commit_offset=told,
        hold=told is None,
        max_count=max_count,
        bulk_bytes=bulk_bytes,
    )
    reply = yield Call(where.address, command, timeout_s or settings.hold_s + ANSWER_S)
    return read_reply(reply, settings, queue, subscription, where.address, told=told is not None)
