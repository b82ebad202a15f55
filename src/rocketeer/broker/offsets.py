"""How far each group has consumed each queue: config/consumerOffset.json in memory, written every 5 s."""

import logging
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence

from rocketeer.broker.offset_text import DICTS, OffsetText
from rocketeer.broker.table_text import TableText, joining_body
from rocketeer.errors import RequestRefused
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.topic import QUEUES_MAX
from rocketeer.protocol.bodies.offsets import decode_consumer_offsets
from rocketeer.protocol.codes import ResponseCode
from rocketeer.protocol.frame import FRAME_BYTES_MAX
from rocketeer.remoting.limits import busy_limit
from rocketeer.steps import Steps

log = logging.getLogger(__name__)

SEPARATOR = "@"
KEYS_AT_ONCE = 1024
FOLLOWED_AT_ONCE = 256
KEY_CHARS_MAX = 1024
"""Characters of a topic's and a group's names together: twice as many as those that a broker keeps may have."""

WentBack = Callable[[str, str, int, QueueOffset, QueueOffset], None]
"""Told (group, topic, queue id, offset before, offset now) when a group is to consume something again."""


class _PartsOfKeys(Collection[str]):
    """A slice of the table's keys that cuts out each text only when it is iterated: 300,000 at once would take
    long."""

    def __init__(self, keys: Sequence[str], part: slice) -> None:
        self._keys = keys
        self._part = part

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        part = self._part
        return (key[part] for key in self._keys)

    def __contains__(self, name: object) -> bool:
        return any(name == each for each in self)


class ConsumerOffsets:
    """Keyed `topic@group`, as RocketMQ's file is; neither name may contain the separator."""

    file_name = "consumerOffset.json"

    def __init__(
        self, entries_max: int = 1_000_000, pairs_max: int = 300_000, chars_max: int = 128 << 20
    ) -> None:
        self._entries_max = entries_max
        self._pairs_max = pairs_max
        """A dict of very many grows for 20 ms at a time."""
        self._chars_max = chars_max
        self._count = 0
        self._chars = 0
        """Characters of all keys together."""
        self._table: dict[str, dict[int, QueueOffset]] = {}
        self._text = OffsetText(self._table)
        self._dirty = False
        self._commits = 0
        self._body: bytes | None = None
        """All of it as it is told, as long as nothing changes."""
        self.on_back: list[WentBack] = []

    def commit(
        self, group: str, topic: str, queue_id: int, offset: QueueOffset, *, internal: bool = False
    ) -> None:
        """Set a group's offset of a queue, forwards or backwards: resetting a group is going back.

        `internal`: the broker's own progress, which finds room however much others have committed.
        """
        key = f"{topic}{SEPARATOR}{group}"
        queues = self._table.get(key)
        before = None if queues is None else queues.get(queue_id)
        if before == offset:  # as of every group that waits for messages
            return
        if before is None:
            if not internal:
                self._check_room(key, queue_id)
            if queues is None:
                queues = self._table[key] = {}
                self._chars += len(key)
            self._count += 1
            before = offset
        assert queues is not None
        queues[queue_id] = offset
        self._text.changed(key, queue_id)
        self._touch(key)
        if offset < before:
            for told in self.on_back:
                told(group, topic, queue_id, before, offset)

    def _check_room(self, key: str, queue_id: int) -> None:
        """RequestRefused when there is none for one more queue, or for the first of this key."""
        if not 0 <= queue_id <= QUEUES_MAX:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR,
                f"queueId {queue_id} is none of a topic, whose queues are 0 to {QUEUES_MAX} at most",
            )
        if self._count >= self._entries_max:
            raise busy_limit("offsets of consumers", "limitConsumerOffsets", self._entries_max)
        if key in self._table:
            return
        if len(key) > KEY_CHARS_MAX:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR,
                f"the names of topic and group have {len(key)} characters, at most {KEY_CHARS_MAX} are kept",
            )
        if len(self._table) >= self._pairs_max:
            what = "pairs of a topic and a group with offsets"
            raise busy_limit(what, "limitConsumerOffsetPairs", self._pairs_max)
        if self._chars + len(key) > self._chars_max:
            what = "characters of the names of topics and groups with offsets"
            raise busy_limit(what, "limitConsumerOffsetChars", self._chars_max)

    def __len__(self) -> int:
        """Offsets of all groups and queues."""
        return self._count

    def query(self, group: str, topic: str, queue_id: int) -> QueueOffset | None:
        """The committed offset; None when the group never committed one for this queue."""
        queues = self._table.get(f"{topic}{SEPARATOR}{group}")
        return None if queues is None else queues.get(queue_id)

    def of(self, group: str, topic: str) -> Mapping[int, QueueOffset]:
        """Queue id to offset, for one group on one topic."""
        return self._table.get(f"{topic}{SEPARATOR}{group}", {})

    def topics_of(self, group: str) -> Steps[Collection[str]]:
        """The topics on which the group has committed."""
        # Asked for group after group (208) by tools that list them all: a comparison of texts, nothing more.
        end = f"{SEPARATOR}{group}"
        found: list[str] = []
        for keys in self._keys():
            found += [key for key in keys if key.endswith(end)]
            yield
        return _PartsOfKeys(found, slice(-len(end)))

    def groups_of(self, topic: str) -> Steps[Collection[str]]:
        """The groups that have committed on the topic."""
        begin = f"{topic}{SEPARATOR}"
        found: list[str] = []
        for keys in self._keys():
            found += [key for key in keys if key.startswith(begin)]
            yield
        return _PartsOfKeys(found, slice(len(begin), None))

    def topics_by_group(self, groups: Container[str]) -> Steps[Callable[[str], Collection[str]]]:
        """The topics of all of these at once: of each they may be taken once."""
        tables: list[dict[str, list[str]]] = [{} for _ in range(DICTS)]  # a large one takes long to grow
        for keys in self._keys():
            for key in keys:
                topic, _, group = key.partition(SEPARATOR)
                if group in groups:
                    tables[hash(group) % DICTS].setdefault(group, []).append(topic)
            yield
        return lambda group: tables[hash(group) % DICTS].pop(group, ())

    def _keys(self) -> Iterator[list[str]]:
        """All keys of the table, KEYS_AT_ONCE at a time."""
        keys = list(self._table)
        for start in range(0, len(keys), KEYS_AT_ONCE):
            yield keys[start : start + KEYS_AT_ONCE]

    def pairs(self) -> Iterator[tuple[str, str, Mapping[int, QueueOffset]]]:
        """Topic, group and its offset by queue, of everybody; what changes meanwhile may be left out."""
        for key in list(self._table):
            topic, _, group = key.partition(SEPARATOR)
            queues = self._table.get(key)
            if queues is not None:
                yield topic, group, queues

    def copying_group(self, source: str, target: str, topic: str) -> Steps[None]:
        """Let `target` continue where `source` stands, a queue a step."""
        queues = self._table.get(f"{topic}{SEPARATOR}{source}")
        if queues is not None:
            for queue_id in list(queues):  # a list of very many pairs takes long to make
                offset = queues.get(queue_id)
                if offset is not None:
                    self.commit(target, topic, queue_id, QueueOffset(offset))
                yield
            key = f"{topic}{SEPARATOR}{target}"
            self._replace(key, queues)
            self._touch(key, anew=True)

    @property
    def table(self) -> Mapping[str, Mapping[int, QueueOffset]]:
        """`topic@group` -> queue id -> offset; to look at."""
        return self._table

    def following(self, table: Mapping[str, Mapping[int, QueueOffset]]) -> Steps[None]:
        """Become this table, the master's as a slave knows it, some keys a step."""
        for keys in self._keys():
            self._remove([key for key in keys if key not in table and key in self._table])
            yield
        for number, (key, queues) in enumerate(table.items(), 1):
            if self._table.get(key) is not queues and self._table.get(key) != queues:
                self._replace(key, queues)
                self._touch(key, anew=True)
                yield
            elif number % FOLLOWED_AT_ONCE == 0:
                yield

    def removing_group(self, group: str) -> Steps[None]:
        for topic in (yield from self.topics_of(group)):
            key = f"{topic}{SEPARATOR}{group}"
            if key in self._table:
                self._remove([key])
            yield

    def _remove(self, keys: list[str]) -> None:
        for key in keys:
            self._count -= len(self._table.pop(key))
            self._chars -= len(key)
            self._text.removed(key)
            self._changed()

    def _replace(self, key: str, queues: Mapping[int, QueueOffset]) -> None:
        self._count += len(queues) - len(self._table.get(key, ()))
        self._chars += 0 if key in self._table else len(key)
        self._table[key] = dict(queues)
        self._text.replaced(key)

    def _touch(self, key: str, *, anew: bool = False) -> None:
        """Note that a key changed. `anew`: more may have changed than that queues were added or moved."""
        self._changed()

    def _changed(self) -> None:
        self._dirty = True
        self._commits += 1
        self._body = None

    def clamp(self, max_offset: Callable[[str, int], QueueOffset]) -> None:
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
                    self._text.changed(key, queue_id)
                    self._touch(key)

    def set_queues(self, key: str, queues: Mapping[int, QueueOffset] | None) -> None:
        """Take over what the group's leader says of one `topic@group`; None: it was removed."""
        if queues is not None:
            self._replace(key, queues)
        elif key in self._table:
            self._count -= len(self._table.pop(key))
            self._chars -= len(key)
            self._text.removed(key)
        self._changed()

    def add_queues(self, key: str, queues: Mapping[int, QueueOffset]) -> None:
        """As `set_queues`, of some of its queues: the others keep their offsets."""
        known = self._table.get(key)
        if known is None:
            self._replace(key, queues)
        else:
            self._count -= len(known)
            known.update(queues)
            self._count += len(known)
            for queue_id in queues:
                self._text.changed(key, queue_id)
        self._changed()

    # --- the file ----------------------------------------------------------------------------

    def refresh(self) -> Steps[None]:
        """Make what has changed of the text by now, in steps."""
        return self._text.refresh()

    def encode(self) -> str:
        return self._text.whole()

    def table_text(self) -> TableText:
        """What `refresh` has made, yet to be put together."""
        return self._text.table_text()

    def encoding(self, *, any_size: bool = False) -> Steps[bytes]:
        """As `encode` when this begins, or newer, for peers, in steps: it may be long, and asked for many times.

        FrameTooLarge for what no frame can carry, unless it may have `any_size`.
        """
        if self._body is not None:
            return self._body
        commits = self._commits
        yield from self.refresh()
        body = yield from joining_body(self.table_text(), any_size=any_size)
        if self._commits == commits and len(body) <= FRAME_BYTES_MAX:
            self._body = body
        return body

    def decode(self, text: str) -> None:
        """Replace everything by what the file says; raises BadBody and leaves everything as it was."""
        self._table = decode_consumer_offsets(text.encode())
        self._count = sum(map(len, self._table.values()))
        self._chars = sum(map(len, self._table))
        self._text = OffsetText(self._table)
        self._body = None

    def take_dirty(self) -> bool:
        dirty, self._dirty = self._dirty, False
        return dirty


class ChangeTrackingOffsets(ConsumerOffsets):
    """Notes which keys changed, for whoever has to tell others."""

    def __init__(
        self, entries_max: int = 1_000_000, pairs_max: int = 300_000, chars_max: int = 128 << 20
    ) -> None:
        super().__init__(entries_max, pairs_max, chars_max)
        self.changed: set[str] = set()
        self.begun_anew: set[str] = set()
        """Keys of which more may have changed than that queues were added or moved."""

    def _touch(self, key: str, *, anew: bool = False) -> None:
        super()._touch(key)
        self.changed.add(key)
        if anew:
            self.begun_anew.add(key)

    def _remove(self, keys: list[str]) -> None:
        super()._remove(keys)
        self.changed.update(keys)
        self.begun_anew.update(keys)
