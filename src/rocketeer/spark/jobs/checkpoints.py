"""Whose checkpoint is it? A note beside Spark's own files, so that a folder is not continued by another query.

Spark itself notices little: a stream whose topic or target was changed would go on with the other's offsets.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from rocketeer.errors import RocketeerError
from rocketeer.spark.jobs.lake.notes import create_json, read_json
from rocketeer.whole_file import is_temporary

NOTE: Final = "rocketeer.json"


class OtherCheckpoint(RocketeerError):
    """The checkpoint belongs to another query."""


def claim(
    checkpoint: str | Path, who: Mapping[str, Any], facts: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Note whose checkpoint this is, or check that it is ours; OtherCheckpoint says what differs.

    `facts` are kept by whoever comes first, and returned: what was found out then holds for every later start.
    """
    text = str(checkpoint)
    if "://" in text and not text.startswith("file://"):
        return dict(facts or {})  # a file system that only Spark knows
    folder = Path(text.removeprefix("file://"))
    note = folder / NOTE
    if not note.exists():
        if folder.exists() and any(not is_temporary(path.name) for path in folder.iterdir()):
            what = "another query's checkpoint" if (folder / "metadata").exists() else "not empty"
            raise OtherCheckpoint(f"{folder} is {what}: choose another folder")
        with suppress(FileExistsError):  # another driver was faster
            create_json(note, {"query": dict(who), "facts": dict(facts or {})})
    found = read_json(note)
    theirs = found.get("query", {})
    odd = [name for name in {**theirs, **who} if theirs.get(name) != who.get(name)]
    if odd:
        name = odd[0]
        raise OtherCheckpoint(
            f"{folder} is the checkpoint of another query: its {name!r} is {theirs.get(name)!r}, "
            f"not {who.get(name)!r}; choose another folder"
        )
    return dict(found.get("facts", {}))
