"""What a record of changed tables says; made, and taken over, an entry at a time.

    {"offsets": {"topic@group": {"queue": offset, ...} or null},    all of its queues; null: there are none
     "anew":    ["topic@group", ...],                               the queues that it had are none of it any more
     "moved":   [["topic@group", {"queue": offset, ...}], ...],     some of very many queues: the others stay
     "locks":   [[group, topic, broker name, queue, client or null], ...],
     "topics":  a table of topics, "topicsGone": [name, ...],
     "groups":  a table of groups, "groupsGone": [name, ...]}

Whatever changed is in one or more records of a bounded size: each is stored in one step, and members look at each in
short ones.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from rocketeer.broker.groups import GroupTable
from rocketeer.broker.locks import JournaledLocks
from rocketeer.broker.offsets import JournaledOffsets
from rocketeer.broker.topics import TopicTable
from rocketeer.model.data_version import DataVersion
from rocketeer.model.queue import MessageQueue
from rocketeer.protocol.bodies.groups import decode_group_table, encode_group_entry, join_group_table
from rocketeer.protocol.bodies.topics import decode_topic_table, encode_topic_entry, join_topic_table
from rocketeer.steps import Steps

RECORD_BYTES: Final = 64 << 10
"""When a record has so many, the next one begins."""
QUEUES_AT_ONCE: Final = 1024
"""A topic and group with more queues is told in parts."""
AT_ONCE: Final = 16
"""Entries of a step."""
NO_VERSION: Final = DataVersion(0, 0)


@dataclass(frozen=True, slots=True)
class SharedTableSet:
    """The tables that the members of a group share."""

    offsets: JournaledOffsets
    locks: JournaledLocks
    topics: TopicTable
    groups: GroupTable


@dataclass(slots=True)
class Changes:
    """What is not in a record yet."""

    offsets: set[str] = field(default_factory=set)
    begun_anew: set[str] = field(default_factory=set)
    """Of these: whose queues are not only those that they had, and more."""
    locks: dict[tuple[str, MessageQueue], str | None] = field(default_factory=dict)
    topics: dict[str, None] = field(default_factory=dict)
    groups: dict[str, None] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.offsets or self.locks or self.topics or self.groups)


# --- telling ---------------------------------------------------------------------------------


class _Record:
    """The one that is being made: the texts of its entries."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._objects: dict[str, list[str]] = {}
        self._lists: dict[str, list[str]] = {}
        self._topics: list[bytes] = []
        self._groups: list[bytes] = []
        self.size = 0

    def put(self, section: str, key: str, value: object) -> None:
        """No key twice."""
        self._add(self._objects, section, f"{json.dumps(key)}:{_json(value)}")

    def append(self, section: str, value: object) -> None:
        self._add(self._lists, section, _json(value))

    def _add(self, sections: dict[str, list[str]], section: str, text: str) -> None:
        sections.setdefault(section, []).append(text)
        self.size += len(text) + 1

    def add_topic(self, entry: bytes) -> None:
        self._topics.append(entry)
        self.size += 2 * len(entry)  # a text in a text

    def add_group(self, entry: bytes) -> None:
        self._groups.append(entry)
        self.size += 2 * len(entry)

    def take(self) -> bytes:
        """Its body; the next one begins."""
        parts = [f'"{name}":{{{",".join(texts)}}}' for name, texts in self._objects.items()]
        parts += [f'"{name}":[{",".join(texts)}]' for name, texts in self._lists.items()]
        if self._topics:
            parts.append(f'"topics":{_json(join_topic_table(self._topics, NO_VERSION).decode())}')
        if self._groups:
            parts.append(f'"groups":{_json(join_group_table(self._groups, NO_VERSION).decode())}')
        self._begin()
        return f"{{{','.join(parts)}}}".encode()


def records_of(changes: Changes, tables: SharedTableSet, *, bytes_max: int) -> Iterator[bytes | None]:
    """The bodies of records that say what everything that changed is now; None after steps that filled none.

    What changes again before its record is stored has to be told once more, behind it.
    """
    record = _Record()
    for number, _ in enumerate(_putting(changes, tables, record), 1):
        if record.size >= bytes_max:
            yield record.take()
        elif number % AT_ONCE == 0:
            yield None
    if record.size:
        yield record.take()


def _putting(changes: Changes, tables: SharedTableSet, record: _Record) -> Steps[None]:
    for key in changes.offsets:
        queues = tables.offsets.table.get(key)
        if queues is None or len(queues) <= QUEUES_AT_ONCE:
            record.put("offsets", key, queues)
            yield
            continue
        if key in changes.begun_anew:
            record.append("anew", key)  # no null in "offsets": who does not know "moved" keeps what was
        left = iter(list(queues))  # a list of very many pairs takes long to make
        while ids := list(islice(left, QUEUES_AT_ONCE)):
            record.append(
                "moved", [key, {queue_id: queues[queue_id] for queue_id in ids if queue_id in queues}]
            )
            yield
    for (group, queue), client_id in changes.locks.items():
        record.append("locks", [group, queue.topic, queue.broker_name, queue.queue_id, client_id])
        yield
    for name in changes.topics:
        topic = tables.topics.configs.get(name)
        if topic is None:
            record.append("topicsGone", name)
        else:
            record.add_topic(encode_topic_entry(topic))
        yield
    for name in changes.groups:
        settings = tables.groups.configs.get(name)
        if settings is None:
            record.append("groupsGone", name)
        else:
            record.add_group(encode_group_entry(settings))
        yield


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


# --- taking over -----------------------------------------------------------------------------


def taking_over(body: bytes, tables: SharedTableSet) -> Steps[None]:
    """Have the tables say what a record says, an entry a step."""
    change: Mapping[str, Any] = json.loads(body)
    for key, queues in change.get("offsets", {}).items():
        tables.offsets.set_queues(key, None if queues is None else _numbers(queues))
        yield
    for key in change.get("anew", ()):
        tables.offsets.set_queues(key, None)
        yield
    for key, queues in change.get("moved", ()):
        tables.offsets.add_queues(key, _numbers(queues))
        yield
    for group, topic, broker_name, queue_id, client_id in change.get("locks", ()):
        tables.locks.set_owner(group, MessageQueue(topic, broker_name, queue_id), client_id)
        yield
    if "topics" in change:
        configs, _ = decode_topic_table(change["topics"].encode())
        for config in configs.values():
            if tables.topics.configs.get(config.name) != config:
                tables.topics.guess(config)
            yield
    for name in change.get("topicsGone", ()):
        tables.topics.follow_deletion(name)
        yield
    if "groups" in change:
        groups, _ = decode_group_table(change["groups"].encode())
        for group_settings in groups.values():
            tables.groups.put(group_settings)
            yield
    for name in change.get("groupsGone", ()):
        tables.groups.delete(name)
        yield


def _numbers(queues: Mapping[str, int]) -> dict[int, int]:
    return {int(queue): offset for queue, offset in queues.items()}
