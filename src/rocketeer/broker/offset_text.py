"""The text of config/consumerOffset.json, kept in pieces: only what changed is made anew.

Commits come with pulls, by the thousand, and a topic may have 65,535 queues. There is one piece per topic and group;
one with very many queues is made of parts, so that a commit costs a part of it and no step is long.
"""

import json
from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec

from rocketeer.broker.table_text import TableText
from rocketeer.model.offsets import QueueOffset
from rocketeer.steps import Steps, finish

PART_QUEUES: Final = 1024
DICTS: Final = 64
_FIRST: Final = frozenset({0})
"""The stale parts of most keys; a set of its own for each of a million would take 200 MB."""

_Keys: TypeAlias = dict[str, set[int] | frozenset[int]]


class OffsetText:
    """`table` is the one that is told, `topic@group` -> queue id -> offset; whoever changes it says so."""

    def __init__(self, table: Mapping[str, Mapping[int, QueueOffset]]) -> None:
        self._table = table
        self._pieces: dict[str, bytes] = {}
        self._parts: dict[str, dict[int, bytes]] = {}
        """Parts of pieces with more than `PART_QUEUES` queues: number of a part -> its text."""
        self._stale = _no_keys()
        """What is to be made anew: key -> numbers of parts. Many dicts, for a large one takes long to grow."""
        self._taken = _no_keys()
        """The same of the last pass: what it has not made yet."""
        self._passes = 0
        for key in table:
            self._stale_like(key)[key] = frozenset()

    def changed(self, key: str, queue_id: int) -> None:
        """The offset of one queue changed: its part of the text is made anew."""
        keys, number = self._stale_like(key), queue_id // PART_QUEUES
        stale = keys.get(key)
        if stale is None:
            keys[key] = _FIRST if number == 0 else {number}
        elif number not in stale:
            keys[key] = stale = set(stale) if isinstance(stale, frozenset) else stale
            stale.add(number)

    def _stale_like(self, key: str) -> _Keys:
        return self._stale[_number(key)]

    def replaced(self, key: str) -> None:
        """All offsets of a key may have changed: all of its text is made anew."""
        self._parts.pop(key, None)
        self._stale_like(key)[key] = frozenset()

    def removed(self, key: str) -> None:
        for table in (self._pieces, self._parts, self._stale_like(key), self._taken[_number(key)]):
            table.pop(key, None)

    def refresh(self) -> Steps[None]:
        """Make what has changed by now, a part a step. What changes meanwhile waits for the next time: commits
        without end do not keep this going.

        Several may be under way, and one may be broken off: a pass is finished, by whomever, before the next begins.
        """
        enough = self._passes + 1
        while self._passes < enough or (self._passes == enough and any(self._taken)):
            if not any(self._taken):
                self._taken, self._stale = self._stale, _no_keys()
                self._passes += 1
            for keys in self._taken:
                yield from self._refresh_some(keys)

    def _refresh_some(self, keys: _Keys) -> Steps[None]:
        while keys:
            # The newest first: to look for the first of a dict whose front is gone takes long, each time.
            key, told = keys.popitem()
            stale = set(told)
            queues = self._table[key]
            if len(queues) <= PART_QUEUES:
                self._parts.pop(key, None)
                text = _text(queues)
            else:
                if key not in self._parts:
                    self._parts[key] = {}
                    stale |= _numbers_of(queues)
                if stale:
                    number = stale.pop()
                    self._parts[key][number] = _text(_part(queues, number))
                    keys[key] = stale
                    yield
                    continue
                text = b",".join(filter(None, self._parts[key].values()))
            self._pieces[key] = b"%b:{%b}" % (json.dumps(key).encode(), text)
            yield

    def table_text(self) -> TableText:
        """What `refresh` has made, in fastjson's form: the queue ids are not quoted."""
        return TableText(b'{"offsetTable":{', list(self._pieces.values()), b",\n", b"}}")

    def whole(self) -> str:
        """The whole current text, made at once."""
        finish(self.refresh())
        return self.table_text().whole().decode()


def _no_keys() -> tuple[_Keys, ...]:
    return tuple({} for _ in range(DICTS))


def _number(key: str) -> int:
    return hash(key) % DICTS


def _numbers_of(queues: Mapping[int, QueueOffset]) -> set[int]:
    """The numbers of the parts (PART_QUEUES queues each) that these queues belong to."""
    first, last = min(queues) // PART_QUEUES, max(queues) // PART_QUEUES
    if last - first < len(queues):  # told by the ends, in a quarter of the time; a part may be empty
        return set(range(first, last + 1))
    return {queue_id // PART_QUEUES for queue_id in queues}


def _part(queues: Mapping[int, QueueOffset], number: int) -> dict[int, QueueOffset]:
    ids = range(number * PART_QUEUES, (number + 1) * PART_QUEUES)
    return {queue_id: queues[queue_id] for queue_id in ids if queue_id in queues}


def _text(queues: Mapping[int, QueueOffset]) -> bytes:
    # In C, and then without the quotes that JSON wants.
    return msgspec.json.encode(queues)[1:-1].translate(None, b'"')
