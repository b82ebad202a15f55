"""Which client of an orderly consuming group owns which queue: the state behind LOCK_BATCH_MQ (41) and 42.

Invariant: within a group a queue has at most one owner. A lock lives for a minute after it was last taken or
renewed: a client that renews in time never loses it, and one that dies blocks the others no longer than that.
"""

import json
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass

from rocketeer.broker.table_text import TableText, joining_body
from rocketeer.errors import BadBody
from rocketeer.model.queue import MessageQueue
from rocketeer.steps import Steps, finish

LockRow = tuple[str, MessageQueue, str]
"""Group, queue and the client that owns it."""

LOCK_LIFE_MS = 60_000
ROWS_AT_ONCE = 64
STEP_QUEUES = 256
"""How many queues are looked at in one step."""


@dataclass(slots=True)
class _Lock:
    client_id: str
    renewed_ms: int


class QueueLockTable:
    """Which client owns which queue of its group. Pure: the time is an argument of every call."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[MessageQueue, _Lock]] = {}
        self._count = 0

    def lock(
        self, group: str, client_id: str, queues: Iterable[MessageQueue], now_ms: int
    ) -> list[MessageQueue]:
        """Take or renew; returns the queues the client now owns, in the order asked for."""
        locks = self._groups.setdefault(group, {})
        owned = []
        for queue in dict.fromkeys(queues):
            held = locks.get(queue)
            if held is not None and held.client_id != client_id and not self._expired(held, now_ms):
                continue
            self._count += held is None
            locks[queue] = _Lock(client_id, now_ms)
            owned.append(queue)
        if not locks:
            del self._groups[group]
        return owned

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Give queues back; one that somebody else owns stays theirs."""
        locks = self._groups.get(group)
        if locks is None:
            return
        for queue in queues:
            held = locks.get(queue)
            if held is not None and held.client_id == client_id:
                del locks[queue]
                self._count -= 1
        if not locks:
            del self._groups[group]

    def owner(self, group: str, queue: MessageQueue, now_ms: int) -> str | None:
        """The client id that owns the queue now."""
        held = self._groups.get(group, {}).get(queue)
        if held is None or self._expired(held, now_ms):
            return None
        return held.client_id

    def forgetting_expired(self, now_ms: int) -> Generator[None, None, None]:
        """Drop locks nobody can claim any more, in steps: groups that come and go leave nothing behind."""
        for group in list(self._groups):
            for number, queue in enumerate(list(self._groups.get(group, ())), 1):
                locks = self._groups.get(group, {})
                held = locks.get(queue)
                if held is not None and self._expired(held, now_ms):
                    del locks[queue]
                    self._count -= 1
                if number % STEP_QUEUES == 0:
                    yield
            if group in self._groups and not self._groups[group]:
                del self._groups[group]
            yield

    def __len__(self) -> int:
        return self._count

    def _expired(self, held: _Lock, now_ms: int) -> bool:
        return now_ms - held.renewed_ms > LOCK_LIFE_MS


class ChangeTrackingLocks(QueueLockTable):
    """Notes what changed, for whoever has to tell others; a table that outlives the process."""

    file_name = "queueLocks.json"

    def __init__(self, now_ms: Callable[[], int]) -> None:
        super().__init__()
        self._now_ms = now_ms
        self._dirty = False
        self._pieces: list[bytes] | None = None
        """Pieces of the text, once it was made."""
        self.changed: dict[tuple[str, MessageQueue], str | None] = {}

    def lock(
        self, group: str, client_id: str, queues: Iterable[MessageQueue], now_ms: int
    ) -> list[MessageQueue]:
        owned = super().lock(group, client_id, queues, now_ms)
        self.changed.update({(group, queue): client_id for queue in owned})
        self._dirty = True
        return owned

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        given_back = list(queues)
        super().unlock(group, client_id, given_back)
        self.changed.update(
            {(group, queue): None for queue in given_back if self._holder(group, queue) is None}
        )
        self._dirty = True

    def set_owner(self, group: str, queue: MessageQueue, client_id: str | None) -> None:
        """Take over a lock of the group's leader; it counts as renewed now, so that nobody loses one early."""
        holder = self._holder(group, queue)
        if holder is not None and holder != client_id:
            super().unlock(group, holder, [queue])
        if client_id is not None:
            super().lock(group, client_id, [queue], self._now_ms())
        self._dirty = True

    def _holder(self, group: str, queue: MessageQueue) -> str | None:
        held = self._groups.get(group, {}).get(queue)
        return None if held is None else held.client_id

    def refresh(self) -> Steps[None]:
        """Make the text for `table_text`, in steps."""
        self._pieces = yield from self._making()

    def _making(self) -> Steps[list[bytes]]:
        pieces: list[bytes] = []
        rows: list[list[object]] = []
        for group in list(self._groups):
            for queue in list(self._groups.get(group, ())):
                holder = self._holder(group, queue)
                if holder is not None:
                    rows.append([group, queue.topic, queue.broker_name, queue.queue_id, holder])
                if len(rows) == ROWS_AT_ONCE:
                    pieces.append(_text(rows))
                    rows = []
                    yield
        if rows:
            pieces.append(_text(rows))
        return pieces

    def table_text(self) -> TableText:
        """The encoded table as pieces that `refresh` made, which are released."""
        pieces, self._pieces = self._pieces, None
        if pieces is None:
            finish(self.refresh())
            pieces, self._pieces = self._pieces, None
        assert pieces is not None
        return _table(pieces)

    def encode(self) -> str:
        return self.table_text().whole().decode()

    def encoding(self) -> Steps[bytes]:
        """The encoded table for peers, made anew in steps; the pieces made for `table_text` are not used up."""
        return (yield from joining_body(_table((yield from self._making()))))

    def decode(self, text: str) -> None:
        for group, queue, client_id in rows_of(text):
            super().lock(group, client_id, [queue], self._now_ms())

    def following(self, rows: Sequence[LockRow]) -> Steps[None]:
        """Become like another member's table, in steps: what we knew may be of a log that was cut."""
        self._dirty = True
        groups, self._groups = self._groups, {}
        self._count = 0
        while groups:
            _, locks = groups.popitem()
            while locks:
                for _ in range(min(STEP_QUEUES, len(locks))):
                    locks.popitem()
                yield
        for number, (group, queue, client_id) in enumerate(rows, 1):
            super().lock(group, client_id, [queue], self._now_ms())
            if number % ROWS_AT_ONCE == 0:
                yield
        self._dirty = True

    def take_dirty(self) -> bool:
        dirty, self._dirty = self._dirty, False
        return dirty


def _text(rows: list[list[object]]) -> bytes:
    return json.dumps(rows)[1:-1].encode()


def rows_of(text: str | bytes) -> list[LockRow]:
    """Decode the rows of an encoded table of locks; raises BadBody."""
    try:
        return [
            (group, MessageQueue(topic, broker_name, queue_id), client_id)
            for group, topic, broker_name, queue_id, client_id in json.loads(text)["locks"]
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise BadBody(f"no table of locks: {error}") from None


def _table(pieces: list[bytes]) -> TableText:
    return TableText(b'{"locks":[', pieces, b",", b"]}")
