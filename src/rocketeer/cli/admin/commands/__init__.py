"""The commands, a module for each subject; `load` puts them all into `declare.COMMANDS`."""

from importlib import import_module
from typing import Final

MODULES: Final = (
    "clusters",
    "chores",
    "topics",
    "groups",
    "members",
    "offsets",
    "producers",
    "messages",
    "reading",
    "sending",
    "nameservers",
    "access",
    "exporting",
    "monitoring",
)


def load() -> None:
    for name in MODULES:
        import_module(f"{__name__}.{name}")
