"""The layout that compiled modules read and write by is the one that `layout.py` and `batch.py` draw."""

import re
from pathlib import Path
from typing import Any

from rocketeer.record import flags, layout, properties, walk, walk_plain
from rocketeer.record.batch import ITEM
from rocketeer.record.hosts import V4_BYTES, V6_BYTES
from rocketeer.record.layout import FIELDS, HEAD, QUEUE_ENTRY, head_struct
from rocketeer.store import index_layout, index_loops_plain

LAYOUT = Path(layout.__file__).with_name("_layout.pxd")


def numbers_in(source: Path) -> dict[str, int]:
    """Of its `cdef enum`s."""
    return {
        name: int(text, 0)
        for name, text in re.findall(r"^    ([A-Z0-9_]+) = (\w+)", source.read_text(), re.M)
    }


def field_offsets() -> dict[str, int]:
    return {
        f"{name.upper()}_AT": head_struct(V4_BYTES, V4_BYTES, (name,)).size - size_of(kind)
        for name, kind in FIELDS
    }


def size_of(kind: str) -> int:
    return {"i": 4, "q": 8, "host": V4_BYTES}[kind]


def test_every_number_is_the_one_that_is_drawn() -> None:
    compiled = numbers_in(LAYOUT)
    drawn: dict[str, Any] = field_offsets() | {
        "HEAD_BYTES": HEAD.size,
        "TAIL_BYTES": layout.TAIL_BYTES,
        "HOST_BYTES": V4_BYTES,
        "HOST_V6_EXTRA_BYTES": V6_BYTES - V4_BYTES,
        "MAGIC": layout.MAGIC & 0xFFFFFFFF,
        "BODY_CRC_MASK": layout.BODY_CRC_MASK,
        "TOPIC_BYTES_MAX": layout.TOPIC_BYTES_MAX,
        "PROPERTIES_BYTES_MAX": properties.PROPERTIES_BYTES_MAX,
        "NAME_END": properties.NAME_END[0],
        "PROPERTY_END": properties.PROPERTY_END[0],
        "TX_PREPARED": flags.TX_PREPARED,
        "TX_ROLLBACK": flags.TX_ROLLBACK,
        "BORN_HOST_V6": flags.BORN_HOST_V6,
        "STORE_HOST_V6": flags.STORE_HOST_V6,
        "HOSTS_V6": flags.HOSTS_V6,
        "ITEM_MAGIC_AT": ITEM.pack(0, -1, 0, 0, 0).index(b"\xff"),
        "ITEM_CRC_AT": ITEM.pack(0, 0, -1, 0, 0).index(b"\xff"),
        "ITEM_FLAG_AT": ITEM.pack(0, 0, 0, -1, 0).index(b"\xff"),
        "ITEM_BODY_BYTES_AT": ITEM.pack(0, 0, 0, 0, -1).index(b"\xff"),
        "ITEM_BYTES": ITEM.size,
        "ENTRY_SIZE_AT": QUEUE_ENTRY.pack(0, -1, 0).index(b"\xff"),
        "ENTRY_TAG_CODE_AT": QUEUE_ENTRY.pack(0, 0, -1).index(b"\xff"),
        "QUEUE_ENTRY_BYTES": QUEUE_ENTRY.size,
    }
    assert compiled == drawn


def test_walks_have_the_same_numbers() -> None:
    assert numbers_in(LAYOUT.with_name("_walk.pyx")) == {
        "BAD_CRC": walk_plain.BAD_CRC,
        "BAD_PLACE": walk_plain.BAD_PLACE,
        "RANGE": walk_plain._RANGE,
    }
    assert [stop.value for stop in walk.Stop] == [
        walk_plain._RANGE, walk_plain._BLANK, walk_plain._UNWRITTEN, walk_plain._BAD,
    ]  # fmt: skip


def test_index_entries_have_the_same_places() -> None:
    numbers = numbers_in(Path(index_layout.__file__).with_name("_index_loops.pyx"))
    assert numbers.pop("AHEAD") > 0
    fields = {f"{name.upper()}_AT": place for name, (_, place) in (index_layout.ENTRY.fields or {}).items()}
    assert numbers == fields | {
        "ENTRY_BYTES": index_layout.ENTRY.itemsize,
        "SLOT_BYTES": index_layout.SLOT.itemsize,
        "SECONDS_MAX": index_loops_plain._SECONDS_MAX,
        "PAGE_BYTES": index_loops_plain.PAGE_BYTES,
    }
