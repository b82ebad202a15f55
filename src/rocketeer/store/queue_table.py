"""All consume queues of the store, by topic and queue id. Dispatch fills them, pulls read them."""

import logging
import os
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path

from rocketeer.errors import StoreRefused
from rocketeer.model.offsets import LogOffset
from rocketeer.record.layout import TOPIC_BYTES_MAX
from rocketeer.steps import Steps
from rocketeer.store.consume_queue import ConsumeQueue, count_all_in
from rocketeer.store.extended_queue import ExtendedQueue, QueueExtension
from rocketeer.store.file_cache import FileCache
from rocketeer.store.queue_entries import QueueEnds
from rocketeer.store.queue_entry import ENTRY_BYTES, rounded_file_bytes

log = logging.getLogger(__name__)


EMPTIED_AT_ONCE = 512
"""Removed queues that one step empties."""
DELETED = "deleted"
"""The folder beside the queues where those of a topic that is gone wait until they are deleted."""


class QueueTable:
    """The queues that exist; one is made by the first message for it. Belongs to the loop thread."""

    def __init__(
        self,
        folder: Path,
        file_bytes: int,
        extension: QueueExtension | None = None,
        before_removal: Callable[[], None] = lambda: None,
    ) -> None:
        """With an `extension` every queue has units beside its entries. `before_removal`: called before queues go."""
        self.folder = folder
        self._before_removal = before_removal
        self.extension = extension
        self.files = FileCache()
        self.file_bytes = rounded_file_bytes(file_bytes)
        self.entries_per_file = self.file_bytes // ENTRY_BYTES
        self._by_topic: dict[str, dict[int, ConsumeQueue]] = {}
        """No table of all queues beside it: that of a topic goes at once, however many queues it has."""
        self._count = 0
        self._ends = QueueEnds()
        self._gone = QueueEnds()
        """What removed queues count in."""
        self._removed: deque[ConsumeQueue] = deque()
        self.folders_to_delete: list[Path] = []
        """Folders of topics that are gone, for `delete_folders` in a worker thread."""
        self.removals = 0
        """Grows when queues go: whoever holds on to some asks for them again then."""

    def load(self) -> list[str]:
        """Open what is on disk; says in words what was wrong with it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self._deleted_folder.is_dir():
            self.folders_to_delete = [
                self._deleted_folder / name for name in os.listdir(self._deleted_folder)
            ]
        problems: list[str] = []
        for topic in sorted(os.listdir(self.folder)):
            topic_folder = self.folder / topic
            if not topic_folder.is_dir():
                continue
            for name in sorted(os.listdir(topic_folder)):
                if name.isascii() and name.isdigit():
                    queue = self._new(topic, int(name))
                    found = [*self._wrong_sizes(topic_folder / name), *queue.load()]
                    problems += [f"queue {topic}:{name}: {problem}" for problem in found]
                    self._add(topic, int(name), queue)
        return problems

    def _wrong_sizes(self, folder: Path) -> Iterator[str]:
        with os.scandir(folder) as items:
            for item in items:
                size = item.stat().st_size
                if size != self.file_bytes:
                    yield f"{item.path} has {size} bytes, not {self.file_bytes}"

    def get(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        of_topic = self._by_topic.get(topic)
        return None if of_topic is None else of_topic.get(queue_id)

    def __iter__(self) -> Iterator[ConsumeQueue]:
        """All queues at once: `walk` is for whoever may be interrupted."""
        return chain.from_iterable(of_topic.values() for of_topic in self._by_topic.values())

    def __len__(self) -> int:
        return self._count

    def get_or_make(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue, made if there is none. Raises StoreRefused for a topic that cannot be a folder of that name."""
        queue = self.get(topic, queue_id)
        if queue is None:
            size = len(topic.encode())
            if not 0 < size <= TOPIC_BYTES_MAX:
                raise StoreRefused(
                    StoreRefused.TOO_LARGE,
                    f"the topic's name has {size} bytes, at most {TOPIC_BYTES_MAX} fit",
                )
            if "/" in topic or "\0" in topic or topic in (".", ".."):
                raise StoreRefused(StoreRefused.BAD_TOPIC, f"a topic cannot be named {topic!r}")
            queue = self._new(topic, queue_id)
            self._add(topic, queue_id, queue)
        return queue

    def _add(self, topic: str, queue_id: int, queue: ConsumeQueue) -> None:
        self._by_topic.setdefault(topic, {})[queue_id] = queue
        self._count += 1
        queue.count_in(self._ends)

    def topics(self) -> list[str]:
        """The topics that have queues."""
        return list(self._by_topic)

    def has_topic(self, topic: str) -> bool:
        return topic in self._by_topic

    def of_topic(self, topic: str) -> Mapping[int, ConsumeQueue]:
        """A topic's queues by id; to look at."""
        return self._by_topic.get(topic, {})

    def walk(self) -> Iterator[ConsumeQueue]:
        """One queue after the other, for whoever goes on later: there may be a million. Those that are made
        meanwhile may be left out, those that go are."""
        for topic in self.topics():
            for queue_id in list(self.of_topic(topic)):
                queue = self.of_topic(topic).get(queue_id)
                if queue is not None:
                    yield queue

    def _new(self, topic: str, queue_id: int) -> ConsumeQueue:
        folder = self.folder / topic / str(queue_id)
        if self.extension is not None:
            return ExtendedQueue(folder, topic, queue_id, self.file_bytes, self.files, self.extension)
        return ConsumeQueue(folder, topic, queue_id, self.file_bytes, self.files)

    def note_names(self) -> None:
        """After a crash no name that an earlier life gave is known to be on disk: the next checkpoint syncs all."""
        root = str(self.folder)
        self.files.note_change(root)
        for topic, of_topic in self._by_topic.items():
            self.files.note_change(f"{root}/{topic}")
            for queue_id in of_topic:
                self.files.note_change(f"{root}/{topic}/{queue_id}")

    def offsets_sum(self) -> int:
        """The sum of all queues' ends, as they are now. Each queue keeps it up to date, so it costs nothing to ask.

        It only grows with dispatch: a queue that lost entries makes it smaller.
        """
        return self._ends.total

    def max_log_offset(self) -> LogOffset:
        """The end, in the log, of the newest message in any queue."""
        return max((queue.max_log_offset for queue in self), default=LogOffset(0))

    def cut_to_log(self, log_end: LogOffset) -> int:
        """After a crash: drop all that lies beyond `log_end`, whole or torn; how many entries went."""
        return sum(queue.truncate_to_log(log_end) for queue in self)

    def drop_beyond(self, log_end: LogOffset) -> int:
        """Drop entries that point past the end of the log; how many there were."""
        beyond = [queue for queue in self if queue.max_log_offset > log_end]
        return sum(queue.truncate_to_log(log_end) for queue in beyond)

    def raise_min(self, log_min: LogOffset) -> list[str]:
        """Follow the log's minimum; the paths returned are for `delete_paths` in a worker thread."""
        return [path for queue in self for path in queue.raise_min(log_min)]

    def write_out(self) -> None:
        """Put every tail into files. OSError when the disk is full; nothing is lost then."""
        for queue in self:
            if queue.pending_bytes:
                queue.write_out()

    def remove_expired(
        self, log_min: LogOffset, before_each: Callable[[], None]
    ) -> Steps[list[tuple[str, int]]]:
        """Delete the queues whose newest message lies below the log, one a step; topic and id of each.

        `before_each`: whoever holds on to queues lets go now.
        """
        removed: list[tuple[str, int]] = []
        for queue in self.walk():
            if 0 < queue.max_log_offset <= log_min:
                before_each()
                self._before_removal()
                self.removals += 1
                self._forget(queue)
                queue.remove()
                removed.append((queue.topic, queue.queue_id))
            yield
        return removed

    def remove_topic(self, topic: str) -> int:
        """Delete a topic's queues; how many there were."""
        self.removals += 1
        found = self._by_topic.pop(topic, None)
        if found is None:
            return 0
        self._before_removal()
        queues = list(found.values())
        self._count -= len(queues)
        count_all_in(queues, self._ends, self._gone)
        for folder in (self.folder,) if self.extension is None else (self.folder, self.extension.folder):
            self.files.forget_below(f"{folder}/{topic}/")
            self.files.note_change(str(folder))
            self._move_to_deleted(folder / topic)
        self._removed.extend(queues)
        self.empty_removed()
        return len(queues)

    def empty_removed(self) -> None:
        """Empty some of the removed queues, for readers that still hold them."""
        for _ in range(min(EMPTIED_AT_ONCE, len(self._removed))):
            self._removed.popleft().forget()

    def _move_to_deleted(self, folder: Path) -> None:
        """Move a topic's folder to those that are deleted, at once; the files in it are deleted later."""
        moved = self._deleted_folder / f"{len(self.folders_to_delete)}-{time.monotonic_ns()}"
        try:
            self._deleted_folder.mkdir(exist_ok=True)
            folder.rename(moved)
        except FileNotFoundError:  # nothing was written yet
            return
        except OSError as error:  # at once, then: a topic of this name may come again
            log.warning("topic folder not moved path=%s error=%s", folder, error)
            delete_folders([folder])
            return
        self.folders_to_delete.append(moved)

    @property
    def _deleted_folder(self) -> Path:
        return self.folder.with_name(DELETED)

    def _forget(self, queue: ConsumeQueue) -> None:
        of_topic = self._by_topic[queue.topic]
        del of_topic[queue.queue_id]
        if not of_topic:
            del self._by_topic[queue.topic]
        self._count -= 1
        queue.count_in(self._gone)


def delete_folders(folders: Iterable[Path]) -> None:
    """Delete folders, in a worker thread. What cannot go is logged and left."""
    for folder in folders:
        shutil.rmtree(folder, onerror=_not_deleted)
        log.info("folder deleted path=%s", folder)


def _not_deleted(function: object, path: str, error: object) -> None:
    log.warning("not deleted path=%s error=%s", path, error)
