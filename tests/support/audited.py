"""Stores to audit: one with everything in it, and faults to plant in copies of it."""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rocketeer.record.flags import TX_COMMIT, TX_PREPARED, TX_ROLLBACK
from rocketeer.record.hosts import encode_host
from rocketeer.record.layout import StoredMessage, decode_record
from rocketeer.record.walk import walk
from rocketeer.record.walk_plain import Topics
from rocketeer.store.index_layout import HEADER, IndexHeader
from support.clock import ManualClock
from support.stores import SEGMENT_BYTES, checkpoint_now, make_store, message

SLOTS, ENTRIES = 50, 200
V6 = encode_host("2001:db8::7", 4711)


def write_store(folder: Path, count: int = 900) -> None:
    """Several files of everything; closed cleanly."""
    clock = ManualClock()
    store = make_store(folder, clock)
    store.open()
    for number in range(count):
        topic, queue_id = f"Topic{number % 3}", number % 4
        kind = number % 23
        flag = {5: TX_PREPARED, 6: TX_ROLLBACK, 7: TX_COMMIT}.get(kind, 0)
        properties = {"n": str(number)}
        if kind == 8:
            topic, queue_id = "SCHEDULE_TOPIC_XXXX", 2
            properties["DELAY"] = "3"
        store.append(
            message(
                b"" if kind == 9 else f"order {number} ".encode() * (number % 31),
                topic,
                queue_id,
                tags=None if kind == 10 else "bezahlt-ü" if kind == 11 else f"tag{number % 5}",
                keys=None
                if kind == 12
                else f"key{number} other{number % 7}"
                if kind != 13
                else f"schlüssel{number}",
                uniq_key=None if kind == 14 else f"{number:032X}",
                sys_flag=flag,
                properties=properties,
                born_host=V6 if kind == 15 else encode_host("127.0.0.1", 49776),
            )
        )
        clock.advance(ms=40)
        if number % 100 == 0:
            store.tick()
    checkpoint_now(store, clock)
    store.close()


@dataclass
class Copy:
    """A copy of a store, and ways to spoil it."""

    folder: Path

    def segments(self) -> list[Path]:
        return sorted((self.folder / "commitlog").iterdir())

    def records(self) -> Iterator[tuple[Path, int, StoredMessage]]:
        """(file, place in it, record) of everything."""
        for path in self.segments():
            raw = path.read_bytes()
            found = walk(raw, 0, len(raw), int(path.name), Topics())
            for at in found.rows["at"].tolist():
                yield path, at, decode_record(raw, at, check_crc=False)

    def pick(
        self, wanted: Callable[[StoredMessage], bool] = lambda _: True, skip: int = 40
    ) -> tuple[Path, int, StoredMessage]:
        """A record from the middle."""
        matching = (one for one in self.records() if wanted(one[2]))
        for _ in range(skip):
            next(matching)
        return next(matching)

    def flip(self, path: Path, at: int, bits: int = 0x01) -> None:
        self.write(path, at, bytes([self.read(path, at, 1)[0] ^ bits]))

    @staticmethod
    def read(path: Path, at: int, size: int) -> bytes:
        with path.open("rb") as file:
            file.seek(at)
            return file.read(size)

    @staticmethod
    def write(path: Path, at: int, raw: bytes) -> None:
        with path.open("r+b") as file:
            file.seek(at)
            file.write(raw)

    def queue_file(self, topic: str = "Topic1", queue: int = 1) -> Path:
        return sorted((self.folder / "consumequeue" / topic / str(queue)).iterdir())[0]

    def index_file(self, number: int = 0) -> Path:
        return sorted((self.folder / "index").iterdir())[number]

    def index_header(self, **changes: int) -> None:
        path = self.index_file()
        header = IndexHeader.unpack(self.read(path, 0, HEADER.size))
        values = {name: getattr(header, name) for name in IndexHeader.__slots__} | changes
        self.write(path, 0, IndexHeader(**values).pack())

    def index_entry_at(self, number: int) -> int:
        return HEADER.size + SLOTS * 4 + number * 20

    def put_queue_offset(self, path: Path, at: int, value: int) -> None:
        self.write(path, at + 20, struct.pack(">q", value))


__all__ = ["SEGMENT_BYTES", "SLOTS", "V6", "Copy", "write_store"]
