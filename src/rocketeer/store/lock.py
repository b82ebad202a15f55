"""One broker per store folder: the file `lock`, held as RocketMQ holds it, so the two exclude each other."""

import fcntl
import os
from pathlib import Path

from rocketeer.errors import StoreError, StoreLocked

# fcntl locks do not exclude a second open by the same process, and closing that one would drop the first's lock.
_held_here: set[str] = set()


class StoreLock:
    """Held from `take` to `release`, or until the process dies."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._fd = -1
        self._key = ""

    def take(self) -> None:
        path = self._folder / "lock"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            key = os.path.realpath(path)
            if key in _held_here:
                raise self._locked()
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StoreError(f"the store {self._folder} cannot be opened: {error}") from error
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0, os.SEEK_SET)
        except OSError as error:
            os.close(fd)
            raise self._locked() from error
        os.pwrite(fd, b"lock", 0)
        self._fd, self._key = fd, key
        _held_here.add(key)

    def release(self) -> None:
        if self._fd >= 0:
            _held_here.discard(self._key)
            os.close(self._fd)
            self._fd = -1

    def _locked(self) -> StoreLocked:
        return StoreLocked(
            f"the store {self._folder} is in use by another broker: stop it, or choose another storePathRootDir"
        )
