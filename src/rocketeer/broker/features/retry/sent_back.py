"""What consumers sent back lately: asked again for the same delivery, the broker does not store a second copy.

A message goes back twice when the answer was lost with the broker, or when the group's offset was not on disk yet
and the message is delivered, and fails, again. Then it would be tried on two ways, and end twice in the dead letters.

    known from   the message goes back
    until        the group's offset on disk has passed it: from then on only somebody who wants it consumes it again
    but not      when the group's offset is set back behind it meanwhile, nor longer than `KEEP_MS`

The copies are stored as RocketMQ stores them, which do not say what they are copies of but for the first message's
id and the number of the try. So at start those behind the saved table are matched with the messages that the group
has not passed.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final, Protocol

import msgspec

from rocketeer.errors import BadBody, BadMessageId
from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.model.property_names import ORIGIN_MESSAGE_ID, REAL_TOPIC
from rocketeer.model.topic import DLQ_PREFIX, RETRY_PREFIX, WAITING_TOPICS, retry_topic
from rocketeer.record.entry import DispatchEntry
from rocketeer.record.ids import parse_offset_msg_id
from rocketeer.record.layout import StoredMessage
from rocketeer.steps import Steps, finish
from rocketeer.store.message_store import MessageStore

log = logging.getLogger(__name__)

KEEP_MS: Final = 15 * 60_000
"""As long as a listener may take (RocketMQ's consumeTimeout): a group that never commits must not fill the table."""
COUNT_MAX: Final = 20_000
SAVE_AFTER_BYTES: Final = 64 << 20
"""Most log that is walked over at start."""
READ_COUNT: Final = 256
ENTRIES_A_STEP: Final = 512
LOOK_AT_MAX: Final = 20_000
"""How many messages of a retry queue are looked at, behind the group's offset."""

RetryQueueKey = tuple[str, str, int]
"""(group, topic, queue id) that a message was delivered from."""
DeliveryId = tuple[str, bool, str, int, int, int]
"""(group, whether it is a dead letter, id of the first message, which try it is, when it was born, its CRC)"""


class Committed(Protocol):
    """The groups' committed offsets, as far as this table asks for them."""

    def query(self, group: str, topic: str, queue_id: int) -> QueueOffset | None: ...


class SentBackMessage(msgspec.Struct, gc=False):
    """One message that went back: where it stood in its queue, and where the log with its copy ends."""

    queue_offset: QueueOffset
    copy_end: LogOffset
    sent_ms: int


class SentBackOfQueue(msgspec.Struct):
    """What went back of one queue, by log offset and whether to the dead letters."""

    known: dict[tuple[LogOffset, bool], SentBackMessage] = msgspec.field(default_factory=dict)
    passed: QueueOffset = QueueOffset(0)
    """Where the group stands on disk at least."""
    stood: QueueOffset = QueueOffset(0)
    """Where it stood when the table was made last: offsets that were saved then may be older, the next are not."""


class SavedQueue(msgspec.Struct, rename="camel"):
    """The log offsets of what went back of one group's queues."""

    group: str
    tries: list[LogOffset]
    dead: list[LogOffset]


class SavedTable(msgspec.Struct, rename="camel"):
    """sentBack.json: what went back, and where the log ended when this was so."""

    log_offset: LogOffset
    sent_back: list[SavedQueue]


class SentBack:
    """A table (`encode` ...) and a replay (`since`, `on_message`, `finish`)."""

    file_name = "sentBack.json"

    def __init__(self, store: MessageStore, offsets: Committed) -> None:
        self._store = store
        self._offsets = offsets
        self._places: dict[RetryQueueKey, SentBackOfQueue] = {}
        self._count = 0
        self._copies: dict[DeliveryId, tuple[LogOffset, int]] = {}
        self._saved: SavedTable | None = None
        self._saved_at: LogOffset | None = None
        self._told: tuple[LogOffset, dict[RetryQueueKey, SavedQueue]] | None = None
        """What `refresh` has made, until `encode` takes it."""
        self._set_back: set[RetryQueueKey] = set()
        """Queues that were set back since the last `refresh` began."""
        self._dirty = True  # so that there is a file

    def __len__(self) -> int:
        return self._count

    def copy_end(self, group: str, message: StoredMessage, *, dead: bool) -> LogOffset | None:
        """Where the log with the copy ends, if this delivery went back already, in this way; else None."""
        sends = self._places.get((group, message.topic, message.queue_id))
        sent = None if sends is None else sends.known.get((message.log_offset, dead))
        if sent is None or self._store.expiry_ms() - sent.sent_ms > KEEP_MS:
            return None
        return sent.copy_end

    def remember(self, group: str, message: StoredMessage, copy_end: LogOffset, *, dead: bool) -> None:
        """The message is stored for its next try; the log up to `copy_end` says so."""
        self._add(group, message, dead, copy_end, self._store.expiry_ms())

    def _add(self, group: str, message: StoredMessage, dead: bool, copy_end: LogOffset, sent_ms: int) -> None:
        if self._count >= COUNT_MAX:
            self._forget_one()
        sends = self._places.setdefault((group, message.topic, message.queue_id), SentBackOfQueue())
        self._count += (message.log_offset, dead) not in sends.known
        sends.known[message.log_offset, dead] = SentBackMessage(message.queue_offset, copy_end, sent_ms)
        self._dirty = True

    def _forget_one(self) -> None:
        place, sends = next(iter(self._places.items()))
        del sends.known[next(iter(sends.known))]
        self._count -= 1
        if not sends.known:
            del self._places[place]

    def set_back(self, group: str, topic: str, queue_id: int, before: QueueOffset, now: QueueOffset) -> None:
        """The group was at `before` and is to consume from `now` on again: what fails then is tried again."""
        sends = self._places.get((group, topic, queue_id))
        if sends is not None:
            sends.passed, sends.stood = min(sends.passed, now), min(sends.stood, now)
            self._keep_if(sends, lambda sent: not now <= sent.queue_offset < before)
            self._set_back.add((group, topic, queue_id))
            self._dirty = True

    def _keep_if(self, sends: SentBackOfQueue, wanted: Callable[[SentBackMessage], bool]) -> None:
        before = len(sends.known)
        sends.known = {key: sent for key, sent in sends.known.items() if wanted(sent)}
        self._count -= before - len(sends.known)

    # --- the file ----------------------------------------------------------------------------

    def refresh(self) -> Steps[None]:
        """Make what `encode` tells, in steps; it holds for the log that is on disk when this begins.

        What is remembered meanwhile is not on disk: the log behind will tell of it.
        """
        oldest_ms = self._store.expiry_ms() - KEEP_MS
        told: dict[RetryQueueKey, SavedQueue] = {}
        flushed = self._store.flushed_log_offset
        self._told = flushed, told
        self._set_back.clear()
        for place, sends in list(self._places.items()):
            passed = sends.passed
            saved = told[place] = SavedQueue(place[0], [], [])
            entries = iter(list(sends.known.items()))
            while some := list(islice(entries, ENTRIES_A_STEP)):
                for key, sent in some:
                    if sent.queue_offset < passed or sent.sent_ms < oldest_ms:
                        if sends.known.get(key) is sent:  # and not what came back since this began
                            del sends.known[key]
                            self._count -= 1
                    elif sent.copy_end <= flushed:
                        (saved.dead if key[1] else saved.tries).append(key[0])
                yield
            sends.passed, sends.stood = sends.stood, self._offsets.query(*place) or QueueOffset(0)
            if not sends.known and self._places.get(place) is sends:
                del self._places[place]
                del told[place]

    def encode(self) -> str:
        """What holds for the log on disk. Called after the groups' offsets were saved."""
        if self._told is None:
            finish(self.refresh())
        assert self._told is not None
        (flushed, told), self._told = self._told, None
        for place in self._set_back:  # meanwhile: what it is to consume again did not go back
            if place in told:
                known = self._places.get(place, SentBackOfQueue()).known
                told[place].tries = [at for at in told[place].tries if (at, False) in known]
                told[place].dead = [at for at in told[place].dead if (at, True) in known]
        self._saved_at = flushed
        return msgspec.json.encode(SavedTable(flushed, list(told.values()))).decode()

    def decode(self, text: str) -> None:
        try:
            self._saved = msgspec.json.decode(text, type=SavedTable)
        except (msgspec.DecodeError, ValueError) as error:
            raise BadBody(f"{error}") from None
        self._saved_at = self._saved.log_offset

    def take_dirty(self) -> bool:
        dirty, self._dirty = self._dirty, False
        behind = self._store.flushed_log_offset - (self._saved_at or 0)
        return dirty or bool(self._places) or behind >= SAVE_AFTER_BYTES

    # --- the log at start --------------------------------------------------------------------

    def since(self) -> LogOffset:
        """A store without our table is new, or was written by others: then it is not walked when it is long."""
        low, end = self._store.min_log_offset, self._store.max_log_offset
        if self._saved_at is None:
            return low if end - low <= SAVE_AFTER_BYTES else end
        return min(max(LogOffset(self._saved_at), low), end)

    def on_message(self, entry: DispatchEntry) -> None:
        """A message of the log behind the table; those that went back are the ones of interest."""
        waits = entry.topic in WAITING_TOPICS
        if not waits and not entry.topic.startswith(DLQ_PREFIX):
            return
        message = self._store.message_at(entry.log_offset)
        if message is None:
            return
        properties = message.properties_dict()
        dead = not waits
        topic = entry.topic if dead else properties.get(REAL_TOPIC, "")
        prefix = DLQ_PREFIX if dead else RETRY_PREFIX
        if ORIGIN_MESSAGE_ID in properties and topic.startswith(prefix):
            key = _try(topic[len(prefix) :], dead, message, message.reconsume_times)
            self._copies[key] = (entry.end, entry.store_ms)

    def finish(self) -> None:
        """Find what the copies are copies of; what the group has passed does not matter any more."""
        now_ms = self._store.expiry_ms()
        for saved in [] if self._saved is None else self._saved.sent_back:
            for dead, log_offsets in ((False, saved.tries), (True, saved.dead)):
                for log_offset in log_offsets:
                    message = self._store.message_at(LogOffset(log_offset))
                    if message is not None and self._is_ahead(saved.group, message):
                        self._add(saved.group, message, dead, LogOffset(0), now_ms)
        firsts: defaultdict[str, list[str]] = defaultdict(list)
        for group, _, origin, number, _, _ in self._copies:
            if number == 1:
                firsts[group].append(origin)
        queue_ids: defaultdict[str, list[int]] = defaultdict(list)
        for topic, queue_id in self._store.queues():
            queue_ids[topic].append(queue_id)
        for group in {key[0] for key in self._copies}:
            for message in self._candidates(group, firsts[group], queue_ids[retry_topic(group)]):
                for dead in (False, True):
                    copy = self._copies.get(_try(group, dead, message, message.reconsume_times + 1))
                    if copy is not None and message.log_offset < copy[0] and self._is_ahead(group, message):
                        self._add(group, message, dead, *copy)
        if self._count:
            log.info("messages known to be sent back count=%d", self._count)
        self._saved = None
        self._copies.clear()

    def _is_ahead(self, group: str, message: StoredMessage) -> bool:
        committed = self._offsets.query(group, message.topic, message.queue_id)
        return committed is None or committed <= message.queue_offset

    def _candidates(
        self, group: str, firsts: Sequence[str], queue_ids: Sequence[int]
    ) -> Iterator[StoredMessage]:
        """First tries are named by their copies, others lie in the retry topic behind the group's offset."""
        for origin in firsts:
            message = self._first(origin)
            if message is not None:
                yield message
        topic = retry_topic(group)
        for queue_id in queue_ids:
            at = max(
                self._offsets.query(group, topic, queue_id) or 0,
                self._store.min_queue_offset(topic, queue_id),
            )
            stop = at + LOOK_AT_MAX
            while at < stop and (
                entries := self._store.entries(topic, queue_id, QueueOffset(at), READ_COUNT)
            ):
                for log_offset, _, _ in entries:
                    message = self._store.message_at(log_offset)
                    if message is not None:
                        yield message
                at += len(entries)

    def _first(self, origin: str) -> StoredMessage | None:
        try:
            _, log_offset = parse_offset_msg_id(origin)
        except BadMessageId:
            return None
        message = self._store.named_at(log_offset)
        return message if message is not None and message.offset_msg_id == origin else None


def _try(group: str, dead: bool, message: StoredMessage, number: int) -> DeliveryId:
    """The identity of one delivery, equal for the original and its retry copy; a message sent anew differs by its
    birth time."""
    origin = message.properties_dict().get(ORIGIN_MESSAGE_ID) or message.offset_msg_id
    return group, dead, origin, number, message.born_ms, message.body_crc
