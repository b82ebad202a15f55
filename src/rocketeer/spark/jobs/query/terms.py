"""Where the tables of `query` come from: name server, lake, bounds in time, schemas of bodies."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from rocketeer.errors import ConfigError

ALL: Final = "*"
_OWN_OPTIONS: Final = frozenset(
    {
        "nameserver",
        "subscribe",
        "subscribepattern",
        "assign",
        "startingoffsets",
        "endingoffsets",
        # These come before offsets, and what the lake has already would be read again.
        "startingtimestamp",
        "endingtimestamp",
        "startingoffsetsbytimestamp",
        "endingoffsetsbytimestamp",
    }
)


@dataclass(frozen=True)
class TableTerms:
    """Where tables come from. `docs/jobs.md` explains each."""

    nameserver: str | None = None
    lake: str | Path | None = None
    since: datetime | None = None
    until: datetime | None = None
    json: Mapping[str, str | None] = field(default_factory=dict)
    """Topic, or `*` for all -> the schema of its JSON bodies, None to find it out from a sample."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Further options of the source; `storePath` reads a store's files instead of asking brokers."""
    lake_version: int | datetime | None = None
    """An older version of the lake, by its number or its time."""

    @property
    def live(self) -> dict[str, str] | None:
        """The source's options but for the topic; None if only the lake is read."""
        for name in self.options:
            if name.lower() in _OWN_OPTIONS:
                raise ConfigError(
                    f"option {name!r} of the source cannot be given here: SQL says what is read"
                )
        if self.nameserver is None and "storepath" not in {name.lower() for name in self.options}:
            if self.options:
                raise ConfigError("options of the source need a name server (or storePath) to read from")
            return None
        return (
            dict(self.options) if self.nameserver is None else {"nameserver": self.nameserver, **self.options}
        )
