"""Messages of a topic by time, a page at a time: the queues are read side by side and merged by time."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from rocketeer import MessageQueue, ReceivedMessage
from rocketeer.admin.results import NotAnswered
from rocketeer.aio import Admin
from rocketeer.console.errors import BadField
from rocketeer.console.i18n import text
from rocketeer.errors import RocketeerError

PAGE: Final = 20
PULL: Final = 32
SCANNED_MAX: Final = 4_000
"""Messages looked at for one page: a search that finds little goes on with the next one."""

END_MS: Final = 2**62

MessageTest = Callable[[ReceivedMessage], bool]


@dataclass(frozen=True)
class MessagePage:
    """Messages, oldest first; where the next page begins, empty at the end; brokers that did not answer."""

    messages: list[ReceivedMessage]
    next: str
    failures: tuple[NotAnswered, ...]


async def page_of_messages(
    admin: Admin,
    topic: str,
    *,
    begin_ms: int,
    end_ms: int,
    after: str = "",
    wanted: MessageTest | None = None,
    rows: int = PAGE,
) -> MessagePage:
    """Raises RocketeerError when no broker answers. `after` is the `next` of another page."""
    known = _places(after)
    queues = sorted(await admin.queues(topic), key=lambda queue: (queue.broker_name, queue.queue_id))
    readers = [_Reader(admin, queue, known.get(_name(queue)), begin_ms, end_ms) for queue in queues]
    await _fill(readers)
    errors = {reader.broker: reader.error for reader in readers if reader.error is not None}
    if errors and all(reader.error is not None for reader in readers):
        raise next(iter(errors.values()))
    found: list[ReceivedMessage] = []
    scanned = 0
    while len(found) < rows and scanned < SCANNED_MAX:
        await _fill(readers)
        heads = [(reader.head, reader) for reader in readers if reader.head is not None]
        if not heads:
            break
        message, reader = min(heads, key=lambda each: (each[0].store_ms, each[1].name))
        reader.take()
        scanned += 1
        if wanted is None or wanted(message):
            found.append(message)
    await _fill(readers)
    more = any(reader.head is not None for reader in readers)
    following = ",".join(f"{reader.name}:{reader.place}" for reader in readers if reader.place is not None)
    failures = {reader.broker: reader.error for reader in readers if reader.error is not None}
    return MessagePage(
        found, following if more else "", tuple(NotAnswered(name, error) for name, error in failures.items())
    )


async def _fill(readers: "list[_Reader]") -> None:
    empty = [reader for reader in readers if reader.is_empty]
    if empty:
        await asyncio.gather(*(reader.fill() for reader in empty))


class _Reader:
    """One queue from a place on, until its end or the end of the time asked for, or until its broker fails."""

    def __init__(
        self, admin: Admin, queue: MessageQueue, place: int | None, begin_ms: int, end_ms: int
    ) -> None:
        self.place = place
        self.name = _name(queue)
        self.broker = queue.broker_name
        self.error: RocketeerError | None = None
        self._admin = admin
        self._queue = queue
        self._begin_ms, self._end_ms = begin_ms, end_ms
        self._pulled: list[ReceivedMessage] = []
        self._at = 0
        self._ended = False

    @property
    def head(self) -> ReceivedMessage | None:
        return self._pulled[self._at] if self._at < len(self._pulled) else None

    @property
    def is_empty(self) -> bool:
        return self.head is None and not self._ended

    def take(self) -> None:
        self.place = self._pulled[self._at].queue_offset + 1
        self._at += 1

    async def fill(self) -> None:
        try:
            if self.place is None:
                self.place = await self._admin.offset_at(self._queue, self._begin_ms)
            while self.is_empty:
                await self._pull(self.place)
        except RocketeerError as error:
            self.error, self._ended = error, True

    async def _pull(self, place: int) -> None:
        pulled = await self._admin.pull_messages(self._queue, place, max_count=PULL)
        self._ended = place >= pulled.max_offset
        self._pulled, self._at = [], 0
        for message in pulled.messages:
            if message.store_ms > self._end_ms:
                self._ended = True
                break
            if message.store_ms >= self._begin_ms:
                self._pulled.append(message)
        if not self._pulled:
            self.place = max(pulled.next_offset, place + 1)


def _name(queue: MessageQueue) -> str:
    return f"{queue.broker_name}/{queue.queue_id}"


def _places(given: str) -> dict[str, int]:
    places: dict[str, int] = {}
    for piece in filter(None, given.split(",")):
        name, _, place = piece.rpartition(":")
        if not (place.isascii() and place.isdigit() and len(place) <= 18):
            raise BadField(text("after is not of the form broker/queue:offset,..."))
        places[name] = int(place)
    return places
