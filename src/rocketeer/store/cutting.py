"""Cutting the end off a store that nobody has open: a member came back with what its group never confirmed.

    abort, synced -> tables that may speak of the end, synced -> the checkpoint, synced -> the queues' ends, synced
    -> the log's end, synced

In this order a crash at any instant is met by the next start as a crash of the broker: what is derived is made
from the log that is left. Whoever asked for the cut asks again then.

Recovery would find the queues' ends itself, but for places that it left blank for lost messages: when the log is
copied again those messages are there, and the places theirs.
"""

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rocketeer.config import StoreConfig
from rocketeer.errors import StoreError
from rocketeer.model.offsets import LogOffset
from rocketeer.store.checkpoint import read_checkpoint
from rocketeer.store.commit_log import CommitLog
from rocketeer.store.file_cache import sync_paths
from rocketeer.store.kernel import sync_file_system, sync_folder
from rocketeer.store.lock import StoreLock
from rocketeer.store.queue_table import QueueTable
from rocketeer.store.summary import save

log = logging.getLogger(__name__)


def cut_store(config: StoreConfig, end: LogOffset, *, tables: Sequence[str]) -> int:
    """Make `end`, where a record begins, the end of the log; durable on return. How many bytes were not zero.

    `tables` are the files under config/ that speak of places in the log: without them their features read the log.
    """
    lock = StoreLock(config.store_path)
    lock.take()
    try:
        abort = config.store_path / "abort"
        abort.touch()
        sync_folder(str(config.store_path))
        commit_log = CommitLog(config.commit_log_path, config.segment_bytes)
        commit_log.load()
        if not commit_log.min_offset <= end <= commit_log.max_offset:
            raise StoreError(
                f"the log is to be cut at {end}, and goes from {commit_log.min_offset} to {commit_log.max_offset}"
            )
        _remove_tables(config.store_path / "config", tables)
        _lower_checkpoint(config.store_path / "checkpoint", end)
        _cut_queues(config, end)
        gone = commit_log.cut_to(end)
        log.warning("log cut end=%d bytes=%d", end, gone)
        return gone
    finally:
        lock.release()


def _cut_queues(config: StoreConfig, end: LogOffset) -> None:
    queues = QueueTable(config.store_path / "consumequeue", config.consume_queue_bytes)
    fd = os.open(
        config.store_path, os.O_RDONLY | os.O_CLOEXEC
    )  # before the first write: it is told what fails
    try:
        queues.load()
        queues.cut_to_log(end)
        for queue in queues:
            queue.drop_blank_end()
        paths = queues.files.take_unsynced()
        if paths is None:
            sync_file_system(fd)
        else:
            sync_paths(paths)
    finally:
        os.close(fd)
    queues.files.close()


def _remove_tables(folder: Path, tables: Sequence[str]) -> None:
    for name in tables:
        for path in (folder / name, folder / f"{name}.bak"):
            path.unlink(missing_ok=True)
    if folder.exists():
        sync_folder(str(folder))


def _lower_checkpoint(path: Path, end: LogOffset) -> None:
    """Lower it to the log's new end: recovery would take the cut for damage, and fill it."""
    known = read_checkpoint(path)
    if known.dispatched_offset is None or known.dispatched_offset <= end:
        return
    starts_below = known.verify_from is not None and known.verify_from <= end
    save(
        path,
        replace(
            known,
            dispatched_offset=end,
            index_offset=None if known.index_offset is None else min(known.index_offset, end),
            verify_from=known.verify_from if starts_below else None,
        ),
        None,
    )
