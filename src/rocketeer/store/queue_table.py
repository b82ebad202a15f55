"""All consume queues of the store, by topic and queue id. Dispatch fills them, pulls read them."""

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from rocketeer.errors import StoreRefused
from rocketeer.model.offsets import LogOffset
from rocketeer.record.layout import TOPIC_BYTES_MAX
from rocketeer.steps import Steps
from rocketeer.store.consume_queue import ENTRY_BYTES, ConsumeQueue, rounded_file_bytes
from rocketeer.store.extended_queue import ExtendedQueue, QueueExtension
from rocketeer.store.file_cache import FileCache

log = logging.getLogger(__name__)


class QueueTable:
    """The queues that exist; one is made by the first message for it. Belongs to the loop thread."""

    def __init__(self, folder: Path, file_bytes: int, extension: QueueExtension | None = None) -> None:
        """With an `extension` every queue has units beside its entries."""
        self.folder = folder
        self.extension = extension
        self.files = FileCache()
        self.file_bytes = rounded_file_bytes(file_bytes)
        self.entries_per_file = self.file_bytes // ENTRY_BYTES
        self.by_key: dict[tuple[str, int], ConsumeQueue] = {}
        self.removals = 0
        """Grows when queues go: whoever holds on to some asks for them again then."""

    def load(self) -> list[str]:
        """Open what is on disk; says in words what was wrong with it."""
        self.folder.mkdir(parents=True, exist_ok=True)
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
                    self.by_key[topic, int(name)] = queue
        return problems

    def _wrong_sizes(self, folder: Path) -> Iterator[str]:
        with os.scandir(folder) as items:
            for item in items:
                size = item.stat().st_size
                if size != self.file_bytes:
                    yield f"{item.path} has {size} bytes, not {self.file_bytes}"

    def get(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        return self.by_key.get((topic, queue_id))

    def get_or_make(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Raises StoreRefused for a topic that cannot be a folder of that name."""
        queue = self.by_key.get((topic, queue_id))
        if queue is None:
            size = len(topic.encode())
            if not 0 < size <= TOPIC_BYTES_MAX:
                raise StoreRefused(
                    StoreRefused.TOO_LARGE,
                    f"the topic's name has {size} bytes, at most {TOPIC_BYTES_MAX} fit",
                )
            if "/" in topic or "\0" in topic or topic in (".", ".."):
                raise StoreRefused(StoreRefused.BAD_TOPIC, f"a topic cannot be named {topic!r}")
            queue = self.by_key[topic, queue_id] = self._new(topic, queue_id)
        return queue

    def _new(self, topic: str, queue_id: int) -> ConsumeQueue:
        folder = self.folder / topic / str(queue_id)
        if self.extension is not None:
            return ExtendedQueue(folder, topic, queue_id, self.file_bytes, self.files, self.extension)
        return ConsumeQueue(folder, topic, queue_id, self.file_bytes, self.files)

    def note_names(self) -> None:
        """After a crash no name that an earlier life gave is known to be on disk: the next checkpoint syncs all."""
        root = str(self.folder)
        self.files.note_change(root)
        for topic, queue_id in self.by_key:
            self.files.note_change(f"{root}/{topic}")
            self.files.note_change(f"{root}/{topic}/{queue_id}")

    def offsets_sum(self) -> int:
        """Of all queues' ends. It only changes with dispatch: a queue that lost entries makes it smaller."""
        return sum(queue.max_offset for queue in self.by_key.values())

    def max_log_offset(self) -> LogOffset:
        """The end, in the log, of the newest message in any queue."""
        return max((queue.max_log_offset for queue in self.by_key.values()), default=LogOffset(0))

    def cut_to_log(self, log_end: LogOffset) -> int:
        """After a crash: drop all that lies beyond `log_end`, whole or torn; how many entries went."""
        return sum(queue.truncate_to_log(log_end) for queue in self.by_key.values())

    def drop_beyond(self, log_end: LogOffset) -> int:
        """Drop entries that point past the end of the log; how many there were."""
        beyond = [queue for queue in self.by_key.values() if queue.max_log_offset > log_end]
        return sum(queue.truncate_to_log(log_end) for queue in beyond)

    def raise_min(self, log_min: LogOffset) -> list[str]:
        """Follow the log's minimum; the paths returned are for `delete_paths` in a worker thread."""
        return [path for queue in self.by_key.values() for path in queue.raise_min(log_min)]

    def write_out(self) -> None:
        """Put every tail into files. OSError when the disk is full; nothing is lost then."""
        for queue in self.by_key.values():
            if queue.pending_bytes:
                queue.write_out()

    def remove_expired(
        self, log_min: LogOffset, before_each: Callable[[], None]
    ) -> Steps[list[tuple[str, int]]]:
        """Delete the queues whose newest message lies below the log, one a step; topic and id of each."""
        removed: list[tuple[str, int]] = []
        for key in list(self.by_key):
            queue = self.by_key.get(key)
            if queue is not None and 0 < queue.max_log_offset <= log_min:
                before_each()
                self.removals += 1
                del self.by_key[key]
                queue.remove()
                removed.append(key)
            yield
        return removed

    def remove_topic(self, topic: str) -> int:
        """Delete a topic's queues; how many there were."""
        self.removals += 1
        keys = [key for key in self.by_key if key[0] == topic]
        for key in keys:
            self.by_key.pop(key).remove()
        if keys:
            self.files.note_change(str(self.folder))
            try:
                (self.folder / topic).rmdir()
            except FileNotFoundError:
                pass
            except OSError as error:  # something that is not ours lies there
                log.warning("topic folder not removed topic=%s error=%s", topic, error)
        return len(keys)
