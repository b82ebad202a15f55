"""Small JSON files beside a lake or a checkpoint, written whole or not at all."""

import json
from pathlib import Path
from typing import Any, Final

from rocketeer.spark.jobs.lake.locations import LakeDamaged
from rocketeer.whole_file import create_file, replace_file

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


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Whole or not at all, also after a power cut."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, _json(value))


def create_json(path: Path, value: dict[str, Any]) -> None:
    """As `write_json`; FileExistsError if there is one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    create_file(path, _json(value))


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
