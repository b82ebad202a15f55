"""Lakes of format 1, from before Delta: Parquet in the same folders, and a commit log of its own under `_rocketeer`.

They become Delta tables in place: the files stay, one commit of the new log names them. Only that is done with them.
"""

import shutil
from pathlib import Path
from typing import Any, Final

from rocketeer.model.queue import MessageQueue
from rocketeer.spark.jobs.lake.delta import DeltaLake
from rocketeer.spark.jobs.lake.locations import LakeDamaged, LakeLocation
from rocketeer.spark.jobs.lake.notes import META, read_json
from rocketeer.spark.jobs.lake.state import DataFile, Range, merged, ranges_of

FORMAT: Final = 1
_PARTS: Final = ("commits", "states", "lake.json")


class _Sum:
    """What the commits of format 1 add up to."""

    def __init__(self) -> None:
        self.next_number = 0
        self.files: dict[str, DataFile] = {}
        self.ranges: dict[MessageQueue, list[Range]] = {}
        self.last_batch: dict[str, int] = {}

    def start(self, saved: dict[str, Any]) -> None:
        self.next_number = int(saved["next_number"])
        self.files = {file["path"]: _file(file) for file in saved["files"]}
        self.ranges = ranges_of(saved["ranges"])
        self.last_batch = dict(saved["last_batch"])

    def apply(self, commit: dict[str, Any]) -> None:
        for path in commit["removed"]:
            del self.files[path]
        for file in commit["added"]:
            self.files[file["path"]] = _file(file)
        for r in commit["ranges"]:
            queue = MessageQueue(r["topic"], r["broker"], r["queue"])
            self.ranges[queue] = merged([*self.ranges.get(queue, []), Range(r["begin"], r["end"])])
        if commit["writer"] is not None and commit["batch"] is not None:
            before = self.last_batch.get(commit["writer"], -1)
            self.last_batch[commit["writer"]] = max(commit["batch"], before)
        self.next_number = int(commit["number"]) + 1


def is_old(place: LakeLocation) -> bool:
    """Whether a lake of format 1 is there, or what an interrupted migration left of one."""
    if not place.is_local:
        return False
    about = place.path / META / "lake.json"
    return about.exists() and read_json(about).get("format") == FORMAT


def migrate(place: LakeLocation) -> None:
    """Make a Delta table of a lake of format 1. For the one writer; interrupted, it goes on when called again."""
    meta = place.path / META
    table = DeltaLake(place)
    if not table.exists():
        found = _read(place, meta)
        missing = next((path for path in sorted(found.files) if place.size(path) is None), None)
        if missing is not None:
            raise LakeDamaged(
                f"{place}: {missing} is missing: the lake cannot become a Delta table without it"
            )
        table.adopt(found.files.values(), found.ranges, found.last_batch)
        for name in set(place.data_files()) - set(found.files):
            place.delete(name)  # replaced by a compaction, or left by a crash: nothing names it
    for name in _PARTS:
        part = meta / name
        if part.is_dir():
            shutil.rmtree(part)
        else:
            part.unlink(missing_ok=True)


def _read(place: LakeLocation, meta: Path) -> _Sum:
    found = _Sum()
    try:
        saved = _numbers(meta / "states")
        if saved:
            found.start(read_json(saved[-1][1]))
        for number, path in _numbers(meta / "commits"):
            if number < found.next_number:
                continue
            if number > found.next_number:
                raise LakeDamaged(f"{place}: commit {found.next_number} is missing")
            found.apply(read_json(path))
    except (KeyError, TypeError, ValueError) as error:
        raise LakeDamaged(f"{place}: its commits are not those of a lake: {error!r}") from None
    return found


def _numbers(folder: Path) -> list[tuple[int, Path]]:
    return sorted((int(path.stem), path) for path in folder.glob("[0-9]*.json"))


def _file(value: dict[str, Any]) -> DataFile:
    names = ("path", "rows", "bytes", "store_ms_min", "store_ms_max")
    return DataFile(**{name: value[name] for name in names})
