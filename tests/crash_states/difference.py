"""Where a folder and the model of it differ: nowhere after a clean stop; after a kill, where a call was cut off.

A process that is killed between making a change and noting it leaves a change that the record lacks. The next process
builds on it, so the record must have it: it is added, as a change that nothing has synced.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from crash_states.disk import PAGE, ZEROS, Disk, File, Folder
from crash_states.trace import CREATES, HEAD, Kind, Op


def differences(disk: Disk, folder: Path) -> list[Op]:
    """The operations that turn the model's present into what is there."""
    found: list[Op] = []
    there: dict[str, Path] = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*"))}
    for name, path in there.items():
        inode = path.stat().st_ino
        node = disk.names.get(name)
        if path.is_dir():
            if not isinstance(node, Folder):
                found.append(Op(Kind.MKDIR, 0, name, inode, 0, 0, b""))
            continue
        if node is None:
            found.append(Op(Kind.OPEN, CREATES, name, inode, 0, 0, b""))
            node = File()
        assert isinstance(node, File)
        found += _file_differences(node, name, path, inode)
    for name in sorted(set(disk.names) - set(there), reverse=True):
        kind = Kind.RMDIR if isinstance(disk.names[name], Folder) else Kind.UNLINK
        found.append(Op(kind, 0, name, 0, 0, 0, b""))
    return found


def _file_differences(node: File, name: str, path: Path, inode: int) -> list[Op]:
    raw = path.read_bytes()
    found: list[Op] = []
    if len(raw) != node.size:
        found.append(Op(Kind.TRUNCATE, 0, name, inode, len(raw), 0, b""))
    for page in range(-(-len(raw) // PAGE)):
        seen = raw[page * PAGE : (page + 1) * PAGE]
        if node.now.get(page, ZEROS)[: len(seen)] != seen:
            found.append(Op(Kind.WRITE, 0, name, inode, page * PAGE, len(seen), seen))
    return found


def mend(trace: Path, missing: Sequence[Op]) -> None:
    """Append the operations to the record, and drop half a record at its end."""
    raw = trace.read_bytes()
    end = 0
    while end + HEAD.size <= len(raw) and end + HEAD.unpack_from(raw, end)[0] <= len(raw):
        end += HEAD.unpack_from(raw, end)[0]
    os.truncate(trace, end)
    with trace.open("ab") as file:
        for op in missing:
            path = op.path.encode()
            total = HEAD.size + len(path) + len(op.data)
            file.write(HEAD.pack(total, op.kind, op.flag, len(path), op.inode, op.a, op.b) + path + op.data)
