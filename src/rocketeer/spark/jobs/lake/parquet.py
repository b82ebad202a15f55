"""A lake as plain Parquet files: for those who read a folder of files and nothing else.

    LAKE/topic=<quoted>/date=YYYY-MM-DD/<id>.<rows>.parquet   never changed and never deleted once it has this name
    LAKE/topic=<quoted>/date=YYYY-MM-DD/<id>.pending          of a batch that is under way
    LAKE/_rocketeer/lake.json                                 format version and kind
    LAKE/_rocketeer/state.json                                ranges of queues, the newest batch of each writer
    LAKE/_rocketeer/next.json                                 the state after a batch, and the files it makes visible

A batch counts as soon as `next.json` is there: whoever opens the lake to write gives its files their names and makes
it the state, also after a crash in the middle. So a reader of the folder sees each message once; what it cannot have
is all of a batch at once, older versions, and compaction, which would have to take files away: Delta has those.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from rocketeer.errors import ConfigError
from rocketeer.model.queue import MessageQueue
from rocketeer.spark.jobs.lake.delta import lake_columns
from rocketeer.spark.jobs.lake.locations import LakeDamaged, LakeLocation, NoLake
from rocketeer.spark.jobs.lake.notes import META, read_json, write_json
from rocketeer.spark.jobs.lake.state import DataFile, LakeState, Range, ranges_json, ranges_of

FORMAT: Final = 2
PENDING: Final = ".pending"
_NAME: Final = re.compile(r"[0-9a-f]+\.([0-9]+)\.parquet")
_DAY_MS: Final = 86_400_000


class ParquetLake:
    """One lake; every call looks at the folder anew."""

    kind = "parquet"

    def __init__(self, place: LakeLocation) -> None:
        if not place.is_local:
            raise NoLake(
                f"{place}: plain Parquet needs files that can be renamed; on object stores lakes are Delta tables"
            )
        self.place = place
        self._meta = place.path / META

    def exists(self) -> bool:
        return (self._meta / "lake.json").exists()

    def create(self) -> None:
        about = {"format": FORMAT, "kind": self.kind, "columns": lake_columns()}
        self._meta.mkdir(parents=True, exist_ok=True)
        write_json(self._meta / "lake.json", about)

    def check(self) -> None:
        about = read_json(self._meta / "lake.json")
        theirs, ours = about.get("columns", {}), lake_columns()
        odd = sorted(name for name in {*theirs, *ours} if theirs.get(name) != ours.get(name))
        if odd:
            raise NoLake(f"{self.place} is a lake of another schema: it differs in {', '.join(odd)}")

    def state(self, version: "int | datetime | None" = None) -> LakeState:
        if version is not None:
            raise ConfigError(f"the lake {self.place} is plain Parquet, which has no older versions")
        saved = self._saved()
        files = {name: self._file(name) for name in self.place.data_files()}
        return LakeState(int(saved.get("batches", 0)), files, ranges_of(saved.get("ranges", [])))

    def last_batch(self, writer: str) -> int:
        return int(self._saved().get("last_batch", {}).get(writer, -1))

    def append(
        self,
        files: Iterable[DataFile],
        ranges: Mapping[MessageQueue, Iterable[Range]],
        writer: str,
        batch: int,
    ) -> None:
        saved = self._saved()
        write_json(
            self._meta / "next.json",
            {
                "batches": int(saved.get("batches", 0)) + 1,
                "ranges": ranges_json(ranges),
                "last_batch": {**saved.get("last_batch", {}), writer: batch},
                "files": [[file.path, _published(file)] for file in files],
            },
        )
        self.recover()

    def recover(self) -> None:
        """Finish a batch that counts; forget what no batch names. For the one writer."""
        path = self._meta / "next.json"
        if path.exists():
            new = read_json(path)
            for pending, final in new["files"]:
                if (self.place.path / pending).exists():
                    (self.place.path / pending).rename(self.place.path / final)
                elif not (self.place.path / final).exists():
                    raise LakeDamaged(f"{self.place}: {pending} has gone, which the newest batch needs")
            write_json(self._meta / "state.json", {**new, "files": []})
            path.unlink()
        for left in self.place.path.glob(f"topic=*/date=*/*{PENDING}"):
            left.unlink()

    def vacuum(self, keep_hours: int = 0) -> int:
        """Do nothing: plain Parquet never replaces a file."""
        return 0

    def _saved(self) -> dict[str, Any]:
        """As of the newest batch, whether its files have their names yet or not."""
        for name in ("next.json", "state.json"):
            if (self._meta / name).exists():
                try:
                    return read_json(self._meta / name)
                except FileNotFoundError:  # it has just become the state
                    continue
        return {}

    def _file(self, name: str) -> DataFile:
        match = _NAME.fullmatch(name.rsplit("/", 1)[1])
        size = self.place.size(name) or 0
        file = DataFile(name, 0 if match is None else int(match[1]), size, 0, 0)
        day_ms = int(datetime.fromisoformat(file.date).replace(tzinfo=UTC).timestamp() * 1000)
        return DataFile(name, file.rows, size, day_ms, day_ms + _DAY_MS - 1)


def _published(file: DataFile) -> str:
    return f"{file.path.removesuffix(PENDING)}.{file.rows}.parquet"
