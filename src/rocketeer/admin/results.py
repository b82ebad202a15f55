"""What admin tasks bring: frozen values. What a broker did not answer is named in `failures`, never shown as zero."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, TypeVar

from rocketeer.errors import RocketeerError
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.model.route import MASTER_ID
from rocketeer.protocol.bodies.connections import ClientConnection, GroupConnections
from rocketeer.protocol.bodies.consume_stats import ConsumeStats, TopicQueueStats
from rocketeer.protocol.bodies.replica_group import ReplicaGroup
from rocketeer.protocol.bodies.running_info import RunningInfo

T = TypeVar("T")


@dataclass(frozen=True, slots=True, order=True)
class ClusterBroker:
    """One broker process of a cluster; number 0 is the master of its name."""

    cluster: str
    name: str
    broker_id: int
    address: str

    @property
    def is_master(self) -> bool:
        return self.broker_id == MASTER_ID

    def __str__(self) -> str:
        return f"{self.name} ({self.address})" if self.name else self.address


@dataclass(frozen=True, slots=True)
class NotAnswered:
    """Who did not answer, and why, in a sentence."""

    who: str
    error: RocketeerError

    def __str__(self) -> str:
        return f"{self.who} did not answer: {self.error}"


@dataclass(frozen=True, slots=True)
class PerBroker(Generic[T]):
    """What each broker answered, in the order they were asked, and who did not answer."""

    answers: Mapping[ClusterBroker, T]
    failures: tuple[NotAnswered, ...] = ()

    def __iter__(self) -> Iterator[tuple[ClusterBroker, T]]:
        return iter(self.answers.items())


@dataclass(frozen=True, slots=True)
class ClusterMap:
    """All clusters, their broker names, and every broker process the name server knows."""

    clusters: Mapping[str, tuple[str, ...]]
    brokers: tuple[ClusterBroker, ...]

    def of(self, cluster: str | None = None) -> tuple[ClusterBroker, ...]:
        """The brokers of one cluster, masters before slaves; of all without a name."""
        return tuple(each for each in self.brokers if cluster is None or each.cluster == cluster)

    def masters(self, cluster: str | None = None) -> tuple[ClusterBroker, ...]:
        return tuple(each for each in self.of(cluster) if each.is_master)

    def at(self, address: str) -> ClusterBroker:
        """The broker with this address; one the name server does not know has no name."""
        return next(
            (each for each in self.brokers if each.address == address), ClusterBroker("", "", 0, address)
        )


@dataclass(frozen=True, slots=True)
class ReplicaGroups:
    """Groups of brokers that elect their leader; names of which no member answered are in `failures`."""

    groups: tuple[ReplicaGroup, ...]
    failures: tuple[NotAnswered, ...] = ()


@dataclass(frozen=True, slots=True)
class BrokerRuntime:
    """Everything a broker tells of its running state (28) under RocketMQ's names; the figures most want are typed.

    A figure the broker left out is None.
    """

    values: Mapping[str, str]

    @property
    def version(self) -> str | None:
        return self.values.get("brokerVersionDesc")

    @property
    def put_tps(self) -> float | None:
        """Messages stored a second, over the last 10 s."""
        return self._rate("putTps")

    @property
    def get_tps(self) -> float | None:
        """Messages handed out a second, over the last 10 s."""
        return self._rate("getTransferedTps")

    @property
    def send_queue_size(self) -> int | None:
        return self.number("sendThreadPoolQueueSize")

    @property
    def pull_queue_size(self) -> int | None:
        return self.number("pullThreadPoolQueueSize")

    @property
    def send_wait_ms(self) -> int | None:
        return self.number("sendThreadPoolQueueHeadWaitTimeMills")

    @property
    def pull_wait_ms(self) -> int | None:
        return self.number("pullThreadPoolQueueHeadWaitTimeMills")

    @property
    def page_cache_lock_ms(self) -> int | None:
        return self.number("pageCacheLockTimeMills")

    @property
    def earliest_ms(self) -> int | None:
        """When the oldest message was stored; None when there is none, or the broker does not say."""
        value = self.number("earliestMessageTimeStamp")
        return None if value is None or value < 0 else value

    @property
    def disk_ratio(self) -> float | None:
        """How full the log's disk is, from 0 to 1."""
        return self._float("commitLogDiskRatio")

    def number(self, name: str) -> int | None:
        """A whole number by RocketMQ's name; None when it is missing or no number."""
        try:
            return int(self.values[name])
        except (KeyError, ValueError):
            return None

    def _rate(self, name: str) -> float | None:
        first = (self.values.get(name) or "").split()[:1]
        return _float(first[0]) if first else None

    def _float(self, name: str) -> float | None:
        return _float(self.values.get(name, ""))


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """A topic's queues on all brokers that have it."""

    topic: str
    queues: Mapping[MessageQueue, TopicQueueStats]
    failures: tuple[NotAnswered, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """How far a consumer group is; `connections` is None when no member is connected."""

    group: str
    stats: ConsumeStats
    connections: GroupConnections | None = None
    failures: tuple[NotAnswered, ...] = ()

    @property
    def lag(self) -> int:
        return self.stats.lag

    @property
    def members(self) -> int:
        return len(self.connections.connections) if self.connections else 0


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """A consumer group in one line. `lag` and `tps` are None when a broker did not answer: a part is no sum."""

    group: str
    members: int | None
    version: int | None = None
    """The oldest of the members'."""
    consume_type: str | None = None
    message_model: str | None = None
    tps: float | None = None
    lag: int | None = None
    failures: tuple[NotAnswered, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupMembers:
    """The members of a group and what each tells of itself; one that tells nothing is in `failures`."""

    group: str
    connections: GroupConnections
    running: Mapping[ClientConnection, RunningInfo]
    failures: tuple[NotAnswered, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicGroups:
    """The consumer groups that have read a topic."""

    topic: str
    clusters: tuple[str, ...]
    groups: tuple[str, ...]
    failures: tuple[NotAnswered, ...] = ()


@dataclass(frozen=True, slots=True)
class Done:
    """Where a change was made; who did not take it is in `failures`."""

    brokers: tuple[ClusterBroker, ...]
    failures: tuple[NotAnswered, ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetChange:
    """One queue of a reset: where its group was and is now."""

    queue: MessageQueue
    offset: QueueOffset
    broker_offset: QueueOffset | None = None
    consumer_offset: QueueOffset | None = None
    offset_at_time: QueueOffset | None = None


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """A group's new places in a topic. `online`: its members were told; else the brokers' tables were changed."""

    group: str
    topic: str
    online: bool
    changes: tuple[OffsetChange, ...]
    failures: tuple[NotAnswered, ...] = ()


class TrackState(Enum):
    """Whether a group has consumed a message."""

    CONSUMED = "CONSUMED"
    CONSUMED_BUT_FILTERED = "CONSUMED_BUT_FILTERED"
    PULL = "PULL"
    NOT_CONSUME_YET = "NOT_CONSUME_YET"
    NOT_ONLINE = "NOT_ONLINE"
    CONSUME_BROADCASTING = "CONSUME_BROADCASTING"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class MessageTrack:
    """What became of a message in one consumer group."""

    group: str
    state: TrackState
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class TopicActivity:
    """One line of `statsAll`: a topic and one of its groups (None: nobody consumes it).

    None where a broker did not say. The counts are of the last 24 hours.
    """

    topic: str
    group: str | None
    lag: int | None = None
    in_tps: float | None = None
    out_tps: float | None = None
    in_24h: int | None = None
    out_24h: int | None = None
    failures: tuple[NotAnswered, ...] = field(default=())
