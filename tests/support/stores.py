"""Stores for tests: small files, a clock that stands still, callbacks run where they are asked for."""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rocketeer.clock import Clock
from rocketeer.config import StoreConfig
from rocketeer.record.entry import DispatchEntry
from rocketeer.record.hosts import encode_host
from rocketeer.record.layout import PendingMessage, StoredMessage
from rocketeer.record.properties import encode_properties
from rocketeer.steps import finish
from rocketeer.store.checkpoint import read_checkpoint
from rocketeer.store.confirmed import ConfirmedBound
from rocketeer.store.message_store import LookupResult, MessageStore, RecoveryReport
from support.clock import ManualClock
from support.records import split_records

STORE_HOST = encode_host("127.0.0.1", 10911)
BORN_HOST = encode_host("127.0.0.1", 49776)
SEGMENT_BYTES = 64 * 1024


def memory_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder in memory where there is one: a store per made-up example would wait for the disk most of the time."""
    return tempfile.TemporaryDirectory(dir=place_in_memory())


def place_in_memory() -> str | None:
    """None where there is none, or not much: a mapped file that does not fit kills the process that writes it."""
    if not os.access("/dev/shm", os.W_OK):
        return None
    found = os.statvfs("/dev/shm")
    return "/dev/shm" if found.f_bavail * found.f_frsize > 2 << 30 else None


def small_config(folder: Path, **changes: Any) -> StoreConfig:
    sizes: dict[str, Any] = {
        "segment_bytes": SEGMENT_BYTES,
        "consume_queue_bytes": 100 * 20,
        "index_slots": 50,
        "index_entries": 200,
        "message_bytes_max": 16 * 1024,
        # With a clock that stands still nothing would ever have waited long enough.
        "flush_least_pages": 0,
        "delete_queue_interval_ms": 0,
        # A test machine's disk may be as full as it likes.
        "disk_warning_percent": 100,
        "disk_clean_percent": 100,
        "disk_max_used_percent": 95,
    }
    return StoreConfig(store_path=folder, **{**sizes, **changes})


def make_store(
    folder: Path,
    clock: Clock | None = None,
    post: Callable[[Callable[[], None]], None] = lambda job: job(),
    store_host: bytes = STORE_HOST,
    bounded: bool = False,
    **changes: Any,
) -> MessageStore:
    return MessageStore(
        small_config(folder, **changes),
        clock=clock or ManualClock(),
        store_host=store_host,
        post=post,
        bounded=bounded,
    )


def make_bounded_store(
    folder: Path,
    clock: Clock | None = None,
    post: Callable[[Callable[[], None]], None] = lambda job: job(),
    **changes: Any,
) -> tuple[MessageStore, ConfirmedBound]:
    """Of a member of a group: what is read ends at the bound."""
    store = make_store(folder, clock, post, bounded=True, **changes)
    assert store.confirmed is not None
    return store, store.confirmed


def open_store(folder: Path, **changes: Any) -> tuple[MessageStore, RecoveryReport]:
    store = make_store(folder, **changes)
    return store, store.open()


def message(
    body: bytes = b"hello",
    topic: str = "TopicTest",
    queue_id: int = 0,
    *,
    tags: str | None = None,
    keys: str | None = None,
    uniq_key: str | None = None,
    sys_flag: int = 0,
    properties: dict[str, str] | None = None,
    born_host: bytes = BORN_HOST,
) -> PendingMessage:
    named = {"TAGS": tags, "KEYS": keys, "UNIQ_KEY": uniq_key}
    found = {name: value for name, value in named.items() if value is not None}
    return PendingMessage(
        topic=topic,
        queue_id=queue_id,
        flag=0,
        sys_flag=sys_flag,
        born_ms=1_600_000_000_000,
        born_host=born_host,
        body=body,
        properties=encode_properties({**found, **(properties or {})}),
    )


def append_batch(store: MessageStore, messages: Sequence[PendingMessage]) -> list[DispatchEntry]:
    """Stored next to each other, all or none."""
    return store.append_prepared(finish(store.preparing(messages)))


def query(
    store: MessageStore, topic: str, key: str, begin_ms: int, end_ms: int, max_count: int
) -> LookupResult:
    """All of what a client's query asks for in steps."""
    return finish(store.querying(topic, key, begin_ms, end_ms, max_count))


def read_queue(store: MessageStore, topic: str = "TopicTest", queue_id: int = 0) -> list[StoredMessage]:
    """All messages of a queue, pulled as a consumer pulls them."""
    messages: list[StoredMessage] = []
    offset = store.min_queue_offset(topic, queue_id)
    while offset < store.max_queue_offset(topic, queue_id):
        fetched = store.get(topic, queue_id, offset, 32)
        assert fetched.next_offset > offset, fetched
        messages += split_records(b"".join(fetched.parts))
        offset = fetched.next_offset
    return messages


def bodies(store: MessageStore, topic: str = "TopicTest", queue_id: int = 0) -> list[bytes]:
    return [each.body for each in read_queue(store, topic, queue_id)]


def checkpoint_now(store: MessageStore, clock: ManualClock) -> None:
    """Let time pass until the store has noted what its log has now."""
    path = store.config.store_path / "checkpoint"
    end = store.log.max_offset
    clock.advance(ms=store.config.flush_queue_thorough_ms)
    deadline_s = time.monotonic() + 60
    while read_checkpoint(path).dispatched_offset != end:
        assert time.monotonic() < deadline_s, "no checkpoint"
        store.tick()
        time.sleep(0.001)  # the worker thread writes it


def kill(store: MessageStore, copy: Path) -> Path:
    """The folder as a process that dies now leaves it to the next one (the page cache survives processes)."""
    shutil.copytree(store.config.store_path, copy)
    return copy


def derived_files(folder: Path) -> dict[str, bytes]:
    """Contents of all queue files of a store, by their path in it."""
    root = folder / "consumequeue"
    return {
        os.path.relpath(path, root): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()
    }
