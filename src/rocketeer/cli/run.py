"""`rocketeer run module:app`: an application of listeners, from a shell or a service file."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from rocketeer.cli.logs import LogLevel, show_logs
from rocketeer.client.app import App
from rocketeer.errors import ConfigError


def run(
    target: Annotated[str, typer.Argument(metavar="MODULE:APP", help="Where the App object is.")],
    nameserver: Annotated[
        str | None,
        typer.Option(
            "-n", "--nameserver", metavar="ADDR", help="Instead of the app's own: host:port;host:port."
        ),
    ] = None,
    log_level: Annotated[
        LogLevel, typer.Option(help="The least important log lines to show.")
    ] = LogLevel.INFO,
) -> None:
    """Run an application of listeners (rocketeer.App) until Ctrl-C; what is in hand is finished first."""
    show_logs(log_level)
    load_app(target).run(nameserver=nameserver)


def load_app(target: str) -> App:
    """The App object `module:name` stands for, modules of the current folder included; raises ConfigError."""
    module_name, _, name = target.partition(":")
    if not module_name:
        raise ConfigError(
            f"{target!r} names no module: write module:app, as in `rocketeer run shop.listeners:app`"
        )
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        # A missing import inside the module is its author's business: that error must stay as it is.
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise ConfigError(
            f"there is no module {module_name!r} here or among the installed packages"
        ) from None
    found = getattr(module, name or "app", None)
    if not isinstance(found, App):
        apps = [key for key, value in vars(module).items() if isinstance(value, App)]
        there = f"it has {', '.join(apps)}" if apps else "it has none"
        raise ConfigError(f"module {module_name!r} has no App object {name or 'app'!r}; {there}")
    return found
