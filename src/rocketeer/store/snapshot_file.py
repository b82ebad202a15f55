"""A derived table as one binary file, replaced whole: whatever crashes, the old one or the new one is there.

magic "RKTS" | crc32 of all that follows, u32 | length u64 | content           big-endian
"""

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from struct import Struct
from typing import Final

from isal.isal_zlib import crc32

from rocketeer.store.kernel import make_folder, sync_folder
from rocketeer.whole_file import write_synced

log = logging.getLogger(__name__)

MAGIC: Final = b"RKTS"
HEAD: Final = Struct(">4sIQ")
assert HEAD.size == 16


def save_snapshot(path: Path, parts: Sequence[bytes | memoryview]) -> None:
    """Replace the file by the parts, one behind the other; durable on return. Blocks: call it from a thread."""
    make_folder(path.parent)
    crc = 0
    for part in parts:
        crc = crc32(part, crc)
    temporary = path.parent / (path.name + ".tmp")
    write_synced(temporary, (HEAD.pack(MAGIC, crc, sum(map(len, parts))), *parts))
    os.replace(temporary, path)
    sync_folder(str(path.parent))


def load_snapshot(path: Path) -> memoryview | None:
    """The content; None if there is no such file, or one that is not whole (said in the log)."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        log.error("snapshot unreadable path=%s error=%s", path, error)
        return None
    content = memoryview(raw)[HEAD.size :]
    if len(raw) >= HEAD.size:
        magic, crc, size = HEAD.unpack_from(raw)
        if magic == MAGIC and size == len(content) and crc == crc32(content):
            return content
    log.error("snapshot broken path=%s bytes=%d: made again from the log", path, len(raw))
    return None
