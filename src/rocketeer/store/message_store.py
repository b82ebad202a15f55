"""The store as others see it: opens, connects and closes its parts; every call goes straight to one of them."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from rocketeer.clock import Clock
from rocketeer.config import BrokerRole, FlushMode, StoreConfig
from rocketeer.errors import StoreError, StoreRefused
from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.record.delay_levels import DelayLevels
from rocketeer.record.entry import DispatchEntry
from rocketeer.record.skip import SkipFilter, Skipper
from rocketeer.record.topic_end import topic_end
from rocketeer.steps import Steps
from rocketeer.store import summary
from rocketeer.store.append import Appender
from rocketeer.store.boundaries import Boundaries
from rocketeer.store.checkpointing import Checkpointer
from rocketeer.store.cleaning import Cleaner
from rocketeer.store.commit_log import CommitLog
from rocketeer.store.confirmed import BoundedReader, ConfirmedBound, ConfirmedLookup
from rocketeer.store.dispatch import Dispatch, Dispatcher, Listening
from rocketeer.store.expiry_clock import ExpiryClock
from rocketeer.store.extended_queue import QueueExtension
from rocketeer.store.flush import Flusher, FlushRules
from rocketeer.store.get import Fetched, GetStatus, QueueReader
from rocketeer.store.index import Index
from rocketeer.store.index_pacer import IndexPacer
from rocketeer.store.kernel import sync_folder
from rocketeer.store.lock import StoreLock
from rocketeer.store.log_scan import LogScan
from rocketeer.store.lookup import Lookup, LookupResult
from rocketeer.store.queue_table import QueueTable, delete_folders
from rocketeer.store.read_queue import ReadQueues
from rocketeer.store.recovery import Recovery, RecoveryReport
from rocketeer.store.replica import ReplicaWriter
from rocketeer.store.retention_guard import OldestNeeded, RetentionGuard, Roll
from rocketeer.store.summary import SavedSummary
from rocketeer.store.sync_failure_latch import SyncFailureLatch
from rocketeer.store.worker import Worker

__all__ = ["Fetched", "GetStatus", "LookupResult", "MessageStore", "RecoveryReport"]

log = logging.getLogger(__name__)

RECONFIGURABLE: Final = (
    "fileReservedTime", "deleteWhen", "deleteCommitLogFilesInterval", "cleanResourceInterval",
    "destroyMapedFileIntervalForcibly", "cleanFileForciblyEnable", "diskMaxUsedSpaceRatio",
    "diskSpaceWarningLevelRatio", "diskSpaceCleanForciblyRatio",
    "flushIntervalCommitLog", "flushCommitLogLeastPages", "flushCommitLogThoroughInterval", "flushCommitLogTimed",
    "syncFlushTimeout", "deleteConsumeQueueFilesInterval",
    "maxTransferBytesOnMessageInMemory", "maxTransferCountOnMessageInMemory",
    "maxTransferBytesOnMessageInDisk", "maxTransferCountOnMessageInDisk", "accessMessageInMemoryMaxRatio",
)  # fmt: skip
"""RocketMQ's keys of the settings that may change while the store is open; see `reconfigure`."""


class MessageStore:
    """Messages in, messages out, in one folder.

    One thread calls everything between `open` and `close` (both may run in another one). `post` runs a
    function on that thread; `tick` wants to be called every few milliseconds.
    """

    def __init__(
        self,
        config: StoreConfig,
        *,
        clock: Clock,
        store_host: bytes,
        post: Callable[[Callable[[], None]], None],
        bounded: bool = False,
    ) -> None:
        """`bounded`: consumers read no further than `confirmed`, which starts without a bound."""
        self.config = config
        self._clock = clock
        self._store_host = store_host
        root = config.store_path
        self._abort = root / "abort"
        self._saved = SavedSummary(root / "checkpoint")
        self._lock = StoreLock(root)
        self._levels = levels = DelayLevels.parse(config.delay_levels)
        self._refusals: dict[str, StoreRefused] = {}
        self._ticked_end = -1
        self._is_open = False
        self.on_damage: list[Callable[[LogOffset], None]] = []
        """Told by `open`, in its thread, of every damaged place of the log, before anything there is mended."""

        self._sync_failure = SyncFailureLatch(post)
        self._sync_failure.listeners.append(self._sync_failed)
        synchronous = config.flush_mode is FlushMode.SYNC_FLUSH
        self.log = CommitLog(
            config.commit_log_path,
            config.segment_bytes,
            prewrite=synchronous,
            sync_failed=self._sync_failure.record,
        )
        self.extension = None
        if config.queue_extension_enable:
            self.extension = QueueExtension(root / "consumequeue_ext", config.queue_extension_bytes)
        self.queue_table = QueueTable(
            root / "consumequeue", config.consume_queue_bytes, self.extension, self._saved.forget
        )
        self.index = self._new_index(config, root, clock)
        self._index_pacer = IndexPacer(self.index, self.log, clock)
        self.dispatch = Dispatch(self.queue_table, self.index)
        self.listeners: list[Listening] = self.dispatch.listeners
        self.on_grown: list[Callable[[], None]] = self.dispatch.on_grown
        self.dispatchers: list[Dispatcher] = self.dispatch.dispatchers
        self._appender = Appender(
            self.log,
            self.dispatch,
            clock=clock,
            levels=levels,
            store_host=store_host,
            message_bytes_max=config.message_bytes_max,
        )
        self._replica = ReplicaWriter(self.log, self.dispatch, levels)
        self._reader = QueueReader(config, self.log, self.queue_table, levels)
        self._lookup = Lookup(self.log, self.queue_table, self.index, query_count_max=config.query_batch_max)
        self.lookup = self._lookup
        """For others' queries: in a group it finds nothing that is not confirmed."""
        self.confirmed: ConfirmedBound | None = None
        """In a group: up to where messages may be seen."""
        self.read_queues: ReadQueues = self.queue_table
        """For others that look at queues: in a group these end at what is confirmed."""
        if bounded:
            self.read_queues = self.confirmed = ConfirmedBound(self.queue_table, schedule=post)
            self._reader = BoundedReader(config, self.log, self.confirmed, levels)
            self.lookup = ConfirmedLookup(
                self.log, self.confirmed, self.index, query_count_max=config.query_batch_max
            )
        self._flusher = Flusher(
            self.log,
            clock=clock,
            post=post,
            rules=FlushRules.of(config),
            last_store_ms=self._last_store_ms,
            sync_failure=self._sync_failure,
        )
        # Made by `open`, which finds out what the store has:
        self._worker: Worker
        self._expiry_clock: ExpiryClock
        self._checkpointer: Checkpointer
        self._cleaner: Cleaner
        self._guard = RetentionGuard(self.log, self._flusher)
        self.needs: list[OldestNeeded] = self._guard.needs
        self.rolls: list[Roll] = self._guard.rolls
        # The inner loops are the parts' own methods: no call in between.
        self.append = self._appender.append
        self.preparing = self._appender.preparing
        self.append_prepared = self._appender.append_prepared
        self.append_raw = self._replica.append_raw
        self.forget_copied_queues = self._replica.forget_queues
        self.when_durable = self._flusher.wait
        self.get = self._reader.get
        self.message_at = self._lookup.message_at
        self.named_at, self.is_queued = self._lookup.named_at, self._lookup.is_queued
        self.is_damaged = self._lookup.is_damaged
        self.querying = self._lookup.querying
        self.offset_by_time = self.lookup.offset_by_time
        self.earliest_ms = self.lookup.earliest_ms
        self.store_ms_at = self.lookup.store_ms_at
        self.entries = self._reader.entries
        self.sends_answered = self._index_pacer.sends_answered

    @staticmethod
    def _new_index(config: StoreConfig, root: Path, clock: Clock) -> Index | None:
        if not config.message_index_enable:
            return None
        return Index(root / "index", config.index_slots, config.index_entries, clock)

    # --- opening and closing -----------------------------------------------------------------

    def open(self) -> RecoveryReport:
        """Lock the folder and recover. StoreLocked or StoreError, with nothing touched, when it cannot be used."""
        self._lock.take()
        try:
            clean = not self._abort.exists()
            self._abort.touch()  # from here on a crash is seen as one, also one of the machine
            sync_folder(str(self._abort.parent))
            try:
                report = self._recover(clean)
            except StoreError:
                if clean and self._sync_failure.error is None:
                    self._abort.unlink()
                raise
        except BaseException:
            self._lock.release()
            raise
        self._is_open = True
        if self.config.broker_role is BrokerRole.SLAVE:
            self.refuse("slave", StoreRefused(StoreRefused.NOT_WRITABLE, "messages are put to the slave"))
        self.log.refuse(self.refusal)
        return report

    def _recover(self, clean: bool) -> RecoveryReport:
        config = self.config
        checkpoint, known = summary.load(self._saved.path)
        recovery = Recovery(
            self.log,
            self.dispatch,
            self._levels,
            self._clock,
            clean,
            checkpoint,
            known,
            config.store_path / "corrupt",
            check_crc=config.check_crc_on_recover,
            index_safe=config.message_index_safe,
            on_damage=self._log_damaged,
        )
        report = recovery.run()
        self._expiry_clock = ExpiryClock(self._clock, checkpoint.believed_ms or self.dispatch.last_store_ms)
        self._worker = Worker()
        self._checkpointer = Checkpointer(
            self._saved,
            self.log,
            self.dispatch,
            self._worker,
            self._clock,
            sync_failure=self._sync_failure,
            flushed=lambda: self._flusher.flushed,
            flush_soon=self._flusher.flush_soon,
            physic_ms=lambda: self._flusher.physic_ms,
            last_store_ms=self._last_store_ms,
            part_bytes=lambda: self._replica.part_bytes,
            verify_from=recovery.verified_from,
            expiry_clock=self._expiry_clock,
            interval_ms=config.flush_queue_interval_ms,
            thorough_ms=config.flush_queue_thorough_ms,
        )
        self._saved.recovered()
        self._cleaner = Cleaner(
            config,
            self.log,
            self.dispatch,
            self._worker,
            self._clock,
            expiry_clock=self._expiry_clock,
            guard=self._guard,
            on_disk_full=self._disk_full,
            saved=self._saved,
        )
        self._cleaner.measure()
        for folder in {config.store_path, config.store_path.parent, config.commit_log_path.parent}:
            sync_folder(str(folder))  # folders made just now hold the names of all that follows
        # What a process that died had not synced may still be in memory only: it is synced (again) here.
        synced_below = report.log_max if clean else min(recovery.synced_below, report.log_max)
        self._flusher.sync_from(synced_below, checkpoint.physic_ms)
        self._checkpointer.start()
        if self._sync_failure.error is not None:
            self._checkpointer.close_folder()
            self._worker.close()
            raise StoreError(f"the disk does not take what is written to it: {self._sync_failure.error}")
        self.log.start()
        self._flusher.start()
        return report

    def close(self) -> None:
        """Bring everything to disk and let go of the folder. A closed store is not opened again."""
        if not self._is_open:
            return
        self._is_open = False
        self.log.refuse(StoreRefused(StoreRefused.NOT_WRITABLE, "message store has been shut down"))
        self._flusher.close()
        try:
            self._sync_failure.raise_if_failed()
            self._checkpointer.close()
            if self.index is not None:
                self.index.close()
            self._worker.close()
            self._abort.unlink(missing_ok=True)
            sync_folder(str(self.config.store_path))
        except OSError as error:
            # The abort file stays: the next start makes from the log what could not be written.
            log.error("store not closed cleanly error=%s", error)
        self._worker.close()
        self._checkpointer.close_folder()
        if self.index is not None:
            self.index.unmap_files()
        self.queue_table.files.close()
        self.log.close()
        self._lock.release()

    # --- keeping house -----------------------------------------------------------------------

    def tick(self) -> None:
        """Run one slice of all background work: flushing, indexing, checkpoints, cleaning."""
        self.log.tick(self._clock.monotonic_s())
        self._flusher.tick()
        self._index_pacer.tick()
        self._checkpointer.tick()
        self._cleaner.tick()
        self._delete_folders()

    def _delete_folders(self) -> None:
        """Empty removed queues and delete the folders of deleted topics in the worker."""
        queues = self.queue_table
        queues.empty_removed()
        if queues.folders_to_delete:
            folders, queues.folders_to_delete = queues.folders_to_delete, []
            self._worker.submit("deleting the queues of a topic", lambda: delete_folders(folders))

    def is_idle(self) -> bool:
        """True when the log has not grown since the last time, and nothing waits for a tick."""
        end, self._ticked_end = self._ticked_end, self.log.max_offset
        return end == self.log.max_offset and not self.unindexed and not self._checkpointer.is_working

    def delete_expired(self) -> None:
        """Delete files past their time now, whatever the hour."""
        self._cleaner.order()

    def delete_topic(self, topic: str) -> None:
        """Forget a topic's queues; its messages stay in the log until they expire, with a record that ends the topic.

        Raises StoreRefused when that cannot be written. (A slave gets it from its master.)
        """
        if not self.queue_table.has_topic(topic):
            return
        if "slave" not in self._refusals:
            now_ms = self._clock.now_ms()
            self._appender.append(topic_end(topic, now_ms=now_ms, host=self._store_host), now_ms)
        self.queue_table.remove_topic(topic)

    def remove_expired_queues(self, before_each: Callable[[], None]) -> Steps[list[tuple[str, int]]]:
        """Forget the queues of which the log has no message any more, one a step; topic and id of each.

        `before_each`: whoever holds on to queues lets go now.
        """
        return self.queue_table.remove_expired(self.log.min_offset, before_each)

    def reconfigure(self, config: StoreConfig) -> None:
        """Have the settings of RECONFIGURABLE hold from now on; the others stay as they were at the start."""
        self._cleaner.set_rules(config)
        self._flusher.rules = FlushRules.of(config)
        self._reader.set_limits(config)

    def refuse(self, cause: str, refusal: StoreRefused | None) -> None:
        """Refuse appends while any cause stands; also one that was there before the store was opened."""
        if refusal is None:
            self._refusals.pop(cause, None)
        else:
            self._refusals[cause] = refusal
        if self._is_open:
            self.log.refuse(self.refusal)

    # --- asking ------------------------------------------------------------------------------

    def scan(self, start: LogOffset, wanted: SkipFilter | None = None) -> Iterator[DispatchEntry]:
        """The entries of all messages from `start` on, which is where one begins; older ones may be gone already.

        Of those that are not `wanted` none or some are shown.
        """
        skipper = None if wanted is None else Skipper(wanted)
        boundaries = Boundaries(self.log, self.queue_table, self._levels)
        position, end = max(start, self.log.min_offset), self.whole_log_offset
        while position < end:
            found = LogScan(self.log, self._levels, position, check_crc=False, bulk=skipper)
            yield from found.entries(end)
            if found.position >= end:
                return
            following = boundaries.next_after(found.position)
            log.error("log damaged at=%d problem=%s: what stands there is passed over, read on at=%s",
                      found.position, found.problem or "zeros", following)  # fmt: skip
            if following is None:
                return
            position = following

    @property
    def min_log_offset(self) -> LogOffset:
        return self.log.min_offset

    @property
    def max_log_offset(self) -> LogOffset:
        return self.log.max_offset

    @property
    def whole_log_offset(self) -> LogOffset:
        """Where the last whole record ends: a copied log may end within one, and no table may speak of that place."""
        return LogOffset(self.log.max_offset - self._replica.part_bytes)

    @property
    def flushed_log_offset(self) -> LogOffset:
        """Everything below it is on disk."""
        return self._flusher.flushed

    @property
    def failure(self) -> StoreRefused | None:
        """Why nothing at all may be written any more: the disk did not take what it was given."""
        return self._refusals.get("flush")

    @property
    def dispatched_log_offset(self) -> LogOffset:
        """All that is derived from the log knows the messages below it."""
        index = self.index
        return self.log.max_offset if index is None else index.safe_offset(self.log.max_offset)

    @property
    def disk_used_percent(self) -> tuple[int, int]:
        """How full the log's disk is, and the queues', as last measured; -1 if it could not be."""
        return self._cleaner.used_percents

    @property
    def unindexed(self) -> int:
        """How many messages the index does not know yet."""
        return 0 if self.index is None else self.index.pending_count

    @property
    def waiting_for_disk(self) -> int:
        """How many runs of messages wait until the disk has them."""
        return self._flusher.waiting

    def first_store_ms(self) -> int:
        """When the oldest message of the log was stored; -1 for an empty log."""
        first = self.message_at(self.min_log_offset)
        return -1 if first is None else first.store_ms

    def expiry_ms(self) -> int:
        """The time by which things expire: a clock that jumps ahead deletes nothing (see `expiry_clock.py`)."""
        return self._expiry_clock.now_ms()

    @property
    def refusal(self) -> StoreRefused | None:
        """Why appends are refused now, if they are."""
        return next(iter(self._refusals.values()), None)

    def queues(self) -> list[tuple[str, int]]:
        """Topic and id of every queue that ever had a message."""
        return [(queue.topic, queue.queue_id) for queue in self.queue_table]

    def min_queue_offset(self, topic: str, queue_id: int) -> QueueOffset:
        """The start of a queue; one that does not exist is empty."""
        queue = self.queue_table.get(topic, queue_id)
        return QueueOffset(0) if queue is None else queue.min_offset

    def max_queue_offset(self, topic: str, queue_id: int) -> QueueOffset:
        """The end of a queue as readers see it: in a group they see no further than what is confirmed."""
        queue = self.queue_table.get(topic, queue_id)
        if queue is None:
            return QueueOffset(0)
        return queue.max_offset if self.confirmed is None else self.confirmed.end(queue)

    # --- inside ------------------------------------------------------------------------------

    def _last_store_ms(self) -> int:
        return self.dispatch.last_store_ms

    def _log_damaged(self, offset: LogOffset) -> None:
        for told in self.on_damage:
            told(offset)

    def _disk_full(self, used: str | None) -> None:
        self.refuse("disk", None if used is None else StoreRefused(StoreRefused.DISK_FULL, used))

    def _sync_failed(self, error: OSError) -> None:
        text = f"the disk did not take what was written: {error}"
        self.refuse("flush", StoreRefused(StoreRefused.NOT_WRITABLE, text))
