"""Folders whose content this user's programs run or map: nobody else may have put it there."""

import os
import stat
from pathlib import Path


def make_private(folder: Path) -> bool:
    """Make the folder for this user alone; False if it cannot be made, is a link, or others own or may write it.

    What the folder stands in must be this user's or root's, or a place like /tmp where users cannot replace each
    other's.
    """
    try:
        around = folder.parent.stat()
        if around.st_uid not in (os.geteuid(), 0):
            return False
        if around.st_mode & stat.S_IWOTH and not around.st_mode & stat.S_ISVTX:
            return False
        folder.mkdir(mode=0o700, exist_ok=True)
        return is_private(folder)
    except OSError:
        return False


def is_private(path: Path) -> bool:
    """Whether this is a file or a folder, no link, that this user owns and nobody else can write."""
    try:
        found = path.lstat()
    except OSError:
        return False
    kind_fits = stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)
    return kind_fits and found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
