"""The text of config/consumerOffset.json, kept in pieces: only what changed is made anew.

Commits come with pulls, by the thousand, and a topic may have 65,535 queues. There is one piece per topic and group;
one with very many queues is made of parts, so that a commit costs a part of it and no step is long.
"""

import json
from collections.abc import Mapping
from typing import Final

import msgspec

from rocketeer.broker.table_text import TableText
from rocketeer.steps import Steps, finish

PART_QUEUES: Final = 1024
DICTS: Final = 64
_FIRST: Final = frozenset({0})
"""Of most keys; a set of its own for each of a million would take 200 MB."""


class OffsetText:
    """`table` is the one that is told, `topic@group` -> queue id -> offset; whoever changes it says so."""

    def __init__(self, table: Mapping[str, Mapping[int, int]]) -> None:
        self._table = table
        self._pieces: dict[str, bytes] = {}
        self._parts: dict[str, dict[int, bytes]] = {}
        """Of pieces with more than `PART_QUEUES` queues: number of a part -> its text."""
        self._stale: tuple[dict[str, set[int] | frozenset[int]], ...] = tuple({} for _ in range(DICTS))
        """What is to be made anew: key -> numbers of parts. Many dicts, for a large one takes long to grow."""
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

    def _stale_like(self, key: str) -> dict[str, set[int] | frozenset[int]]:
        return self._stale[hash(key) % DICTS]

    def replaced(self, key: str) -> None:
        """All offsets of a key may have changed: all of its text is made anew."""
        self._parts.pop(key, None)
        self._stale_like(key)[key] = frozenset()

    def removed(self, key: str) -> None:
        for table in (self._pieces, self._parts, self._stale_like(key)):
            table.pop(key, None)

    def refresh(self) -> Steps[None]:
        """Make what changed, a part a step."""
        while any(self._stale):
            for keys in self._stale:
                yield from self._refresh_some(keys)

    def _refresh_some(self, keys: dict[str, set[int] | frozenset[int]]) -> Steps[None]:
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
                    stale |= {queue_id // PART_QUEUES for queue_id in queues}
                if stale:
                    number = stale.pop()
                    self._parts[key][number] = _text(_part(queues, number))
                    keys[key] = stale
                    yield
                    continue
                text = b",".join(self._parts[key].values())
            self._pieces[key] = b"%b:{%b}" % (json.dumps(key).encode(), text)
            yield

    def told(self) -> TableText:
        """fastjson's form: the queue ids are not quoted."""
        finish(self.refresh())
        return TableText(b'{"offsetTable":{', list(self._pieces.values()), b",\n", b"}}")

    def whole(self) -> str:
        return self.told().whole().decode()


def _part(queues: Mapping[int, int], number: int) -> dict[int, int]:
    ids = range(number * PART_QUEUES, (number + 1) * PART_QUEUES)
    return {queue_id: queues[queue_id] for queue_id in ids if queue_id in queues}


def _text(queues: Mapping[int, int]) -> bytes:
    # In C, and then without the quotes that JSON wants.
    return msgspec.json.encode(queues)[1:-1].translate(None, b'"')
