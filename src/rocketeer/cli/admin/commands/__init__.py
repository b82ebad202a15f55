"""The commands, a module for each subject; `load` puts them all into `declare.COMMANDS`."""

from importlib import import_module
from typing import Final

MODULES: Final = (
    "clusters",
    "chores",
    "topics",
    "activity",
    "groups",
    "members",
    "offsets",
    "producers",
    "messages",
    "tracing",
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
