"""RocketMQ's index, one key at a time in plain Python: what the vectorised one is compared with."""

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from rocketeer.record.entry import DispatchEntry
from rocketeer.record.java_hash import java_hash

HEADER = struct.Struct(">qqqqii")
ENTRY = struct.Struct(">iqii")


def entry(
    log_offset: int,
    *,
    keys: str = "",
    uniq: str | None = None,
    topic: str = "T",
    store_ms: int = 1_700_000_000_000,
    size: int = 100,
    sys_flag: int = 0,
) -> DispatchEntry:
    return DispatchEntry(log_offset, size, topic, 0, 0, 0, store_ms, keys, uniq, sys_flag, 0)


@dataclass
class ReferenceFile:
    slots_max: int
    entries_max: int
    begin_ms: int = 0
    end_ms: int = 0
    begin_offset: int = 0
    end_offset: int = 0
    used_slots: int = 0
    count: int = 1
    slots: dict[int, int] = field(default_factory=dict)
    entries: list[tuple[int, int, int, int]] = field(default_factory=lambda: [(0, 0, 0, 0)])

    def put(self, text: str, log_offset: int, store_ms: int) -> None:
        hashed = abs(java_hash(text))
        hashed = 0 if hashed == 1 << 31 else hashed
        slot = hashed % self.slots_max
        older = self.slots.get(slot, 0)
        seconds = 0
        if self.begin_ms > 0:
            seconds = min(max((store_ms - self.begin_ms) // 1000, 0), (1 << 31) - 1)
        self.entries.append((hashed, log_offset, seconds, older))
        self.slots[slot] = self.count
        if self.count == 1:
            self.begin_offset, self.begin_ms = log_offset, store_ms
        self.used_slots += older == 0
        self.count += 1
        self.end_offset, self.end_ms = log_offset, store_ms

    def content(self) -> tuple[bytes, dict[int, int], list[tuple[int, int, int, int]]]:
        header = HEADER.pack(
            self.begin_ms, self.end_ms, self.begin_offset, self.end_offset, self.used_slots, self.count
        )
        return header, self.slots, self.entries[1:]


def reference_files(messages: Iterable[DispatchEntry], slots: int, entries: int) -> list[ReferenceFile]:
    files: list[ReferenceFile] = []
    for message in messages:
        if message.sys_flag & 0xC == 0xC:
            continue
        words = [word for word in message.keys.split(" ") if word]
        for key in words if message.uniq_key is None else [message.uniq_key, *words]:
            if not files:
                files.append(ReferenceFile(slots, entries))
            elif files[-1].count >= entries:
                last = files[-1]
                files.append(
                    ReferenceFile(slots, entries, last.end_ms, last.end_ms, last.end_offset, last.end_offset)
                )
            files[-1].put(f"{message.topic}#{key}", message.log_offset, message.store_ms)
    return files


def content_of(
    path: Path, slots: int, entries: int
) -> tuple[bytes, dict[int, int], list[tuple[int, int, int, int]]]:
    raw = path.read_bytes()
    assert len(raw) == 40 + 4 * slots + 20 * entries
    count = struct.unpack_from(">i", raw, 36)[0]
    table = struct.unpack_from(f">{slots}i", raw, 40)
    at = 40 + 4 * slots
    return (
        raw[:40],
        {slot: value for slot, value in enumerate(table) if value},
        [ENTRY.unpack_from(raw, at + 20 * number) for number in range(1, count)],
    )
