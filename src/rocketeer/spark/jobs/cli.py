"""`rocketeer spark`: one command per job. A job's module has its options and a function `command`."""

from importlib import import_module
from importlib.util import find_spec
from typing import Final

import typer

PACKAGE: Final = "rocketeer.spark.jobs"
COMMANDS: Final = {
    "archive": "archive",
    "replay": "replay",
    "query": "query",
    "transform": "transform",
    "dedup": "dedup",
    "stats": "stats",
    "dead-letters": "dead_letters",
    "trace": "trace",
    "audit": "audit",
    "demo": "demo",
}
"""Command -> the module with its `command`."""

app = typer.Typer(
    help="Messages in bulk with Apache Spark: archive, replay, query, transform, audit.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

for _name, _module in COMMANDS.items():
    if find_spec(f"{PACKAGE}.{_module}") is not None:
        app.command(_name)(import_module(f"{PACKAGE}.{_module}").command)
