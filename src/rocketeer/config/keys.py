"""Every configuration key RocketMQ knows, with its class, type and default: the table is `keys.tsv`."""

import difflib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Final, NamedTuple

from rocketeer.config.values import BrokerRole, FlushMode, MetricsExporter

BROKER_CLASSES = ("BrokerConfig", "MessageStoreConfig", "NettyServerConfig", "NettyClientConfig")
NAMESRV_CLASSES = ("NamesrvConfig", "NettyServerConfig")

_BITS = {"int": 32, "long": 64}
_NAMES = {
    "BrokerRole": tuple(BrokerRole),
    "FlushDiskType": tuple(FlushMode),
    "MetricsExporterType": tuple(MetricsExporter),
}

OLD_SPELLINGS: Final = {
    "mapedFileSizeCommitLog": "mappedFileSizeCommitLog",
    "mapedFileSizeConsumeQueue": "mappedFileSizeConsumeQueue",
    "mapedFileSizeConsumeQueueExt": "mappedFileSizeConsumeQueueExt",
    "warmMappedFileEnable": "warmMapedFileEnable",
    "flushLeastPagesWhenWarmMappedFile": "flushLeastPagesWhenWarmMapedFile",
    "destroyMappedFileIntervalForcibly": "destroyMapedFileIntervalForcibly",
    "enableDLedgerCommitLog": "enableDLegerCommitLog",
}
"""Names of earlier versions, and names that are spelt as one would expect, to those that 4.9.8 has."""


class ConfigKey(NamedTuple):
    """One row of the table. `default` is None where Java's is null; "$..." depends on the machine."""

    name: str
    owner: str
    kind: str
    default: str | None
    since: str

    @property
    def is_of_4_9(self) -> bool:
        return self.since == "4.9"

    @property
    def expected(self) -> str:
        """What a value must look like, in words."""
        if self.kind in _BITS:
            return f"a whole number of {_BITS[self.kind]} bits"
        if self.kind in _NAMES:
            return " or ".join(_NAMES[self.kind])
        return {"boolean": "true or false", "double": "a number"}.get(self.kind, "a text")

    def accepts(self, text: str) -> bool:
        """Whether Java would take the text for this key (Java itself ignores what it cannot take)."""
        if self.kind in _BITS:
            limit = 1 << (_BITS[self.kind] - 1)
            digits = text[1:] if text[:1] in ("-", "+") else text
            return digits.isascii() and digits.isdigit() and -limit <= int(text) < limit
        if self.kind == "boolean":
            return text.lower() in ("true", "false")
        if self.kind in _NAMES:
            return text in _NAMES[self.kind]
        if self.kind == "double":
            try:
                float(text)
            except ValueError:
                return False
        return True


@cache
def known_keys() -> Mapping[tuple[str, str], ConfigKey]:
    """The table by (class, key): some keys stand in two classes."""
    table = resources.files("rocketeer.config").joinpath("keys.tsv").read_text("utf-8")
    rows = [line.split("\t") for line in table.splitlines()[1:]]
    return {
        (owner, name): ConfigKey(name, owner, kind, None if default in ("null", "-") else default, since)
        for name, owner, kind, default, since in rows
    }


def find_key(name: str, classes: tuple[str, ...]) -> ConfigKey | None:
    """The row of a key among these classes, the first class first."""
    table = known_keys()
    return next((table[owner, name] for owner in classes if (owner, name) in table), None)


_NAME_CHARS_MAX = 64
"""Longest name that is compared with all keys: a longer one takes long, and is no slip of the pen."""


def nearest_key(name: str, classes: tuple[str, ...]) -> str | None:
    """The key the writer probably meant."""
    if len(name) > _NAME_CHARS_MAX:
        return None
    by_lower = {key.name.lower(): key.name for key in known_keys().values() if key.owner in classes}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.75)
    return by_lower[close[0]] if close else None
