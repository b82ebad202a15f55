"""Whatever is done to a consume queue, in whatever order, it reads as a plain list of entries would."""

from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from rocketeer.store.consume_queue import ConsumeQueue
from rocketeer.store.file_cache import FileCache, delete_paths
from rocketeer.store.queue_entry import BLANK, ENTRY, ENTRY_BYTES
from support.stores import memory_folder


class QueueAgainstList(RuleBasedStateMachine):
    """The model: `entries[n]` is the raw entry at offset `first + n`; blanks stand for what never was."""

    @initialize(per_file=st.integers(1, 9), first=st.integers(0, 30), open_max=st.integers(1, 3))
    def start(self, per_file: int, first: int, open_max: int) -> None:
        self.home = memory_folder()
        self.cache = FileCache(open_max)
        self.file_bytes = per_file * ENTRY_BYTES
        self.queue = self.make()
        self.first = first
        self.entries: list[bytes] = []
        self.log_end = 0
        self.log_min = 0

    def make(self) -> ConsumeQueue:
        return ConsumeQueue(Path(self.home.name) / "q", "T", 0, self.file_bytes, self.cache)

    def teardown(self) -> None:
        if hasattr(self, "home"):
            self.cache.close()
            self.home.cleanup()

    @property
    def end(self) -> int:
        return self.first + len(self.entries)

    @rule(count=st.integers(1, 12), size=st.integers(1, 50), tag=st.integers(-(1 << 63), (1 << 63) - 1))
    def append(self, count: int, size: int, tag: int) -> None:
        for _ in range(count):
            assert self.queue.put(self.end, self.log_end, size, tag)
            self.entries.append(ENTRY.pack(self.log_end, size, tag))
            self.log_end += size

    @rule(back=st.integers(1, 20))
    def append_again(self, back: int) -> None:
        if self.entries and self.end - back >= 0:
            assert not self.queue.put(self.end - back, 1 << 50, 1, 1)

    @rule()
    def write_out(self) -> None:
        self.queue.write_out()
        assert self.queue.pending_bytes == 0

    @rule()
    def stop_and_start(self) -> None:
        if self.entries:
            self.queue.write_out()
            self.queue = self.make()
            assert self.queue.load() == []
            delete_paths(self.queue.raise_min(self.log_min))

    @rule(share=st.floats(0, 1))
    def log_loses_its_start(self, share: float) -> None:
        self.log_min = max(self.log_min, int(self.log_end * share))
        delete_paths(self.queue.raise_min(self.log_min))

    @rule(back=st.integers(0, 15))
    def log_loses_its_end(self, back: int) -> None:
        alive = [raw for raw in self.entries if ENTRY.unpack(raw)[0] >= self.log_min]
        back = min(back, len(alive) - 1)
        if back > 0:
            self.log_end = ENTRY.unpack(self.entries[-back])[0]
            assert self.queue.truncate_to_log(self.log_end) == back
            del self.entries[-back:]

    @invariant()
    def reads_as_the_list(self) -> None:
        if not hasattr(self, "home") or not self.entries:
            return
        queue = self.queue
        assert queue.max_offset == self.end
        dead = sum(ENTRY.unpack(raw)[0] < self.log_min for raw in self.entries)
        assert queue.min_offset == self.first + dead
        assert queue.read(queue.min_offset, 1000) == b"".join(self.entries[dead:])
        assert queue.read(queue.min_offset - 1, 10) == b""
        middle = dead + (len(self.entries) - dead) // 2
        assert queue.read(self.first + middle, 3) == b"".join(self.entries[middle : middle + 3])
        assert BLANK not in (queue.read(queue.min_offset, 1), queue.read(queue.max_offset - 1, 1))
        assert queue.max_log_offset == self.log_end


TestQueueAgainstList = QueueAgainstList.TestCase
TestQueueAgainstList.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
