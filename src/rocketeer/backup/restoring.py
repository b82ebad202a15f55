"""A store from a backup: made beside its place and renamed into it, so that half a store is never started."""

import os
import shutil
from functools import partial
from pathlib import Path

from rocketeer.backup.contents import Contents
from rocketeer.backup.manifest import FILE_NAME, Manifest, read_manifest
from rocketeer.backup.saving import OnCopied
from rocketeer.errors import BackupError
from rocketeer.store.kernel import sync_file_system, sync_folder


def check(backup: Path, progress: OnCopied = lambda name, done: None) -> Manifest:
    """Read every content and compare its checksum; raises BackupError at the first that is wrong."""
    manifest = _manifest(backup)
    contents = Contents(backup)
    for name, file in manifest.files.items():
        contents.load(file.digest, file.size, None, partial(progress, name))
    return manifest


def restore(backup: Path, store: Path, progress: OnCopied = lambda name, done: None) -> Manifest:
    """Make the store anew in `store`, which must be empty or not be there. All of it is there, or nothing.

    Raises BackupError, and OSError (a full disk).
    """
    manifest = _manifest(backup)
    if store.exists() and (not store.is_dir() or any(store.iterdir())):
        raise BackupError(f"{store} is not empty: a backup is restored into an empty folder")
    if os.path.ismount(store):
        raise BackupError(f"{store} is a mount point: choose a folder in it, it is put in place by its name")
    store.absolute().parent.mkdir(parents=True, exist_ok=True)
    beside = store.with_name(store.name + ".restoring")
    if beside.exists():
        shutil.rmtree(beside)  # of a restore that was killed
    contents = Contents(backup)
    beside.mkdir()
    fd = os.open(beside, os.O_RDONLY | os.O_CLOEXEC)  # from now on: a sync tells it of every failed write
    try:
        for name, file in manifest.files.items():
            path = beside / name
            path.parent.mkdir(parents=True, exist_ok=True)
            progress(name, 0)
            contents.load(file.digest, file.size, path, partial(progress, name))
        sync_file_system(fd)
        os.rename(beside, store)
        sync_folder(str(store.absolute().parent))
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    finally:
        os.close(fd)
    return manifest


def _manifest(backup: Path) -> Manifest:
    manifest = read_manifest(backup)
    if manifest is None:
        raise BackupError(f"{backup} is not a backup: it has no {FILE_NAME}")
    return manifest
