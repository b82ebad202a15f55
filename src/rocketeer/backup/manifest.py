"""The manifest of a backup: which file of the store has which content.

<backup>/manifest.json          this; replaced whole by each run, so a killed run leaves the backup before it
<backup>/contents/ab/ab12...    contents, named by their digest; shared by all files and runs that have them
<backup>/lock                   one run at a time
"""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from rocketeer.errors import BackupError
from rocketeer.model.offsets import LogOffset
from rocketeer.whole_file import replace_file

FILE_NAME: Final = "manifest.json"
FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class SavedFile:
    """A file of the store. `source` tells whether the store's file was changed since: (inode, mtime ns, size);
    None when that cannot be told from them, because it was written just then."""

    size: int
    digest: str
    source: tuple[int, int, int] | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything a restore makes. The log is whole from `log_begin` up to `log_end`."""

    made_ms: int
    log_begin: LogOffset
    log_end: LogOffset
    segment_bytes: int
    files: dict[str, SavedFile] = field(default_factory=dict)
    """By the path in the store."""

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files.values())


def read_manifest(backup: Path) -> Manifest | None:
    """None if there is none; BackupError if it is damaged, or of a later version."""
    path = backup / FILE_NAME
    try:
        text = path.read_text()
    except FileNotFoundError:
        return None
    try:
        noted: dict[str, Any] = json.loads(text)
        content = noted["content"]
        if noted["format"] != FORMAT:
            raise BackupError(
                f"{path} has format {noted['format']}, this version reads format {FORMAT}: use a later rocketeer"
            )
        if noted["digest"] != _digest(content):
            raise BackupError(f"{path} is damaged: its checksum is wrong")
        files = {
            name: SavedFile(size, digest, None if source is None else tuple(source))
            for name, (size, digest, source) in content.pop("files").items()
        }
        return Manifest(**content, files=files)
    except (ValueError, TypeError, KeyError) as error:
        raise BackupError(f"{path} is damaged: {error!r}") from None


def write_manifest(backup: Path, manifest: Manifest) -> None:
    """Durable on return. The contents it names must be on disk before."""
    content = {
        **{name: value for name, value in asdict(manifest).items() if name != "files"},
        "files": {
            name: [file.size, file.digest, file.source] for name, file in sorted(manifest.files.items())
        },
    }
    text = json.dumps({"format": FORMAT, "digest": _digest(content), "content": content}, indent=1)
    replace_file(backup / FILE_NAME, text.encode())


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
