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

from rocketeer.broker.groups import ConsumerGroupTable
from rocketeer.broker.locks import ChangeTrackingLocks
from rocketeer.broker.offsets import ChangeTrackingOffsets
from rocketeer.broker.topics import TopicTable
from rocketeer.model.data_version import DataVersion
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.protocol.bodies.groups import GROUP_ENTRIES, decode_group_table
from rocketeer.protocol.bodies.topics import TOPIC_ENTRIES, decode_topic_table
from rocketeer.protocol.bodies.wire import EntriesBody, encode_entry
from rocketeer.steps import Steps

RECORD_BYTES: Final = 64 << 10
"""When a record has so many, the next one begins."""
QUEUES_AT_ONCE: Final = 1024
"""A topic and group with more queues is told in parts."""
AT_ONCE: Final = 16
"""How many entries a step looks at."""
NO_VERSION: Final = DataVersion(0, 0)
TABLES: Final[dict[str, EntriesBody]] = {"topics": TOPIC_ENTRIES, "groups": GROUP_ENTRIES}


@dataclass(frozen=True, slots=True)
class SharedTableSet:
    """The tables that the members of a group share."""

    offsets: ChangeTrackingOffsets
    locks: ChangeTrackingLocks
    topics: TopicTable
    groups: ConsumerGroupTable


@dataclass(slots=True)
class Changes:
    """Changes of the shared tables that are not in the log yet, by table."""

    offsets: set[str] = field(default_factory=set)
    begun_anew: set[str] = field(default_factory=set)
    """Keys of `offsets` whose queues are not only those that they had, and more."""
    locks: dict[tuple[str, MessageQueue], str | None] = field(default_factory=dict)
    topics: dict[str, None] = field(default_factory=dict)
    groups: dict[str, None] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.offsets or self.locks or self.topics or self.groups)


# --- telling ---------------------------------------------------------------------------------


class _Record:
    """The change record being built: the JSON text of each entry, by section."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._objects: dict[str, list[str]] = {}
        self._lists: dict[str, list[str]] = {}
        self._tables: dict[str, list[bytes]] = {}
        self.size = 0

    def put(self, section: str, key: str, value: object) -> None:
        """Add an entry to a section that is a JSON object; a key must not be added twice."""
        self._add(self._objects, section, f"{json.dumps(key)}:{_json(value)}")

    def append(self, section: str, value: object) -> None:
        self._add(self._lists, section, _json(value))

    def _add(self, sections: dict[str, list[str]], section: str, text: str) -> None:
        sections.setdefault(section, []).append(text)
        self.size += len(text) + 1

    def add(self, table: str, entry: bytes) -> None:
        """Add an entry of the table of topics or groups."""
        self._tables.setdefault(table, []).append(entry)
        self.size += 2 * len(entry)  # a text in a text

    def take(self) -> bytes:
        """Return the encoded body of the record and start an empty one."""
        parts = [f'"{name}":{{{",".join(texts)}}}' for name, texts in self._objects.items()]
        parts += [f'"{name}":[{",".join(texts)}]' for name, texts in self._lists.items()]
        for name, body in TABLES.items():
            if name in self._tables:
                parts.append(f'"{name}":{_json(body.join(self._tables[name], NO_VERSION).decode())}')
        self._begin()
        return f"{{{','.join(parts)}}}".encode()


def records_of(changes: Changes, tables: SharedTableSet, *, bytes_max: int) -> Iterator[bytes | None]:
    """The bodies of records with the present values of all that changed; None after steps that filled none.

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
            record.add("topics", encode_entry(topic))
        yield
    for name in changes.groups:
        settings = tables.groups.configs.get(name)
        if settings is None:
            record.append("groupsGone", name)
        else:
            record.add("groups", encode_entry(settings))
        yield


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


# --- taking over -----------------------------------------------------------------------------


def taking_over(body: bytes, tables: SharedTableSet) -> Steps[None]:
    """Apply a record of changes to the tables, an entry a step."""
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
                tables.topics.add_provisional(config)
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


def _numbers(queues: Mapping[str, QueueOffset]) -> dict[int, QueueOffset]:
    return {int(queue): offset for queue, offset in queues.items()}
