"""Small JSON files beside a lake or a checkpoint, written whole or not at all."""

import json
import os
from pathlib import Path
from typing import Any, Final

from rocketeer.spark.jobs.lake.places import LakeDamaged

META: Final = "_rocketeer"
"""The folder in a lake that is ours; readers of data pass over names that begin so."""


def read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except ValueError as error:
        raise LakeDamaged(f"{path} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise LakeDamaged(f"{path} is no JSON object")
    return value


def write_whole(path: Path, value: dict[str, Any], *, replace: bool) -> None:
    """Whole or not at all, also after a power cut; without `replace` FileExistsError if there is one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    waiting = path.with_name(f".{path.name}.{os.getpid()}")
    with waiting.open("w") as file:
        json.dump(value, file, separators=(",", ":"))
        file.flush()
        os.fsync(file.fileno())
    try:
        if replace:
            waiting.replace(path)
        else:
            os.link(waiting, path)
    finally:
        waiting.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
