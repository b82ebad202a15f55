"""The JSON tables under config/ (topics, groups, offsets ...): saved so that no crash leaves them unreadable.

    new text -> path.tmp, synced -> the old file also becomes path.bak -> path.tmp replaces path

At every moment `path` or `path.bak` is whole, and `path` is never missing once it was there.
"""

import logging
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from rocketeer.store.kernel import make_folder, sync_folder
from rocketeer.whole_file import write_synced

log = logging.getLogger(__name__)

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


def looks_whole(text: str) -> bool:
    """A cheap test that JSON was not cut: brackets close, strings end. (RocketMQ's is not strict JSON.)"""
    bare = _STRING.sub("", text).strip()
    return (
        bare[:1] in ("{", "[")
        and bare[-1:] in ("}", "]")
        and '"' not in bare
        and "\0" not in bare
        and bare.count("{") == bare.count("}")
        and bare.count("[") == bare.count("]")
    )


def save_table(path: Path, text: str | Iterable[bytes]) -> None:
    """Replace the table; durable on return. Blocks on the disk: call it from a worker thread."""
    make_folder(path.parent)
    temporary = _beside(path, ".tmp")
    write_synced(temporary, (text.encode(),) if isinstance(text, str) else text)
    # A broken file must not take the place of a good .bak.
    if _is_known(path) or ((old := _read(path)) is not None and looks_whole(old)):
        _keep_as_bak(path)
    os.replace(temporary, path)
    _know(path)
    sync_folder(str(path.parent))


_known: dict[str, tuple[int, int, int]] = {}
"""Files that were whole when we last read or wrote them: of a large table that takes a second to find out, and the
event loop waits as long for the interpreter's lock."""


def _signature(path: Path) -> tuple[int, int, int]:
    told = os.stat(path)
    return told.st_ino, told.st_size, told.st_mtime_ns


def _know(path: Path) -> None:
    _known[str(path)] = _signature(path)


def _is_known(path: Path) -> bool:
    try:
        return _known.get(str(path)) == _signature(path)
    except OSError:
        return False


def load_table(path: Path, accept: Callable[[str], bool] = looks_whole) -> str | None:
    """The table's text, or its .bak's if the file is missing or broken; None if neither can be used.

    `accept` may be stricter than the default, for example a real parse.
    """
    found = False
    for candidate in (path, _beside(path, ".bak")):
        text = _read(candidate)
        if text is None:
            continue
        found = True
        if accept(text):
            if candidate != path:
                log.warning("table restored from backup path=%s backup=%s", path, candidate)
            elif accept is looks_whole:
                _know(path)
            return text
        log.error("table broken path=%s chars=%d", candidate, len(text))
    if found:
        log.error("table lost path=%s: neither it nor its .bak can be read; starting without it", path)
    return None


def _read(path: Path) -> str | None:
    """None if there is no such file; bytes that are not text give "", which nobody accepts."""
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        return ""
    except (OSError, ValueError) as error:  # a folder, no permission, a name the system cannot have
        log.error("table unreadable path=%r error=%s", str(path), error)
        return None


def _keep_as_bak(path: Path) -> None:
    backup, temporary = _beside(path, ".bak"), _beside(path, ".bak.tmp")
    temporary.unlink(missing_ok=True)
    try:
        os.link(path, temporary)  # no second copy to write, and `path` stays where it is
    except OSError:  # a file system without links
        write_synced(temporary, (path.read_bytes(),))
    os.replace(temporary, backup)
    temporary.unlink(missing_ok=True)  # still there if both names were one file already


def _beside(path: Path, suffix: str) -> Path:
    return path.parent / (path.name + suffix)
