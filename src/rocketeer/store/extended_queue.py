"""A consume queue with a unit beside each entry (enableConsumeQueueExt): tag code, store time, bloom bits.

The entry's tag code is the unit's address then. A unit reaches its file before the entry that points to it.
"""

import logging
import os
from collections.abc import Callable
from pathlib import Path

from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.record.dispatch_entry import DispatchEntry
from rocketeer.store.consume_queue import ConsumeQueue, Dispatched
from rocketeer.store.consume_queue_ext import ConsumeQueueExt, ExtUnit, is_address
from rocketeer.store.file_cache import FileCache

log = logging.getLogger(__name__)


class QueueExtension:
    """What all extended queues share. A feature that knows the filters sets `filter_bits`.

    Without bits a message is one nobody has evaluated yet; that is how recovery, which runs before any filter is
    known, writes its units.
    """

    __slots__ = ("file_bytes", "filter_bits", "folder")

    def __init__(self, folder: Path, file_bytes: int) -> None:
        self.folder = folder
        self.file_bytes = file_bytes
        self.filter_bits: Callable[[DispatchEntry], bytes] = lambda entry: b""

    def set_filter_bits(self, filter_bits: Callable[[DispatchEntry], bytes]) -> None:
        """Have units say, from now on, which filters may want their message."""
        self.filter_bits = filter_bits


class ExtendedQueue(ConsumeQueue):
    """A consume queue that stores a unit in `ConsumeQueueExt` for each entry. Belongs to the loop thread."""

    __slots__ = ("_extension", "_units")

    def __init__(
        self,
        folder: str | os.PathLike[str],
        topic: str,
        queue_id: int,
        file_bytes: int,
        files: FileCache,
        extension: QueueExtension,
    ) -> None:
        super().__init__(folder, topic, queue_id, file_bytes, files)
        self._extension = extension
        self._units = ConsumeQueueExt(extension.folder / topic / str(queue_id), extension.file_bytes, files)

    def append(self, entry: Dispatched) -> bool:
        if not self._takes(entry.queue_offset):
            return super().append(entry)  # no unit for what is refused
        assert isinstance(entry, DispatchEntry)
        return self.put(entry.queue_offset, entry.log_offset, entry.size, self._code(entry))

    def unit(self, code: int) -> ExtUnit | None:
        return self._units.read(code)

    def write_out(self) -> None:
        self._units.write_out()
        super().write_out()

    def truncate_to_log(self, log_end: LogOffset) -> int:
        self._units.forget_end()
        return super().truncate_to_log(log_end)

    def raise_min(self, log_min: LogOffset) -> list[str]:
        paths = super().raise_min(log_min)
        first = self.entry(self.min_offset) if paths else None
        return (
            paths + self._units.release_below(first.tag_code)
            if first and is_address(first.tag_code)
            else paths
        )

    def forget(self) -> None:
        super().forget()
        self._units.forget()

    def remove(self) -> None:
        super().remove()
        self._units.remove()

    def _code(self, entry: DispatchEntry) -> int:
        try:
            if not self._units.is_resumed:
                last = self.entry(QueueOffset(self.max_offset - 1))
                self._units.resume(None if last is None else last.tag_code)
        except OSError as error:
            # A disk that fails must not stop dispatch; filters will look at the message itself.
            log.error("queue extension not read topic=%s queue=%d error=%s", self.topic, self.queue_id, error)
            return entry.tag_code
        return self._units.put(entry.tag_code, entry.store_ms, self._extension.filter_bits(entry))
