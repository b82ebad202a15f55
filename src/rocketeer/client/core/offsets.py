"""How far a group has consumed each queue: kept here, stored on the broker, or in a file when broadcasting.

Offsets change with every finished message and are stored every few seconds: `unsaved` is what the next store
must write, however often it changed in between.
"""

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from rocketeer.errors import BadBody, ConfigError
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.protocol.bodies.offsets import decode_queue_offsets, encode_queue_offsets
from rocketeer.whole_file import write_synced

FOLDER: Final = Path("~/.rocketmq_offsets")
"""Where Java's broadcasting consumers keep theirs; a member that moves to Python goes on where it was."""


class OffsetTable:
    """Offsets of the queues in hand, and which of them are not stored yet."""

    def __init__(self) -> None:
        self._offsets: dict[MessageQueue, QueueOffset] = {}
        self._saved: dict[MessageQueue, QueueOffset] = {}

    def get(self, queue: MessageQueue) -> QueueOffset | None:
        return self._offsets.get(queue)

    def update(self, queue: MessageQueue, offset: QueueOffset, *, only_forward: bool = True) -> None:
        """`only_forward=False` when somebody set the offset back on purpose."""
        if not only_forward or offset > self._offsets.get(queue, -1):
            self._offsets[queue] = offset

    def known(self, queue: MessageQueue, offset: QueueOffset) -> None:
        """The broker or the file said so: nothing to store."""
        self._offsets[queue] = self._saved[queue] = offset

    def unsaved(self) -> dict[MessageQueue, QueueOffset]:
        saved = self._saved
        return {queue: offset for queue, offset in self._offsets.items() if saved.get(queue) != offset}

    def unsaved_of(self, queue: MessageQueue) -> QueueOffset | None:
        """The queue's offset; None when it is stored already, or there is none."""
        offset = self._offsets.get(queue)
        return None if offset == self._saved.get(queue) else offset

    def saved(self, queue: MessageQueue, offset: QueueOffset) -> None:
        """This offset is stored; a newer one set meanwhile stays unsaved."""
        if queue in self._offsets:
            self._saved[queue] = offset

    def unsure(self, queue: MessageQueue) -> None:
        """Something else may be stored by now: the offset has to be stored again, even if it was before."""
        self._saved.pop(queue, None)

    def forget(self, queue: MessageQueue) -> None:
        self._offsets.pop(queue, None)
        self._saved.pop(queue, None)

    def of_topic(self, topic: str) -> dict[MessageQueue, QueueOffset]:
        return {queue: offset for queue, offset in self._offsets.items() if queue.topic == topic}


class OffsetFile:
    """`offsets.json` of a broadcasting consumer, as Java writes it; the file before it stays as `.bak`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._backup = path.with_name(path.name + ".bak")

    @classmethod
    def at(cls, client_id: str, group: str, folder: Path | None = None) -> "OffsetFile":
        return cls((folder or FOLDER).expanduser() / client_id / group / "offsets.json")

    def load(self) -> dict[MessageQueue, QueueOffset]:
        """What was stored last; the backup's when the file is broken, none when there is neither."""
        problem: Exception | None = None
        for path in (self.path, self._backup):
            try:
                data = path.read_bytes()
                if data.strip():
                    return {
                        queue: QueueOffset(offset) for queue, offset in decode_queue_offsets(data).items()
                    }
            except FileNotFoundError:
                continue
            except (OSError, BadBody) as error:
                problem = problem or error
        if problem is not None:
            raise ConfigError(
                f"the offsets in {self.path} cannot be read: {problem}; repair or delete the file"
            )
        return {}

    def save(self, offsets: Mapping[MessageQueue, QueueOffset]) -> None:
        """Old or new, never half of it: a crash may come at any time."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.path.with_name(self.path.name + ".tmp")
        write_synced(fresh, (encode_queue_offsets(offsets),))
        with contextlib.suppress(FileNotFoundError):
            self.path.replace(self._backup)
        fresh.replace(self.path)


def merged(
    stored: Mapping[MessageQueue, QueueOffset], queues: Iterable[tuple[MessageQueue, QueueOffset]]
) -> dict[MessageQueue, QueueOffset]:
    """The file holds every queue ever consumed, not only those in hand now."""
    return {**stored, **dict(queues)}
