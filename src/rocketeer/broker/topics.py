"""The topics of this broker: config/topics.json in memory, looked up by every send.

Sends and pulls read `configs` directly: a plain dict of immutable values. Everything that changes it goes
through the methods here, so that the data version grows, the file is written and the name servers hear of it.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from msgspec.structs import replace

from rocketeer.broker.entries_table import EntriesTable
from rocketeer.broker.table_text import TableText
from rocketeer.clock import Clock
from rocketeer.config import BrokerConfig
from rocketeer.model.data_version import DataVersion
from rocketeer.model.topic import (
    AUTO_CREATE_TOPIC,
    BENCHMARK_TOPIC,
    FILTER_TYPES,
    OFFSET_MOVED_EVENT,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    SYSTEM_TOPICS,
    Perm,
    TopicConfig,
    is_system_topic,
    reply_topic,
)
from rocketeer.protocol.bodies.topics import TOPIC_ENTRIES, decode_topic_table
from rocketeer.protocol.bodies.wire import encode_entry
from rocketeer.remoting.limits import busy_limit
from rocketeer.steps import Steps

log = logging.getLogger(__name__)

READ_WRITE = int(Perm.READ | Perm.WRITE)
SCHEDULE_QUEUES = 18
BENCHMARK_QUEUES = 1024
FOLLOWED_AT_ONCE = 256


class ChangeKind(Enum):
    """What happened to a topic; name servers are told of each in another way."""

    CREATED = "created by itself, at the first send or the first heartbeat"
    UPDATED = "created or changed by an administrator"
    REORDERED = "became or ceased to be an order topic"
    DELETED = "deleted"


class TopicChange(NamedTuple):
    kind: ChangeKind
    topic: TopicConfig


class TopicTable(EntriesTable):
    """Every topic this broker serves."""

    file_name = "topics.json"

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        super().__init__(clock, TOPIC_ENTRIES)
        self._deletions = self._encoded_deletions = self._saved_deletions = 0
        self.auto_create = config.auto_create_topic_enable
        self.configs: dict[str, TopicConfig] = {topic.name: topic for topic in system_topics(config)}
        self._system = frozenset(self.configs)
        self._ordered: set[str] = set()
        self._note(self.configs.values())
        self._limits = config.limits
        self._minute = -1
        self._made_this_minute = 0
        self.on_change: list[Callable[[TopicChange], None]] = []

    def get(self, name: str) -> TopicConfig | None:
        return self.configs.get(name)

    @property
    def system_names(self) -> frozenset[str]:
        """Every topic that nobody may change or delete."""
        return self._system | SYSTEM_TOPICS

    def is_system(self, name: str) -> bool:
        """A topic the broker needs itself: nobody may change or delete it."""
        return name in self._system or is_system_topic(name)

    def set_auto_create(self, allowed: bool, queues: int) -> None:
        """Whether topics appear by themselves at their first send."""
        self.auto_create = allowed
        if allowed and AUTO_CREATE_TOPIC not in self.configs:
            perm = int(Perm.INHERIT) | READ_WRITE
            self.put(TopicConfig(AUTO_CREATE_TOPIC, read_queues=queues, write_queues=queues, perm=perm))

    # --- changes -----------------------------------------------------------------------------

    def put(self, topic: TopicConfig) -> None:
        """Create or replace a topic."""
        self._store(ChangeKind.UPDATED, topic)

    def delete(self, name: str) -> TopicConfig | None:
        topic = self.configs.pop(name, None)
        if topic is not None:
            self._forget(name)
            self._deletions += 1
            self._changed(TopicChange(ChangeKind.DELETED, topic))
        return topic

    def create_from_default(
        self, topic: str, default_topic: str, remote: str, client_queues: int, sys_flag: int = 0
    ) -> TopicConfig | None:
        """The topic, made like `default_topic` if there is none yet; None when that may not be inherited."""
        known = self.configs.get(topic)
        if known is not None:
            return known
        default = self.configs.get(default_topic)
        if default is None:
            log.warning("topic not created topic=%s default=%s reason=no default remote=%s",
                        topic, default_topic, remote)  # fmt: skip
            return None
        # A TBW102 left in the file by a time when automatic creation was on must not switch it on again.
        if not default.perm & Perm.INHERIT or (default_topic == AUTO_CREATE_TOPIC and not self.auto_create):
            log.warning("topic not created topic=%s default=%s reason=may not be inherited remote=%s",
                        topic, default_topic, remote)  # fmt: skip
            return None
        self._check_room()
        queues = max(0, min(client_queues, default.write_queues))
        created = TopicConfig(
            topic,
            read_queues=queues,
            write_queues=queues,
            perm=int(default.perm & ~Perm.INHERIT),
            filter_type=default.filter_type,
            sys_flag=sys_flag,
        )
        log.info(
            "topic created topic=%s queues=%d default=%s remote=%s", topic, queues, default_topic, remote
        )
        return self._store(ChangeKind.CREATED, created)

    def create_in_send_back(
        self, topic: str, queues: int, perm: int = READ_WRITE, sys_flag: int = 0
    ) -> TopicConfig:
        """The retry or dead-letter topic of a group, made if there is none yet."""
        known = self.configs.get(topic)
        if known is not None:
            return known
        if not self.is_system(topic):
            self._check_room()
        created = TopicConfig(topic, read_queues=queues, write_queues=queues, perm=perm, sys_flag=sys_flag)
        log.info("topic created topic=%s queues=%d", topic, queues)
        return self._store(ChangeKind.CREATED, created)

    def ordering(self, order_topics: Iterable[str]) -> Steps[None]:
        """Make exactly these order topics, as the name servers' configuration says; a topic a step, for there may be
        very many."""
        for name in sorted(self._ordered.symmetric_difference(order_topics)):
            topic = self.configs.get(name)
            if topic is not None:
                log.info("order topic changed topic=%s order=%s", name, not topic.order)
                self._store(ChangeKind.REORDERED, replace(topic, order=not topic.order))
            yield

    def following(self, topics: Mapping[str, TopicConfig], version: DataVersion) -> Steps[None]:
        """Become the master's table, a changed topic a step; what every broker has by itself stays."""
        for number, (name, told) in enumerate(topics.items(), 1):
            topic = _with_known_filter_type(told)
            if self.configs.get(name) != topic:
                self.configs[name] = topic
                self._note((topic,))
                self._dirty = True
                self._tell(TopicChange(ChangeKind.UPDATED, topic))
                yield
            elif number % FOLLOWED_AT_ONCE == 0:
                yield
        self.version = version
        self._dirty = True

    def add_provisional(self, topic: TopicConfig) -> None:
        """Add a provisional topic on a slave, seen in the log before the master announced it; the table's version
        stays."""
        self.configs[topic.name] = topic
        self._note((topic,))
        self._dirty = True
        self._tell(TopicChange(ChangeKind.UPDATED, topic))

    def follow_deletion(self, name: str) -> None:
        """Remove a topic that the master has deleted; the version is the master's and stays."""
        topic = self.configs.pop(name, None)
        if topic is not None:
            self._forget(name)
            self._deletions += 1
            self._dirty = True
            self._tell(TopicChange(ChangeKind.DELETED, topic))

    def _check_room(self) -> None:
        """Topics that appear by themselves are bounded: RequestRefused when there are too many, or too many now."""
        limits = self._limits
        if len(self.configs) >= limits.topics:
            raise busy_limit("topics of this broker", "limitTopics", limits.topics)
        minute = int(self._clock.monotonic_s() // 60)
        if minute != self._minute:
            self._minute, self._made_this_minute = minute, 0
        if self._made_this_minute >= limits.auto_topics_per_minute:
            what = "topics that appeared by themselves within a minute"
            raise busy_limit(what, "limitAutoTopicsPerMinute", limits.auto_topics_per_minute)
        self._made_this_minute += 1

    def _note(self, topics: Iterable[TopicConfig]) -> None:
        """Keep what is derived from topics that are new or changed."""
        for topic in topics:
            self._entries[topic.name] = encode_entry(topic)
            (self._ordered.add if topic.order else self._ordered.discard)(topic.name)

    def _forget(self, name: str) -> None:
        del self._entries[name]
        self._ordered.discard(name)

    def _store(self, kind: ChangeKind, topic: TopicConfig) -> TopicConfig:
        self.configs[topic.name] = topic
        self._note((topic,))
        self._changed(TopicChange(kind, topic))
        return topic

    def _changed(self, change: TopicChange) -> None:
        self._note_change()
        self._tell(change)

    def _tell(self, change: TopicChange) -> None:
        for callback in self.on_change:
            callback(change)

    # --- the file ----------------------------------------------------------------------------

    def entries(self, topics: Iterable[str]) -> list[bytes]:
        """What a registration carries for these topics, as far as they are there."""
        known = self._entries
        return [known[name] for name in topics if name in known]

    def entry_bytes(self, name: str) -> int:
        """What a topic takes in a registration."""
        return len(self._entries.get(name, b""))

    @property
    def all_entries_bytes(self) -> int:
        """Bytes of all topics in a registration: for tables that are small enough to add it up."""
        return sum(map(len, self._entries.values()))

    def table_text(self) -> TableText:
        self._encoded_deletions = self._deletions
        return super().table_text()

    def waits_for_log(self) -> bool:
        """A topic says nothing of messages. That there is none any more is for the log to say, and first."""
        return self._deletions != self._saved_deletions

    def saved(self) -> None:
        self._saved_deletions = self._encoded_deletions

    def decode(self, text: str) -> None:
        """Lay the file over the system topics: what an operator changed in it stays changed."""
        read, self.version = decode_topic_table(text.encode())
        topics = {name: _with_known_filter_type(topic) for name, topic in read.items()}
        self.configs.update(topics)
        self._note(topics.values())


def _with_known_filter_type(topic: TopicConfig) -> TopicConfig:
    """Replace an unknown filter type by SINGLE_TAG; older Rocketeer versions accepted any text."""
    return topic if topic.filter_type in FILTER_TYPES else replace(topic, filter_type="SINGLE_TAG")


def system_topics(config: BrokerConfig) -> list[TopicConfig]:
    """What every broker has from the start."""

    def topic(name: str, queues: int, perm: int = READ_WRITE) -> TopicConfig:
        return TopicConfig(name, read_queues=queues, write_queues=queues, perm=perm)

    def inheritable(allowed: bool) -> int:
        return int(Perm.INHERIT) | (READ_WRITE if allowed else 0)

    topics = [
        topic(SELF_TEST_TOPIC, 1),
        topic(BENCHMARK_TOPIC, BENCHMARK_QUEUES),
        topic(config.cluster_name, 16, inheritable(config.cluster_topic_enable)),
        topic(config.broker_name, 1, inheritable(config.broker_topic_enable)),
        topic(OFFSET_MOVED_EVENT, 1),
        topic(SCHEDULE_TOPIC, SCHEDULE_QUEUES),
        topic(reply_topic(config.cluster_name), 1),
    ]
    if config.auto_create_topic_enable:
        topics.append(topic(AUTO_CREATE_TOPIC, config.default_queues, inheritable(True)))
    if config.trace_topic_enable:
        topics.append(topic(config.trace_topic, 1))
    return topics
