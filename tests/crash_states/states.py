"""Legal states of a disk after a power failure: a moment, a file system, a way to choose, a seed.

A state is named `moment:filesystem:choice:seed`, and the same name makes the same state of the same record.
"""

import os
import random
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from crash_states.disk import PAGE, ZEROS, Disk, File, Folder, NameChange, Node, Version, apply, parent

SECTOR = 512
FileSystem = Literal["journal", "loose"]
Choice = Literal["none", "all", "order", "pages", "one lost", "one kept", "torn", "names", "flipped"]

FILE_SYSTEMS: tuple[FileSystem, ...] = ("journal", "loose")
CHOICES: dict[Choice, str] = {
    "none": "all that was not synced is lost",
    "all": "all that was written arrived (as after kill -9)",
    "order": "what was written arrived in its order, up to some moment",
    "pages": "pages arrived in any order, names too",
    "one lost": "one page did not arrive, everything else did",
    "one kept": "one page arrived, nothing else that was not synced",
    "torn": "pages in any order, some torn between sectors",
    "names": "all bytes arrived, names in any order",
    "flipped": "all that was written arrived, one bit of it is flipped",
}


class StateName(NamedTuple):
    """`moment` operations of the record were made; the rest chooses what of them is on disk."""

    moment: int
    file_system: FileSystem
    choice: Choice
    seed: int

    def __str__(self) -> str:
        return f"{self.moment}:{self.file_system}:{self.choice.replace(' ', '-')}:{self.seed}"

    @classmethod
    def parse(cls, text: str) -> "StateName":
        moment, file_system, choice, seed = text.split(":")
        return cls(int(moment), file_system, choice.replace("-", " "), int(seed))  # type: ignore[arg-type]


@dataclass
class Image:
    """A file as the disk has it: pages that are not there are holes."""

    pages: dict[int, bytes]
    size: int


class Damage(NamedTuple):
    """A flipped bit: in the file, and where."""

    path: str
    at: int


@dataclass
class State:
    """Folders and files by their path in the store."""

    folders: list[str]
    files: dict[str, Image]
    damage: Damage | None = None

    def write(self, folder: Path) -> None:
        """Make the folder hold exactly this. Pages of zeros become holes, as unwritten extents read after a crash."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name in self.folders:
            os.mkdir(folder / name)
        for name, image in self.files.items():
            fd = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            try:
                os.ftruncate(fd, image.size)
                for at, run in _runs(image):
                    os.pwrite(fd, run, at)
            finally:
                os.close(fd)


def _runs(image: Image) -> Iterable[tuple[int, bytes]]:
    """Neighbouring pages in one piece, cut at the file's end."""
    parts: list[bytes] = []
    start = following = -1
    for page in sorted(image.pages):
        content = image.pages[page]
        if content == ZEROS or page * PAGE >= image.size:
            continue
        if page != following:
            if parts:
                yield start * PAGE, b"".join(parts)
            parts, start = [], page
        parts.append(content[: image.size - page * PAGE])
        following = page + 1
    if parts:
        yield start * PAGE, b"".join(parts)


def make_state(disk: Disk, name: StateName) -> State:
    """The disk has been played exactly `name.moment` operations."""
    assert disk.index == name.moment
    maker = _Maker(disk, name)
    names = maker.names()
    kept = {path: node for path, node in names.items() if _reachable(path, names)}
    images: dict[int, Image] = {}
    files: dict[str, Image] = {}
    for path in sorted(kept):
        node = kept[path]
        if isinstance(node, File):
            if id(node) not in images:
                images[id(node)] = maker.image(node)
            files[path] = images[id(node)]
    state = State(sorted(path for path, node in kept.items() if isinstance(node, Folder)), files)
    if name.choice == "flipped":
        state.damage = flip_a_bit(state, random.Random(f"flip {name}"))
    return state


FLIPPED = {
    "commitlog/": 6,
    "consumequeue/": 3,
    "index/": 1,
    "checkpoint": 1,
    "timer/pending": 1,
    "config/producers.bin": 1,
}
"""Where bits are flipped, and how often. Not in the tables of JSON, which RocketMQ defines without a checksum."""


def flip_a_bit(state: State, dice: random.Random) -> Damage | None:
    """Flip a bit of a byte that was written; None if there is none to flip."""
    (wanted,) = dice.choices(list(FLIPPED), list(FLIPPED.values()))
    written = [
        (path, page)
        for path, image in state.files.items()
        if path.startswith(wanted)
        for page, content in image.pages.items()
        if content != ZEROS
    ]
    if not written:
        return None
    path, page = dice.choice(written)
    image = state.files[path]
    content = bytearray(image.pages[page])
    used = [at for at, byte in enumerate(content) if byte and page * PAGE + at < image.size]
    if not used:
        return None
    at = dice.choice(used)
    content[at] ^= 1 << dice.randrange(8)
    state.files[path] = Image({**image.pages, page: bytes(content)}, image.size)
    return Damage(path, page * PAGE + at)


def _reachable(path: str, names: dict[str, Node]) -> bool:
    while path := parent(path):
        if not isinstance(names.get(path), Folder):
            return False
    return True


class _Maker:
    """One state in the making; all chances come from the name."""

    def __init__(self, disk: Disk, name: StateName) -> None:
        self._disk = disk
        self._name = name
        self._dice = random.Random(str(name))
        self._until = (
            disk.index + 1
        )  # of what is in order: names and sizes under `journal`, all under "order"
        choice = name.choice
        if choice == "none":
            self._until = disk.journal
        elif choice not in ("all", "flipped", "one lost"):
            self._until = self._dice.randint(min(disk.journal, disk.index), disk.index + 1)
        if choice == "one kept" and self._dice.random() < 0.5:
            self._until = disk.journal
        self._one = self._chosen_page() if choice in ("one lost", "one kept") else None
        self._chance = self._dice.choice((0.1, 0.5, 0.5, 0.9))

    def _chosen_page(self) -> tuple[int, int] | None:
        waiting = [
            (number, page) for number, file in enumerate(self._disk.files()) for page in sorted(file.versions)
        ]
        if not waiting:
            return None
        number, page = self._dice.choice(waiting)
        return id(list(self._disk.files())[number]), page

    # --- names -------------------------------------------------------------------------------

    def names(self) -> dict[str, Node]:
        names = dict(self._disk.safe_names)
        for change in self._disk.changes:
            if self._arrived(change):
                apply(names, change)
        return names

    def _arrived(self, change: NameChange) -> bool:
        choice = self._name.choice
        if choice in ("all", "flipped", "one lost"):
            return True
        if self._name.file_system == "journal" or choice == "order":
            # In order means: nothing behind the moment, and under `journal` all before what was committed.
            committed = self._disk.journal if self._name.file_system == "journal" else 0
            return change.index < max(self._until, committed)
        return choice != "none" and self._dice.random() < self._chance

    # --- bytes -------------------------------------------------------------------------------

    def image(self, file: File) -> Image:
        if file.is_safe:
            return Image(file.safe, file.safe_size)
        done = self._resizes(file)
        persisted = [each.index for each in file.resizes[:done]]
        waiting = [each.index for each in file.resizes[done:]]
        size = file.resizes[done - 1].size if done else file.safe_size
        pages = dict(file.safe)
        for page, versions in sorted(file.versions.items()):
            base = pages.pop(page, None)
            visible = versions
            cuts = [at for at, each in enumerate(visible) if each.cut]
            gone = [at for at in cuts if visible[at].index in persisted]
            hidden = [at for at in cuts if visible[at].index in waiting]
            if gone:
                base = None
            visible = visible[gone[-1] + 1 if gone else 0 : hidden[0] if hidden else len(visible)]
            content, version = self._page(file, page, base, visible)
            if content is not None:
                pages[page] = content
            if version is not None:
                size = max(size, min(version.size, (page + 1) * PAGE))
        if self._name.choice in ("all", "flipped", "one lost", "names"):
            size = file.size
        return Image({page: content for page, content in pages.items() if page * PAGE < size}, size)

    def _resizes(self, file: File) -> int:
        """How many of the truncations are done."""
        if self._name.choice in ("all", "flipped", "one lost", "names"):
            return len(file.resizes)
        if self._name.file_system == "journal" or self._name.choice in ("none", "order"):
            until = self._until if self._name.file_system == "loose" else max(self._until, self._disk.journal)
            if self._name.file_system == "loose" and self._name.choice == "none":
                until = 0
            return sum(each.index < until for each in file.resizes)
        return self._dice.randint(0, len(file.resizes))

    def _page(
        self, file: File, page: int, base: bytes | None, versions: list[Version]
    ) -> tuple[bytes | None, Version | None]:
        """What the disk has of a page, and the newest version of which it has something."""
        choice = self._name.choice
        if not versions:
            return base, None
        last = versions[-1]
        if choice in ("all", "flipped", "names"):
            return last.content, last
        if choice in ("one lost", "one kept"):
            is_one = self._one == (id(file), page)
            return (base, None) if is_one == (choice == "one lost") else (last.content, last)
        if choice == "order":
            before = [each for each in versions if each.index < self._until]
            return (before[-1].content, before[-1]) if before else (base, None)
        if choice == "none" or self._dice.random() >= self._chance:
            return base, None
        version = last if self._dice.random() < 0.5 else self._dice.choice(versions)
        if choice == "torn" and self._dice.random() < 0.6:
            older = [each.content for each in versions if each.index < version.index]
            under = self._dice.choice([base if base is not None else ZEROS, *older])
            return _torn(under, version.content, self._dice.random), version
        return version.content, version


def _torn(under: bytes, over: bytes, chance: Callable[[], float]) -> bytes:
    """Some sectors of one, some of the other; mostly a run of them, as a disk writes."""
    sectors = PAGE // SECTOR
    if chance() < 0.7:
        border = 1 + int(chance() * (sectors - 1))
        taken = [at < border for at in range(sectors)]
        if chance() < 0.3:
            taken = [not each for each in taken]
    else:
        taken = [chance() < 0.5 for _ in range(sectors)]
    pieces = [(over if new else under)[at * SECTOR : (at + 1) * SECTOR] for at, new in enumerate(taken)]
    return b"".join(pieces)
