"""The index: messages by key. Fed by dispatch, asked by queries; a row of `IndexFile`s, the last one growing.

Dispatch only collects (`add`); `flush_pending` writes slices of what waits. What waits is lost with the
process and costs nothing: recovery dispatches again from `safe_offset`.
"""

import logging
import os
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np

from rocketeer.clock import Clock
from rocketeer.model.offsets import LogOffset
from rocketeer.record.entry import DispatchEntry
from rocketeer.record.java_hash import index_hash
from rocketeer.record.layout import TOPIC_BYTES_MAX
from rocketeer.record.properties import PROPERTIES_BYTES_MAX
from rocketeer.store.index_file import ChangedSlots, IndexFile
from rocketeer.store.index_layout import IndexHeader, file_bytes
from rocketeer.store.index_loops import key_columns
from rocketeer.store.index_next import NextIndexFile
from rocketeer.store.index_slice import IndexSlice

log = logging.getLogger(__name__)

SLICE_MESSAGES = 512
SLICE_KEYS = 2_048
"""Largest slice to write in one go: a key may touch a page of slots for the first time, which takes microseconds."""
GATHER_CHARS = 64 << 10
"""About how many characters of keys are hashed in one go."""
WAITING_KEYS_MAX = 1_000_000
"""Beyond this many waiting keys, whoever brings more waits until as many are written."""
FULL_MAX = 4
"""Most full files that wait for a checkpoint to write their slots; small ones fill faster than it comes."""


KeyColumnTexts = tuple[bytes, bytes, bytes]
"""Hash, log offset and store time of every key, as the bytes of three arrays."""


class PendingKeys(NamedTuple):
    """The keys of messages next to each other, on their way into files."""

    columns: KeyColumnTexts
    messages: int
    first: LogOffset
    end: LogOffset

    @property
    def keys(self) -> int:
        return len(self.columns[0]) // 4


class Index:
    """Every key of every message below `safe_offset`, in files named by the time they were made.

    Belongs to the loop thread.
    """

    def __init__(self, folder: str | os.PathLike[str], slots: int, entries: int, clock: Clock) -> None:
        self._folder = os.fspath(folder)
        self._slots_max = slots
        self._entries_max = entries
        self._clock = clock
        self._files: list[IndexFile] = []
        self._pending: deque[PendingKeys] = deque()
        self._loose: list[DispatchEntry] = []
        self._loose_chars = 0
        self._count = 0
        self._keys = 0
        self._slice: IndexSlice | None = None
        self._full: list[IndexFile] = []
        """Files that take no more entries, until their slots are written."""
        self._unsynced: set[str] = set()
        self.next_offset = LogOffset(0)
        """Messages below it are in the files: dispatching them again adds nothing."""
        self._next_file = NextIndexFile(self._folder, slots, entries)

    # --- filling -----------------------------------------------------------------------------

    def add(self, entry: DispatchEntry) -> None:
        """Collect one message."""
        self._loose.append(entry)
        self._loose_chars += len(entry.keys)
        if len(self._loose) >= SLICE_MESSAGES or self._loose_chars > GATHER_CHARS:
            self._gather()
            self._loose_chars = 0

    def extend(self, entries: Sequence[DispatchEntry]) -> None:
        """Collect messages that follow each other."""
        self._loose += entries
        if len(self._loose) >= SLICE_MESSAGES:
            self._gather()

    def extend_columns(
        self, columns: KeyColumnTexts, messages: int, first: LogOffset, end: LogOffset
    ) -> None:
        """Collect `messages` messages, in the log from `first` to `end`, whose keys the caller has hashed.

        The columns are the bytes of what `key_columns` gives.
        """
        if self._loose:
            self._gather()
        self._wait(PendingKeys(columns, messages, first, end))

    def _wait(self, run: PendingKeys) -> None:
        self._pending.append(run)
        self._count += run.messages
        self._keys += run.keys
        if self._keys > WAITING_KEYS_MAX:
            self._write_some(run.keys + SLICE_KEYS)

    def _write_some(self, keys: int) -> None:
        try:
            while keys > 0 and self._write_slice(SLICE_MESSAGES):
                keys -= SLICE_KEYS
        except OSError:
            pass  # a full disk: they wait, and whoever calls `flush_pending` says so

    def _gather(self) -> None:
        while self._loose:
            self._gather_some()

    def _gather_some(self) -> None:
        """Gather columns of the next few waiting messages, up to GATHER_CHARS characters of keys."""
        chars = count = 0
        for entry in self._loose:
            chars += len(entry.keys)
            count += 1
            if chars > GATHER_CHARS:
                break
        loose, self._loose = self._loose[:count], self._loose[count:]
        last = loose[-1]
        end = LogOffset(last.log_offset + last.size)
        self._wait(PendingKeys(key_columns(loose), len(loose), loose[0].log_offset, end))

    @property
    def pending_count(self) -> int:
        """Messages collected and not yet written."""
        return self._count + len(self._loose)

    @property
    def pending_keys(self) -> int:
        """Keys of messages collected and not yet written; each takes 20 bytes of memory."""
        return self._keys

    def safe_offset(self, dispatched_offset: LogOffset) -> LogOffset:
        """Up to where the index is written, given up to where messages were dispatched to it."""
        if self._pending:
            return self._pending[0].first
        return self._loose[0].log_offset if self._loose else dispatched_offset

    def flush_pending(self, limit: int = SLICE_MESSAGES) -> bool:
        """Write up to `limit` waiting messages; False if none waits. OSError (no space): they still wait.

        A call may only make the file ready that will hold them: True means something was done.
        """
        if self._loose:
            self._gather()
        return self._write_slice(limit)

    def _write_slice(self, limit: int) -> bool:
        if not self._pending:
            return False
        if not self._is_file_ready():
            return True
        if self._slice is None:
            self._slice = self._next_slice(limit)
        batch = self._slice
        end = min(batch.done + SLICE_KEYS, len(batch.hashes))
        while batch.done < end:
            file, here = self._file_to_fill(), slice(batch.done, end)
            batch.done += file.put_many(batch.hashes[here], batch.log_offsets[here], batch.store_ms[here])
            self._unsynced.add(file.path)
        if end < len(batch.hashes):
            return True
        self._slice = None
        self.next_offset = batch.end_offset
        for _ in range(batch.runs):
            run = self._pending.popleft()
            self._count -= run.messages
            self._keys -= run.keys
        return True

    def _next_slice(self, limit: int) -> IndexSlice:
        runs = []
        messages = keys = 0
        for run in self._pending:
            runs.append(run)
            messages += run.messages
            keys += run.keys
            if messages >= limit or keys >= SLICE_KEYS:
                break
        hashes, offsets, times = (
            b"".join(parts) for parts in zip(*[run.columns for run in runs], strict=True)
        )
        hashed = np.frombuffer(hashes, np.int32)
        log_offsets = np.frombuffer(offsets, np.int64)
        store_ms = np.frombuffer(times, np.int64)
        if runs[0].first < self.next_offset:  # dispatched again after a crash
            fresh = log_offsets >= self.next_offset
            hashed, log_offsets, store_ms = hashed[fresh], log_offsets[fresh], store_ms[fresh]
        end = max(runs[-1].end, self.next_offset)
        return IndexSlice(hashed, log_offsets, store_ms, runs=len(runs), end_offset=end)

    def _is_file_ready(self) -> bool:
        """Is there a file with room? The one after it is made ready meanwhile, one small step each time."""
        room = self._files[-1].room if self._files else 0
        if room > self._entries_max // 2 or self._next_file.is_ready:
            return True
        os.makedirs(self._folder, exist_ok=True)
        self._next_file.step()
        return room > 0 or self._next_file.is_ready

    def _file_to_fill(self) -> IndexFile:
        last = self._files[-1] if self._files else None
        if last is not None and last.room:
            return last
        header = IndexHeader()
        if last is not None:
            before = last.header
            self._full.append(last)
            if len(self._full) > FULL_MAX:
                first = self._full.pop(0)
                first.mark_all()  # also what a thread may be writing just now, and fail at
                first.close()
            header = IndexHeader(before.end_ms, before.end_ms, before.end_offset, before.end_offset)
        path = os.path.join(self._folder, self._new_name())
        file = self._next_file.finish(path, header)
        self._next_file = NextIndexFile(self._folder, self._slots_max, self._entries_max)
        log.info("index file made path=%s", path)
        self._files.append(file)
        self._unsynced.update((path, self._folder))
        return file

    def _new_name(self) -> str:
        """The time to the millisecond, as RocketMQ; after the last one's, because names give the order."""
        now_ms = self._clock.now_ms()
        name = _name_of(datetime.fromtimestamp(now_ms / 1000))
        last = os.path.basename(self._files[-1].path) if self._files else ""
        if name > last:
            return name
        return _name_of(datetime.strptime(last + "000", "%Y%m%d%H%M%S%f") + timedelta(milliseconds=1))

    def take_unsynced(self) -> tuple[list[ChangedSlots], list[str]]:
        """For a thread: slots to write, then paths to sync. What the last call gave is written, or `write_again`."""
        for file in self._full:
            if not file.is_changed:
                file.unmap()
        self._full = [file for file in self._full if file.is_changed]
        changed = [slots for file in self._files if (slots := file.take_changed_slots()) is not None]
        paths = sorted(self._unsynced)
        self._unsynced.clear()
        return changed, paths

    def write_again(self) -> None:
        """Mark everything for writing again, after writing what `take_unsynced` gave has failed."""
        for file in self._files:
            file.mark_all()

    # --- asking ------------------------------------------------------------------------------

    @property
    def last_update(self) -> tuple[int, LogOffset]:
        """Store time and log offset of the newest entry: a query's answer tells them."""
        if not self._files:
            return 0, LogOffset(0)
        header = self._files[-1].header
        return header.end_ms, header.end_offset

    def querying(self, topic: str, key: str, begin_ms: int, end_ms: int) -> Iterator[LogOffset | None]:
        """Log offsets that may hold the key, newest first; None after each step that found nothing.

        Hashes collide: callers check the real keys.
        """
        if len(topic) > TOPIC_BYTES_MAX or len(key) > PROPERTIES_BYTES_MAX:
            return  # no message has them so long, and hashing them would take a while
        try:
            while self.flush_pending():
                yield None
        except OSError:
            pass  # a full disk stops writing, not reading; whoever fills the index says so
        wanted = index_hash(f"{topic}#{key}")
        for run in list(reversed(self._pending)):
            yield from self._waiting(run, wanted, begin_ms, end_ms)
            yield None
        for file in list(reversed(self._files)):
            if file.overlaps(begin_ms, end_ms):
                try:
                    for offset in file.selecting(wanted, begin_ms, end_ms):
                        yield offset
                        if file not in self._files:  # it expired meanwhile
                            return
                finally:
                    if file in self._files and file is not self._files[-1] and file not in self._full:
                        file.close()
            if file.header.begin_ms < begin_ms:
                break

    def _waiting(self, run: PendingKeys, wanted: int, begin_ms: int, end_ms: int) -> list[LogOffset]:
        """As `querying`, among messages that no file has yet."""
        hashes, offsets, times = run.columns
        store_ms = np.frombuffer(times, np.int64)
        same = np.frombuffer(hashes, np.int32) == wanted
        same &= (begin_ms <= store_ms) & (store_ms <= end_ms)
        found: list[LogOffset] = np.frombuffer(offsets, np.int64)[same][::-1].tolist()
        return found

    # --- opening, repairing, ageing ----------------------------------------------------------

    def load(self, *, clean: bool, safe_offset: LogOffset | None = None, index_ms: int = 0) -> list[str]:
        """Open the files; says in words what was dropped and must be dispatched again, from `next_offset` on.

        After a crash (not `clean`) entries at or beyond `safe_offset` are dropped. Without one (a Java
        broker crashed here) files that end after the checkpoint's `index_ms` are, as RocketMQ does.
        """
        problems: list[str] = []
        self._next_file.discard()
        names = self._names()
        for at, name in enumerate(names):
            path = os.path.join(self._folder, name)
            problem = self._load_file(path, clean, safe_offset, index_ms)
            if problem:
                # Entries are in the order of the log: behind a missing file everything is made again.
                for later in names[at:]:
                    os.unlink(os.path.join(self._folder, later))
                problems.append(f"{name}: {problem}")
                log.warning("index files dropped first=%s count=%d reason=%s", path, len(names) - at, problem)
                break
        if self._files:
            self.next_offset = LogOffset(self._files[-1].header.end_offset + 1)
        return problems

    def _load_file(self, path: str, clean: bool, safe_offset: LogOffset | None, index_ms: int) -> str | None:
        """None if the file is in use now, else why it cannot be."""
        expected = file_bytes(self._slots_max, self._entries_max)
        size = os.stat(path).st_size
        if size != expected:
            return f"has {size} bytes, not {expected}"
        file = IndexFile(path, self._slots_max, self._entries_max)
        head = file.header
        if head.next_entry > self._entries_max or head.end_offset < head.begin_offset:
            return f"header makes no sense: {head}"
        if not clean and safe_offset is None and head.end_ms > index_ms:
            return "not known to be whole after a crash"
        if not clean and safe_offset is not None and (head.end_offset >= safe_offset or file.room):
            try:
                dropped = file.keep_below(safe_offset)
            except OSError as error:
                return f"cannot be mended: {error}"
            log.info("index file mended path=%s dropped_entries=%d", path, dropped)
            self._unsynced.add(path)
        if file.is_empty:
            file.unmap()
            if safe_offset is None or clean or head.next_entry <= 1:
                return "holds no entry"
            os.unlink(path)  # all it had came after the checkpoint: that is made again anyway
            self._unsynced.discard(path)
            self._unsynced.add(self._folder)
            return None
        self._files.append(file)
        return None

    def cut_to_log(self, log_end: LogOffset) -> int:
        """Drop every entry at or beyond `log_end`, because the log now ends there; how many went."""
        while self.flush_pending():
            pass
        dropped = 0
        while self._files and self._files[-1].header.end_offset >= log_end:
            last = self._files[-1]
            dropped += last.keep_below(log_end)
            self._unsynced.add(last.path)
            if not last.is_empty:
                break
            last.unmap()
            os.unlink(last.path)
            self._files.pop()
        self._full = [file for file in self._full if file in self._files]
        self.next_offset = min(self.next_offset, log_end)
        return dropped

    def delete_below(self, log_min: LogOffset) -> list[str]:
        """Files whose every entry is below the log's minimum leave the index (the last one never does).

        The paths returned are for `delete_paths` in a worker thread.
        """
        gone = 0
        while gone < len(self._files) - 1 and self._files[gone].header.end_offset < log_min:
            self._files[gone].unmap()
            gone += 1
        paths = [file.path for file in self._files[:gone]]
        del self._files[:gone]
        self._full = [file for file in self._full if file in self._files]
        self._unsynced.difference_update(paths)
        return paths

    def remove(self) -> None:
        """Delete everything, to be filled again from the log."""
        self.unmap_files()
        for name in self._names():
            os.unlink(os.path.join(self._folder, name))
        self._files.clear()
        self._pending.clear()
        self._loose.clear()
        self._count = self._keys = 0
        self._slice = None
        self._unsynced.clear()
        self.next_offset = LogOffset(0)

    def close(self) -> None:
        """Write all slots and unmap the files. Whoever wants the waiting messages in them flushes first."""
        for file in self._files:
            file.close()
        self.unmap_files()

    def unmap_files(self) -> None:
        """Unmap all files, and forget what was not written to them."""
        self._next_file.discard()
        self._full.clear()
        for file in self._files:
            file.unmap()

    def _names(self) -> list[str]:
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            return []
        ours = [name for name in names if len(name) == 17 and name.isascii() and name.isdigit()]
        for name in set(names).difference(ours):
            log.warning("index file ignored path=%s/%s: not named by a time", self._folder, name)
        return sorted(ours)


def _name_of(moment: datetime) -> str:
    return moment.strftime("%Y%m%d%H%M%S") + f"{moment.microsecond // 1000:03d}"
