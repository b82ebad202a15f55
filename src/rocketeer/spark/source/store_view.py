"""The driver's view of a store's files: the same questions as of brokers, answered from the disk."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketeer.errors import ConfigError, StoreError
from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.spark.source.offsets import QueueOffsets
from rocketeer.spark.source.options import SourceOptions
from rocketeer.spark.source.planning import QueueRange
from rocketeer.spark.source.store_tail import LogTail, TailKey, as_entries
from rocketeer.store.checkpoint import read_checkpoint
from rocketeer.store.queue_entry import ENTRY_COLUMNS
from rocketeer.store.store_files import LogFilesView, QueueFilesView, is_blank, topic_queues

_SAMPLE = 1000


@dataclass(frozen=True)
class StorePlace:
    """Where an executor reads a range: the store's folder, and the entries no file has yet."""

    store: str
    tail_begin: QueueOffset
    tail: bytes
    """As in a consume queue's file, from queue offset `tail_begin` on."""


class StoreView:
    """Follows the log of a living store; a copy just stays as it is."""

    def __init__(self, options: SourceOptions) -> None:
        assert options.store_path is not None
        self._options = options
        self._store = Path(options.store_path).absolute()
        if not self._store.is_dir():
            raise StoreError(f"storePath {options.store_path!r} is not a folder")
        self._log = LogFilesView(self._store)
        self._files: dict[TailKey, QueueFilesView] = {}
        self._on_disk: dict[TailKey, QueueOffset] = {}
        """How far the files go, which only grows; entries behind are in the tail."""
        self._tail = LogTail(self._log, self._safe_start(), options.wants)

    has_answered = True

    def broker_label(self, error: Exception) -> str:
        return self._options.broker_name

    def queues(self) -> frozenset[MessageQueue]:
        self._log.refresh()
        self._tail.follow()
        self._forget_written()
        found = {
            (topic, queue_id)
            for topic, ids in topic_queues(self._store).items()
            if self._options.wants(topic)
            for queue_id in ids
        } | set(self._tail.entries)
        options = self._options
        if options.assign is not None:
            self._check([queue.topic for queue in options.assign], found)
            return options.assign
        if options.subscribe is not None:
            self._check(options.subscribe, found)
        return frozenset(MessageQueue(topic, options.broker_name, queue_id) for topic, queue_id in found)

    def check_filter(self, queues: Iterable[MessageQueue]) -> None:
        """Tags need no check, and SQL was refused with the options."""

    def lows(self, queues: Iterable[MessageQueue]) -> QueueOffsets:
        return {queue: self._low(queue) for queue in queues}

    def highs(self, queues: Iterable[MessageQueue]) -> QueueOffsets:
        self._tail.follow()
        return {queue: self._high(queue) for queue in queues}

    def has_master(self, queue: MessageQueue) -> bool:
        return True

    def first_at(self, queue: MessageQueue, time_ms: int) -> QueueOffset | None:
        low, high = self._low(queue), self.highs([queue])[queue]
        end = high
        while low < high:
            middle = QueueOffset((low + high) // 2)
            entry = self._entry(queue, middle)
            if entry is None or is_blank(entry) or self._log.stored_ms(_where(entry)[0]) < time_ms:
                low = QueueOffset(middle + 1)
            else:
                high = middle
        return low if low < end else None

    def stored_ms(self, queue: MessageQueue, offset: QueueOffset) -> int | None:
        entry = self._entry(queue, offset)
        if entry is None or is_blank(entry):
            return None
        return self._log.stored_ms(_where(entry)[0])

    def mean_bytes(self, queue: MessageQueue, offset: QueueOffset) -> float:
        sizes = self._entries(queue, offset, QueueOffset(offset + _SAMPLE))["size"]
        return float(sizes.mean()) if len(sizes) else 1.0

    def place(self, piece: QueueRange) -> StorePlace:
        """With the entries of the range that are in no file."""
        key = _key(piece.queue)
        begin = max(piece.begin, self._disk_end(key))
        tail = as_entries(self._tail.entries.get(key, []), begin)[: max(piece.end - begin, 0)]
        return StorePlace(str(self._store), begin, tail.tobytes())

    def commit(self, group: str, places: QueueOffsets) -> None:
        raise AssertionError("refused when the options were read")

    def close(self) -> None:
        pass

    # --- inside ------------------------------------------------------------------------------

    def _forget_written(self) -> None:
        """Entries that reached the queues' files by now need no place in memory: a stream may run for months."""
        for key in [key for key, tail in self._tail.entries.items() if len(tail) > _SAMPLE]:
            end = _bounds(self._queue_files(key))[1]
            if end > self._disk_end(key):
                self._on_disk[key] = end
                self._tail.forget_below(key, end)

    def _check(self, topics: Iterable[str], found: set[TailKey]) -> None:
        there = {topic for topic, _ in found}
        for topic in topics:
            if topic not in there:
                known = ", ".join(sorted(topic_queues(self._store))[:20]) or "none"
                raise ConfigError(f"the store {self._store} has no topic {topic!r}; it has {known}")
        if self._options.assign is not None:
            for queue in self._options.assign:
                if queue.broker_name != self._options.broker_name:
                    raise ConfigError(
                        f"option 'assign' names broker {queue.broker_name!r}, the option brokerName says "
                        f"{self._options.broker_name!r}"
                    )
                if _key(queue) not in found and queue.queue_id >= self._queues_of(queue.topic):
                    ids = sorted(queue_id for topic, queue_id in found if topic == queue.topic)
                    raise ConfigError(
                        f"option 'assign' names queue {queue.queue_id} of topic {queue.topic!r}, which the store "
                        f"{self._store} does not have; it has {', '.join(map(str, ids))}"
                    )

    def _queues_of(self, topic: str) -> int:
        """How many the broker's table of topics gives it: those without a message have no files."""
        path = self._store / "config" / "topics.json"
        if not path.exists():
            return 0
        try:
            known = json.loads(path.read_bytes())["topicConfigTable"].get(topic, {})
            return int(known.get("readQueueNums", 0))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StoreError(f"{path} is no table of topics: {error}") from None

    def _safe_start(self) -> LogOffset:
        """A place in the log before which no message is missing in the files of the queues."""
        saved = read_checkpoint(self._store / "checkpoint")
        if saved.dispatched_offset is not None:
            return max(saved.dispatched_offset, self._log.min_offset)
        safe_ms = saved.recover_from_ms
        best = self._log.min_offset
        for topic, ids in topic_queues(self._store).items():
            for queue_id in ids:
                best = max(best, self._last_before((topic, queue_id), safe_ms))
        return best

    def _last_before(self, key: TailKey, time_ms: int) -> LogOffset:
        files = self._queue_files(key)
        low, high = _bounds(files)
        low = self._first_alive(files, low, high)
        best = LogOffset(0)
        while low < high:
            middle = QueueOffset((low + high) // 2)
            entries = files.entries(middle, QueueOffset(middle + 1))
            if not len(entries):
                high = middle
                continue
            at, size = _where(entries[0])
            if self._log.has(at, size) and self._log.stored_ms(at) < time_ms:
                best = at
                low = QueueOffset(middle + 1)
            else:
                high = middle
        return best

    def _low(self, queue: MessageQueue) -> QueueOffset:
        key = _key(queue)
        files = self._queue_files(key)
        first, end = _bounds(files)
        found = self._first_alive(files, first, end)
        if first == end and (tail := self._tail.entries.get(key)):
            return tail[0][0]
        return found

    def _first_alive(self, files: QueueFilesView, low: QueueOffset, high: QueueOffset) -> QueueOffset:
        """The first entry that is no blank and whose record retention has not deleted."""
        oldest = self._log.min_offset
        while low < high:
            middle = QueueOffset((low + high) // 2)
            entries = files.entries(middle, QueueOffset(middle + 1))
            if len(entries) and (is_blank(entries[0]) or int(entries[0]["log_offset"]) < oldest):
                low = QueueOffset(middle + 1)
            else:
                high = middle
        return low

    def _high(self, queue: MessageQueue) -> QueueOffset:
        key = _key(queue)
        end = self._disk_end(key)
        tail = self._tail.entries.get(key)
        if not tail:
            return end
        if not end and not _bounds(self._queue_files(key))[1]:
            end = tail[0][0]
        return QueueOffset(end + len(as_entries(tail, end)))

    def _disk_end(self, key: TailKey) -> QueueOffset:
        """How far the files go, without entries whose record is not there (a copy taken while a broker ran)."""
        if key not in self._on_disk:
            files = self._queue_files(key)
            first, end = _bounds(files)
            low, high = self._first_alive(files, first, end), end
            last = files.entries(QueueOffset(end - 1), end) if end > first else None
            if last is not None and len(last) and not self._log.has(*_where(last[0])):
                while low < high:
                    middle = QueueOffset((low + high) // 2)
                    entry = files.entries(middle, QueueOffset(middle + 1))
                    if len(entry) and self._log.has(*_where(entry[0])):
                        low = QueueOffset(middle + 1)
                    else:
                        high = middle
                end = low
            self._on_disk[key] = end
        return self._on_disk[key]

    def _entry(self, queue: MessageQueue, offset: QueueOffset) -> Any | None:
        found = self._entries(queue, offset, QueueOffset(offset + 1))
        return found[0] if len(found) else None

    def _entries(self, queue: MessageQueue, begin: QueueOffset, end: QueueOffset) -> NDArray[Any]:
        key = _key(queue)
        on_disk = self._disk_end(key)
        if begin < on_disk:
            return self._queue_files(key).entries(begin, min(end, on_disk))
        return as_entries(self._tail.entries.get(key, []), begin)[: end - begin]

    def _queue_files(self, key: TailKey) -> QueueFilesView:
        return self._files.setdefault(key, QueueFilesView(self._store, *key))


def _key(queue: MessageQueue) -> TailKey:
    return queue.topic, queue.queue_id


def _bounds(files: QueueFilesView) -> tuple[QueueOffset, QueueOffset]:
    first, end = files.bounds()
    return QueueOffset(first), QueueOffset(end)


def _where(entry: Any) -> tuple[LogOffset, int]:
    return LogOffset(int(entry["log_offset"])), int(entry["size"])


def place_entries(
    place: StorePlace, files: QueueFilesView, begin: QueueOffset, end: QueueOffset
) -> NDArray[Any]:
    """Entries [begin, end) as far as they are there, from the files and then from what came along."""
    tail = np.frombuffer(place.tail, dtype=ENTRY_COLUMNS)
    if begin >= place.tail_begin:
        return tail[begin - place.tail_begin : end - place.tail_begin]
    return files.entries(begin, min(end, place.tail_begin))
