"""`rocketeer console`: the cluster in a browser."""

import getpass
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rocketeer.client.discovery import find_source
from rocketeer.errors import ConfigError

if TYPE_CHECKING:
    import uvicorn

NEEDS = "the console needs more packages: pip install 'rocketeer[console]'"


def console(
    namesrv: Annotated[
        str | None, typer.Option("-n", "--namesrv-addr", metavar="ADDR", help="host:port;host:port ...")
    ] = None,
    clusters: Annotated[
        Path | None, typer.Option(help="A YAML file of several: `name: host:port`, a line each.")
    ] = None,
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8080,
    users: Annotated[
        Path | None, typer.Option(help="Who may sign in; `rocketeer console-user` adds one.")
    ] = None,
    audit_log: Annotated[Path | None, typer.Option(help="Who changed what is appended here.")] = None,
    until_stdin_ends: Annotated[bool, typer.Option(hidden=True)] = False,
) -> None:
    """Show clusters in a browser."""
    try:
        import uvicorn

        from rocketeer.console.app import make_app
        from rocketeer.console.config import ClusterConfig, ConsoleConfig, read_clusters
    except ImportError:
        raise ConfigError(NEEDS) from None
    shown = read_clusters(clusters) if clusters is not None else ()
    if not shown:
        shown = (ClusterConfig(name="default", nameserver=find_source(namesrv)),)
    config = ConsoleConfig(clusters=shown, host=host, port=port, users=users, audit_log=audit_log)
    app = make_app(config)
    typer.echo(f"console  http://{host}:{port}/")
    server = uvicorn.Server(
        uvicorn.Config(app, host=host, port=port, log_level="warning", server_header=False)
    )
    if until_stdin_ends:
        threading.Thread(target=_stop_at_end_of_stdin, args=(server,), daemon=True).start()
    server.run()


def _stop_at_end_of_stdin(server: "uvicorn.Server") -> None:
    """The program that started this one is gone, or wants it to end."""
    sys.stdin.buffer.read()
    server.should_exit = True


def console_user(
    path: Annotated[Path, typer.Argument(metavar="FILE")],
    name: Annotated[str, typer.Argument()],
    role: Annotated[str, typer.Option(help="viewer, operator or admin")] = "viewer",
) -> None:
    """Add a user of the console, or change one; the password is read from the terminal or standard input."""
    try:
        from rocketeer.console.users import Role, add_user
    except ImportError:
        raise ConfigError(NEEDS) from None
    if role.upper() not in Role.__members__:
        raise ConfigError(f"the role {role!r} is none of viewer, operator, admin")
    password = getpass.getpass() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
    if len(password) < 8:
        raise ConfigError("a password has 8 characters or more")
    add_user(path, name, password, Role[role.upper()])
    typer.echo(f"{name} is {role} in {path}")
