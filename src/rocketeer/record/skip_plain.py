"""Passing over records that nobody wants to see, in plain Python: what `_skip.pyx` does compiled."""

from typing import TYPE_CHECKING, Final

from rocketeer.model.offsets import LogOffset
from rocketeer.record.dispatch_entry import DispatchEntry
from rocketeer.record.entries_plain import plain_entry
from rocketeer.record.flags import TX_ROLLBACK
from rocketeer.record.layout import Buffer
from rocketeer.record.properties import find_property

if TYPE_CHECKING:
    from rocketeer.record.skip import SkipFilter

_NO_BOUNDARY: Final = LogOffset(-1)


class Skipper:
    """Passes over what nobody wants."""

    def __init__(self, wanted: "SkipFilter", boundary: LogOffset = _NO_BOUNDARY) -> None:
        self._is_wanted = wanted.is_topic
        self._properties = [name.encode() for name in wanted.properties]
        self._boundary = boundary
        self.last_store_ms = 0
        """When the last record that was passed over was stored."""
        self.passed_boundary = False
        """Whether one of the records passed over ends at the log offset `boundary`."""

    def take(self, buf: Buffer, at: int, base: LogOffset, stop: LogOffset) -> int:
        """Where the first record begins that is not passed over, from `at` on; at the latest where `stop` is reached.

        `base` is the log offset of the buffer's first byte.
        """
        while base + at < stop:
            entry = plain_entry(buf, at, LogOffset(base + at))
            if entry is None or not self._is_skipped(entry):
                break
            at += entry.size
            self.last_store_ms = entry.store_ms
            self.passed_boundary = self.passed_boundary or base + at == self._boundary
        return at

    def _is_skipped(self, entry: DispatchEntry) -> bool:
        return not (
            entry.sys_flag & TX_ROLLBACK  # any state of a transaction
            or entry.prepared_offset
            or b"\0" in entry.properties
            or self._is_wanted(entry.topic)
            or any(find_property(entry.properties, name) for name in self._properties)
        )
