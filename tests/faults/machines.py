"""What a member's machine may do to it: a disk that is full, slow or fails, a clock that is wrong.

`trouble.c`, preloaded into the member, does the slow, the failing and the wrong; a disk of its own (a tmpfs, as
root) can be made full by making it smaller.
"""

import errno
import mmap
import os
import shutil
import struct
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Final, Self

SOURCE: Final = Path(__file__).with_name("trouble.c")
_NUMBERS: Final = struct.Struct("@qqqq")
_ROOM_BYTES: Final = 64 << 10
"""What a full disk has left: something small fits, a piece of a log does not."""


class Machine:
    """One member's switches. Belongs to the thread of the nemesis."""

    def __init__(self, path: Path, library: Path | None, disk: "Disk | None") -> None:
        self._library = library
        self._path = path
        self.disk = disk
        path.write_bytes(bytes(_NUMBERS.size))
        with path.open("r+b") as file:
            self._told = mmap.mmap(file.fileno(), _NUMBERS.size)

    @property
    def env(self) -> dict[str, str]:
        """For the member's process."""
        return {} if self._library is None else {"LD_PRELOAD": str(self._library), "TROUBLE": str(self._path)}

    def slow_syncs(self, wait_ms: int) -> None:
        self._put(0, wait_ms)

    def fail_syncs(self) -> None:
        self._put(1, errno.EIO)

    def set_clock(self, ahead_ms: int) -> None:
        self._put(2, ahead_ms)

    def heal(self) -> None:
        """All syncs go through again, and the clock is right."""
        for place in range(3):
            self._put(place, 0)

    @property
    def failed_syncs(self) -> int:
        return int(_NUMBERS.unpack(self._told[:])[3])

    def _put(self, place: int, number: int) -> None:
        struct.pack_into("@q", self._told, 8 * place, number)


class Disk:
    """A small file system; full when there is hardly more room than is used."""

    def __init__(self, folder: Path, megabytes: int) -> None:
        self._folder = folder
        self._megabytes = megabytes

    def mount(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        _run("mount", "-t", "tmpfs", "-o", f"size={self._megabytes}m", "rocketeer-faults", str(self._folder))

    def fill(self) -> None:
        for attempt in range(10, -1, -1):
            stat = os.statvfs(self._folder)
            used = (stat.f_blocks - stat.f_bfree) * stat.f_frsize
            try:
                return self._resize(used + _ROOM_BYTES)
            except subprocess.CalledProcessError:
                if not attempt:  # not because more was written meanwhile
                    raise

    def make_room(self) -> None:
        self._resize(self._megabytes << 20)

    def unmount(self) -> None:
        subprocess.run(["umount", "-l", str(self._folder)], check=False, capture_output=True, timeout=60)

    def _resize(self, size: int) -> None:
        _run("mount", "-o", f"remount,size={size}", str(self._folder))


class Machines:
    """The machines of all members, and what could not be had here."""

    def __init__(self, folder: Path, numbers: list[int], *, disk_megabytes: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.missing: list[str] = []
        library = self._compiled(folder)
        self.is_preloaded = library is not None
        disks = {number: Disk(folder / f"m{number}" / "store", disk_megabytes) for number in numbers}
        self.has_disks = os.geteuid() == 0 and shutil.which("mount") is not None
        if not self.has_disks:
            self.missing.append("no disks of their own (root is needed): none is filled")
        self._machines = {
            number: Machine(folder / f"trouble{number}", library, disks[number] if self.has_disks else None)
            for number in numbers
        }

    def _compiled(self, folder: Path) -> Path | None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            self.missing.append("no C compiler: syncs are neither slow nor failing, clocks are right")
            return None
        library = (folder / "trouble.so").absolute()
        command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(SOURCE), "-ldl"]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        return library

    def __getitem__(self, number: int) -> Machine:
        return self._machines[number]

    def __enter__(self) -> Self:
        mounted: list[Disk] = []
        try:
            for machine in self._machines.values():
                if machine.disk is not None and self.has_disks:
                    machine.disk.mount()
                    mounted.append(machine.disk)
        except (OSError, subprocess.SubprocessError) as error:
            for disk in mounted:
                disk.unmount()
            for machine in self._machines.values():
                machine.disk = None
            self.has_disks = False
            self.missing.append(f"no disks of their own ({error}): none is filled")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for machine in self._machines.values():
            if machine.disk is not None:
                machine.disk.unmount()

    def heal(self) -> None:
        for machine in self._machines.values():
            machine.heal()


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=60)
