"""`rocketeer run module:app`: an application of listeners, from a shell or a service file.

The clients are loaded by whoever runs an app: every other command, and each broker, starts much sooner without them.
"""

import asyncio
import contextlib
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rocketeer.cli.logs import LogLevel, show_logs
from rocketeer.errors import ConfigError
from rocketeer.extras import UsersImportFailed, users_code

if TYPE_CHECKING:
    from rocketeer.cli.workers import Supervisor
    from rocketeer.client.app import App


def run(
    target: Annotated[str, typer.Argument(metavar="MODULE:APP", help="Where the App object is.")],
    nameserver: Annotated[
        str | None,
        typer.Option(
            "-n", "--nameserver", metavar="ADDR", help="Instead of the app's own: host:port;host:port."
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("-c", "--config", metavar="FILE", help="Options of the app, in YAML; see docs/apps.md."),
    ] = None,
    profile: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A profile of the file; of several the last one counts most."),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, max=256, help="How many processes share the work.")] = 1,
    reload: Annotated[
        bool, typer.Option("--reload", help="Start anew when a .py file of this folder changes.")
    ] = False,
    health_port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Serve /live and /ready there, over HTTP.")
    ] = None,
    health_host: Annotated[
        str, typer.Option(help="Where to serve them; 0.0.0.0 for probes from outside.")
    ] = "127.0.0.1",
    log_level: Annotated[
        LogLevel, typer.Option(help="The least important log lines to show.")
    ] = LogLevel.INFO,
    status_fd: Annotated[int | None, typer.Option(hidden=True)] = None,
    worker: Annotated[int, typer.Option(hidden=True)] = 0,
) -> None:
    """Run an application of listeners (rocketeer.App) until Ctrl-C; what is in hand is finished first.

    Its options may come from a file and from variables ROCKETEER_APP_..., which count more than the code.
    """
    from rocketeer.cli.workers import Supervisor, worker_command
    from rocketeer.client.apps.settings import AppSettings, app_settings

    show_logs(log_level)
    profiles = tuple(name for each in profile or () for name in each.split(",") if name)
    settings = app_settings(config, profiles, os.environ)
    if nameserver:
        settings.update(AppSettings({"nameserver": nameserver}))
    health = None if health_port is None else (health_host, health_port)
    if workers == 1 and not reload:
        app = load_app(target)
        app.configure(settings)
        if worker:
            app.configure_worker(worker)
        asyncio.run(serve_app(app, health, status_fd))
        return
    if not reload:
        load_app(target)  # what cannot be loaded is told once, not by every worker
    arguments = ["--log-level", log_level.value]
    for option, value in (("--nameserver", nameserver), ("--config", config)):
        arguments += [option, str(value)] if value else []
    for name in profiles:
        arguments += ["--profile", name]
    watched = [Path.cwd(), *([config] if config else [])] if reload else []
    supervisor = Supervisor(worker_command(target, arguments), workers, watched)
    sys.exit(asyncio.run(supervise(supervisor, health)))


async def serve_app(app: "App", health: tuple[str, int] | None, status_fd: int | None) -> None:
    """Run the app until a signal comes, or the supervisor's pipe ends."""
    from rocketeer.cli.workers import StatusPipe
    from rocketeer.client.apps.health import Health, health_pages

    async with contextlib.AsyncExitStack() as stack:
        if health is not None:
            await stack.enter_async_context(health_pages(*health, lambda: Health(True, app.ready)))
        if status_fd is not None:
            stack.enter_context(StatusPipe(status_fd).reporting(lambda: app.ready, app.stop))
        await app.serve()


async def supervise(supervisor: "Supervisor", health: tuple[str, int] | None) -> int:
    """Run several workers; the exit code."""
    from rocketeer.client.apps.health import Health, health_pages

    async with contextlib.AsyncExitStack() as stack:
        if health is not None:
            await stack.enter_async_context(
                health_pages(*health, lambda: Health(supervisor.live, supervisor.ready))
            )
        return await supervisor.run()


def load_app(target: str) -> "App":
    """The App object `module:name` stands for, modules of the current folder included; raises ConfigError."""
    from rocketeer.client.app import App

    module_name, _, name = target.partition(":")
    if not module_name:
        raise ConfigError(
            f"{target!r} names no module: write module:app, as in `rocketeer run shop.listeners:app`"
        )
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        with users_code():
            module = import_module(module_name)
    except UsersImportFailed as error:
        # A missing import inside the module is its author's business, who wants the traceback.
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
