"""How far each group has consumed each queue: config/consumerOffset.json in memory, written every 5 s.

Commits come with pulls, by the thousand. The file's text is kept in one piece per topic and group, and only
the pieces that changed are made anew, so that persisting never holds up the loop.
"""

import json
import logging
from collections.abc import Callable, Iterator, Mapping

import msgspec

from rocketeer.protocol.bodies.offsets import decode_consumer_offsets
from rocketeer.remoting.limits import busy_limit
from rocketeer.steps import Steps

log = logging.getLogger(__name__)

SEPARATOR = "@"

WentBack = Callable[[str, str, int, int, int], None]
"""Told (group, topic, queue id, offset before, offset now) when a group is to consume something again."""


class ConsumerOffsets:
    """Keyed `topic@group`, as RocketMQ's file is; neither name may contain the separator."""

    file_name = "consumerOffset.json"

    def __init__(self, entries_max: int = 1_000_000) -> None:
        self._entries_max = entries_max
        self._count = 0
        self._table: dict[str, dict[int, int]] = {}
        self._pieces: dict[str, str] = {}
        self._stale: set[str] = set()
        self._dirty = False
        self._body: bytes | None = None
        """All of it as it is told, as long as nothing changes."""
        self.on_back: list[WentBack] = []

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Set it, forwards or backwards: resetting a group is going back."""
        key = f"{topic}{SEPARATOR}{group}"
        queues = self._table.get(key)
        before = None if queues is None else queues.get(queue_id)
        if before is None:
            if self._count >= self._entries_max:
                raise busy_limit("offsets of consumers", "limitConsumerOffsets", self._entries_max)
            self._count += 1
            before = offset
            if queues is None:
                queues = self._table[key] = {}
        assert queues is not None
        queues[queue_id] = offset
        self._touch(key)
        if offset < before:
            for told in self.on_back:
                told(group, topic, queue_id, before, offset)

    def query(self, group: str, topic: str, queue_id: int) -> int | None:
        """The committed offset; None when the group never committed one for this queue."""
        queues = self._table.get(f"{topic}{SEPARATOR}{group}")
        return None if queues is None else queues.get(queue_id)

    def of(self, group: str, topic: str) -> Mapping[int, int]:
        """Queue id to offset, for one group on one topic."""
        return self._table.get(f"{topic}{SEPARATOR}{group}", {})

    def topics_of(self, group: str) -> set[str]:
        """The topics on which the group has committed."""
        # Asked for group after group (208) by tools that list them all: a comparison of texts, nothing more.
        end = f"{SEPARATOR}{group}"
        return {key[: -len(end)] for key in self._table if key.endswith(end)}

    def pairs(self) -> Iterator[tuple[str, str, Mapping[int, int]]]:
        """Topic, group and its offset by queue, of everybody; what changes meanwhile may be left out."""
        for key in list(self._table):
            topic, _, group = key.partition(SEPARATOR)
            queues = self._table.get(key)
            if queues is not None:
                yield topic, group, queues

    def topics_by_group(self) -> dict[str, set[str]]:
        """The same for all groups at once."""
        table: dict[str, set[str]] = {}
        for topic, group in self._pairs():
            table.setdefault(group, set()).add(topic)
        return table

    def groups_of(self, topic: str) -> set[str]:
        """The groups that have committed on the topic."""
        begin = f"{topic}{SEPARATOR}"
        return {key[len(begin) :] for key in self._table if key.startswith(begin)}

    def copying_group(self, source: str, target: str, topic: str) -> Steps[None]:
        """Let `target` continue where `source` stands, a queue a step."""
        queues = self._table.get(f"{topic}{SEPARATOR}{source}")
        if queues is not None:
            for queue_id, offset in list(queues.items()):
                self.commit(target, topic, queue_id, offset)
                yield
            key = f"{topic}{SEPARATOR}{target}"
            self._count += len(queues) - len(self._table.get(key, ()))
            self._table[key] = dict(queues)
            self._touch(key)

    @property
    def table(self) -> Mapping[str, Mapping[int, int]]:
        """`topic@group` -> queue id -> offset; to look at."""
        return self._table

    def follow(self, table: Mapping[str, Mapping[int, int]]) -> None:
        """Become this table, the master's as a slave knows it."""
        self._remove([key for key in self._table if key not in table])
        for key, queues in table.items():
            if self._table.get(key) is not queues and self._table.get(key) != queues:
                self._count += len(queues) - len(self._table.get(key, ()))
                self._table[key] = dict(queues)
                self._touch(key)

    def remove_group(self, group: str) -> None:
        self._remove([key for key in self._table if key.partition(SEPARATOR)[2] == group])

    def remove_topic(self, topic: str) -> None:
        self._remove([key for key in self._table if key.partition(SEPARATOR)[0] == topic])

    def _remove(self, keys: list[str]) -> None:
        for key in keys:
            self._count -= len(self._table.pop(key))
            self._pieces.pop(key, None)
            self._stale.discard(key)
            self._dirty = True
            self._body = None

    def _pairs(self) -> list[tuple[str, str]]:
        return [(key.partition(SEPARATOR)[0], key.partition(SEPARATOR)[2]) for key in self._table]

    def _touch(self, key: str) -> None:
        self._stale.add(key)
        self._dirty = True
        self._body = None

    def clamp(self, max_offset: Callable[[str, int], int]) -> None:
        """At start: no group stands behind the end of a queue, or it would skip what is stored there next.

        The file is never written ahead of the log; but a log can lose its end, or be another one than before.
        """
        for key, queues in self._table.items():
            topic, _, group = key.partition(SEPARATOR)
            for queue_id, offset in queues.items():
                end = max_offset(topic, queue_id)
                if offset > end:
                    log.warning("consumer offset set back: its queue ends before it group=%s topic=%s queue=%d "
                                "offset=%d end=%d", group, topic, queue_id, offset, end)  # fmt: skip
                    queues[queue_id] = end
                    self._touch(key)

    def set_queues(self, key: str, queues: Mapping[int, int] | None) -> None:
        """What a leader of our group says of one `topic@group`; None: it was removed."""
        self._count += len(queues or ()) - len(self._table.pop(key, ()))
        if queues is not None:
            self._table[key] = dict(queues)
            ConsumerOffsets._touch(self, key)
        else:
            self._pieces.pop(key, None)
            self._stale.discard(key)
            self._dirty = True
            self._body = None

    # --- the file ----------------------------------------------------------------------------

    def refresh(self) -> Steps[None]:
        """Make the pieces that changed, one a step."""
        while self._stale:
            key = self._stale.pop()
            # A topic may have 65,535 queues: in C, and then without the quotes that JSON wants.
            queues = msgspec.json.encode(self._table[key]).translate(None, b'"').decode()
            self._pieces[key] = f"{json.dumps(key)}:{queues}"
            yield

    def encode(self) -> str:
        """fastjson's form: the queue ids are not quoted."""
        for _ in self.refresh():
            pass
        return '{"offsetTable":{' + ",\n".join(self._pieces.values()) + "}}"

    def encoding(self) -> Steps[bytes]:
        """As `encode`, for peers, in steps: it may be long, and asked for many times."""
        while self._body is None:
            yield from self.refresh()
            yield
            text = self.encode()
            self._body = text.encode()
        return self._body

    def decode(self, text: str) -> None:
        """Replace everything by what the file says; raises BadBody and leaves everything as it was."""
        self._table = decode_consumer_offsets(text.encode())
        self._count = sum(map(len, self._table.values()))
        self._pieces = {}
        self._stale = set(self._table)
        self._body = None

    def take_dirty(self) -> bool:
        dirty, self._dirty = self._dirty, False
        return dirty


class JournaledOffsets(ConsumerOffsets):
    """Notes which keys changed, for whoever has to tell others."""

    def __init__(self, entries_max: int = 1_000_000) -> None:
        super().__init__(entries_max)
        self.changed: set[str] = set()

    def _touch(self, key: str) -> None:
        super()._touch(key)
        self.changed.add(key)

    def _remove(self, keys: list[str]) -> None:
        super()._remove(keys)
        self.changed.update(keys)
