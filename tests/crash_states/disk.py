"""What a disk holds while a record is played to it: what is safe, and what may or may not be there.

The rules, and why they are these. A sync counts when it has come back; it covers what was noted before it was asked for.

- fsync, fdatasync of a file: its bytes and its size are safe (fsync(2), fdatasync(2)). Not its name: "Calling fsync()
  does not necessarily ensure that the entry in the directory containing the file has also reached disk. For that an
  explicit fsync() on a file descriptor for the directory is also needed."
- msync(MS_SYNC) of a part of a mapping: the pages it touches and what is needed to read them, the size, are safe. Linux
  makes it a data sync of that range of the file; other pages of the file are not promised anything.
- fsync of a folder: the names in it are safe. Not the name of the folder itself, which stands in its parent.
- syncfs: everything is safe. sync_file_range: nothing is (its manual page warns of it), so it is not even recorded.
- A sync that fails: of the pages that waited nobody knows which are on disk. Linux marks them clean all the same, so
  a later sync that succeeds says nothing of them; only a page that is written again is written to the disk again.
- What is not safe may be there or not, page by page in any order: the kernel writes pages back when it likes. A page
  on its way when the power fails may be torn; a sector of 512 bytes is the old or the new one.
- rename is atomic: the new name leads to the old or the new file, never to none. Truncating is atomic too.

Two file systems are modelled. `journal`: changes of names and sizes reach the disk in their order, as ext4 and xfs do
with one journal; the fsync of a file whose name or size is not safe yet brings all of the journal before it. `loose`: every
name by itself, as POSIX allows. What holds under `loose` holds everywhere.

Stores through mappings are invisible to the recorder. `MAPPED` shows a mapping's bytes at each msync; our store only
ever stores zeros that way (recovery's `zero_from`), so only zeros are taken from it: any other byte that differs is a
write that is made but not yet noted.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from crash_states.trace import ALL, CREATES, FAILED, RANGE, TRUNCATES, Kind, Op

PAGE = 4096
ZEROS = bytes(PAGE)


class Version(NamedTuple):
    """A page after a change: `size` is the file's then, `cut` says that the page was cut off (and reads as zeros)."""

    index: int
    content: bytes
    size: int
    cut: bool = False


class Resize(NamedTuple):
    index: int
    size: int


@dataclass
class File:
    """An inode: `safe` pages, `now` pages, and for each page the versions since it was last safe."""

    safe: dict[int, bytes] = field(default_factory=dict)
    safe_size: int = 0
    now: dict[int, bytes] = field(default_factory=dict)
    size: int = 0
    versions: dict[int, list[Version]] = field(default_factory=dict)
    resizes: list[Resize] = field(default_factory=list)
    """By truncating, not yet safe; by writing behind the end in `growth`."""
    growth: list[Resize] = field(default_factory=list)
    lost: dict[int, int] = field(default_factory=dict)
    """Pages whose sync failed, and when."""
    changed_at: int = 0
    """When its name or size last changed: what the journal has of it."""

    # --- changes -----------------------------------------------------------------------------

    def write(self, index: int, at: int, data: bytes) -> None:
        end = at + len(data)
        if end > self.size:
            self.size = end
            self.growth.append(Resize(index, end))
            self.changed_at = index
        while at < end:
            page, start = divmod(at, PAGE)
            count = min(end - at, PAGE - start)
            old = self.now.get(page, ZEROS)
            part = data[len(data) - (end - at) :][:count]
            self._set(index, page, old[:start] + part + old[start + count :])
            at += count

    def resize(self, index: int, size: int) -> None:
        self.resizes.append(Resize(index, size))
        self.changed_at = index
        if size < self.size:
            page, start = divmod(size, PAGE)
            if start and page in self.now:
                self._set(index, page, self.now[page][:start] + bytes(PAGE - start))
            for beyond in [each for each in {*self.now, *self.safe, *self.versions} if each * PAGE >= size]:
                self.now.pop(beyond, None)
                self.versions.setdefault(beyond, []).append(Version(index, ZEROS, size, cut=True))
        self.size = size

    def zero_where_mapped(self, index: int, at: int, mapped: bytes) -> None:
        """Take over zeros that were stored through a mapping."""
        assert at % PAGE == 0
        for place in range(0, len(mapped), PAGE):
            page = (at + place) // PAGE
            now = self.now.get(page)
            seen = mapped[place : place + PAGE]
            if now is None or now.startswith(seen):
                continue
            zeroed = (
                bytes(mine if seen else 0 for mine, seen in zip(now, seen, strict=False)) + now[len(seen) :]
            )
            if zeroed != now:
                self._set(index, page, zeroed)

    def _set(self, index: int, page: int, content: bytes) -> None:
        self.now[page] = content
        self.versions.setdefault(page, []).append(Version(index, content, self.size))

    # --- syncs -------------------------------------------------------------------------------

    def sync(self, begun: int, pages: range | None) -> None:
        """What was noted before `begun` is safe now, within `pages` if given."""
        for page in list(self.versions):
            versions = self.versions[page]
            covered = pages is None or page in pages
            if page in self.lost and not any(self.lost[page] < each.index < begun for each in versions):
                continue  # clean as the kernel sees it, so it was not written now
            done = [each for each in versions if each.index < begun and (covered or each.cut)]
            if not done:
                continue
            self.lost.pop(page, None)
            last = done[-1]
            if last.cut:
                self.safe.pop(page, None)
            else:
                self.safe[page] = last.content
            self.versions[page] = [each for each in versions if each.index > last.index]
            if not self.versions[page]:
                del self.versions[page]
        sizes = sorted(each for each in self.resizes + self.growth if each.index < begun)
        if sizes:
            self.safe_size = sizes[-1].size
        self.resizes = [each for each in self.resizes if each.index >= begun]
        self.growth = [each for each in self.growth if each.index >= begun]

    def sync_failed(self, begun: int) -> None:
        for page, versions in self.versions.items():
            if any(each.index < begun for each in versions):
                self.lost[page] = begun

    @property
    def is_safe(self) -> bool:
        return not self.versions and not self.resizes and not self.growth


class Folder:
    """What a name may lead to besides a file."""


FOLDER = Folder()
Node = File | Folder


class NameChange(NamedTuple):
    """A change of names: each pair is a path and what it leads to afterwards (None: nothing)."""

    index: int
    pairs: tuple[tuple[str, Node | None], ...]

    def folders(self) -> set[str]:
        """Whose sync makes it safe; not folders that are moved themselves."""
        paths = {path for path, _ in self.pairs}
        return {parent(path) for path in paths} - paths


def parent(path: str) -> str:
    return path.rpartition("/")[0]


@dataclass
class Disk:
    """Play the record's operations to it in order; `index` is how many it has seen."""

    names: dict[str, Node] = field(default_factory=dict)
    safe_names: dict[str, Node] = field(default_factory=dict)
    _gone: dict[str, int] = field(default_factory=dict)
    """Paths that are safely no names any more, and since when."""
    changes: list[NameChange] = field(default_factory=list)
    journal: int = 0
    """Under `journal`, changes of names and sizes before this index are safe."""
    index: int = 0
    states: Path | None = None
    """Where the states are that a record goes on from."""
    _files: dict[int, File] = field(default_factory=dict)
    _begun: dict[bytes, int] = field(default_factory=dict)
    """By thread: when the sync that it waits for was asked for."""

    def play(self, op: Op) -> None:
        self.index += 1
        match op.kind:
            case Kind.OPEN:
                self._open(op)
            case Kind.WRITE:
                self._file(op).write(self.index, op.a, op.data)
            case Kind.MAPPED:
                self._file(op).zero_where_mapped(self.index, op.a, op.data)
            case Kind.TRUNCATE:
                self._file(op).resize(self.index, op.a)
            case Kind.SYNC_BEGIN:
                self._begun[op.data] = self.index
            case Kind.SYNC_END:
                self._synced(op, self._begun.pop(op.data))
            case Kind.START:
                self._begun.clear()  # a process that was killed asks for nothing any more
            case Kind.RENAME:
                self._rename(op.path, op.data.decode())
            case Kind.LINK:
                self._change((op.data.decode(), self.names[op.path]))
            case Kind.UNLINK | Kind.RMDIR:
                self._change((op.path, None))
            case Kind.MKDIR:
                self._change((op.path, FOLDER))
            case Kind.POWER_FAILED:
                assert self.states is not None
                self._load(self.states / op.path)

    def files(self) -> Iterator[File]:
        seen: set[int] = set()
        for node in (*self.names.values(), *self.safe_names.values()):
            if isinstance(node, File) and id(node) not in seen:
                seen.add(id(node))
                yield node

    # --- inside ------------------------------------------------------------------------------

    def _load(self, folder: Path) -> None:
        """Start again from what is on disk, all of it safe."""
        self.names.clear()
        self.changes.clear()
        self._files.clear()
        self._begun.clear()
        self.journal = self.index
        for path in sorted(folder.rglob("*")):
            name = str(path.relative_to(folder))
            if path.is_dir():
                self.names[name] = FOLDER
                continue
            raw = path.read_bytes()
            pages = {at // PAGE: raw[at : at + PAGE].ljust(PAGE, b"\0") for at in range(0, len(raw), PAGE)}
            self.names[name] = File(dict(pages), len(raw), pages, len(raw), changed_at=self.index)
        self.safe_names = dict(self.names)

    def _file(self, op: Op) -> File:
        file = self._files.get(op.inode)
        if file is None:  # there before the record began
            found = self.names[op.path]
            assert isinstance(found, File)
            file = self._files[op.inode] = found
        return file

    def _open(self, op: Op) -> None:
        if op.path not in self.names:
            if not op.flag & CREATES:
                return
            file = self._files[op.inode] = File(changed_at=self.index)
            self._change((op.path, file))
        elif op.flag & TRUNCATES and self._file(op).size:
            self._file(op).resize(self.index, 0)

    def _rename(self, path: str, target: str) -> None:
        """A folder takes along what is in it, all of which is taken to be there: we only move what is to be deleted."""
        moved = [path, *(each for each in self.names if each.startswith(path + "/"))]
        new = [(target + each.removeprefix(path), self.names[each]) for each in moved]
        self._change(*((each, None) for each in moved), *new)

    def _change(self, *pairs: tuple[str, Node | None]) -> None:
        for path, node in pairs:
            if node is None:
                self.names.pop(path, None)
            else:
                self.names[path] = node
                if isinstance(node, File):
                    node.changed_at = self.index
        self.changes.append(NameChange(self.index, pairs))

    def _synced(self, op: Op, begun: int) -> None:
        whole = bool(op.flag & ALL)
        node = self.names.get(op.path) if not whole else None
        is_folder = not whole and (op.path == "" or isinstance(node, Folder))
        if is_folder:
            if not op.flag & FAILED:
                self._names_safe(begun, op.path)
            return
        files = list(self.files()) if whole else [self._file(op)] if op.inode in self._files or node else []
        for file in files:
            if op.flag & FAILED:
                file.sync_failed(begun)
                continue
            if self.journal < file.changed_at < begun:
                self.journal = begun
            file.sync(begun, range(op.a // PAGE, -(-op.b // PAGE)) if op.flag & RANGE else None)
        if whole and not op.flag & FAILED:
            self._names_safe(begun, None)

    def _names_safe(self, begun: int, folder: str | None) -> None:
        """Names in the folder, or all, as they were at `begun`."""
        kept = []
        for change in self.changes:
            if change.index < begun and (folder is None or folder in change.folders()):
                apply(self.safe_names, change)
                self._gone.update((path, change.index) for path, node in change.pairs if node is None)
                self.journal = max(self.journal, begun)
            else:
                kept.append(change)
        self.changes = [each for each in kept if not self._was_in_folder_gone(each)]

    def _was_in_folder_gone(self, change: NameChange) -> bool:
        """Whether all it changed were names in folders that are safely gone since: whatever became of them, they went."""
        return all(change.index < self._gone.get(parent(path), -1) for path, _ in change.pairs)


def apply(names: dict[str, Node], change: NameChange) -> None:
    for path, node in change.pairs:
        if node is None:
            names.pop(path, None)
            for inside in [each for each in names if each.startswith(path + "/")]:
                del names[inside]  # a folder that is gone was empty: one made later has nothing of it
        else:
            names[path] = node
