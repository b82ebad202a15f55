"""`rocketeer console`: the cluster in a browser."""

import gc
import getpass
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rocketeer.client.discovery import find_source
from rocketeer.errors import ConfigError
from rocketeer.remoting.address import join_address

if TYPE_CHECKING:
    import uvicorn

    from rocketeer.console.config import ConsoleConfig

SWITCH_S = 0.001
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
    certificate: Annotated[
        Path | None,
        typer.Option(help="Serve HTTPS with this certificate (PEM); `rocketeer certs` makes one."),
    ] = None,
    key: Annotated[Path | None, typer.Option(help="The certificate's key (PEM).")] = None,
    audit_log: Annotated[Path | None, typer.Option(help="Who changed what is appended here.")] = None,
    report: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="The page that `rocketeer spark stats` made, or its URL."),
    ] = None,
    until_stdin_ends: Annotated[bool, typer.Option(hidden=True)] = False,
) -> None:
    """Show clusters in a browser."""
    try:
        import uvicorn

        from rocketeer.console.app import make_app
        from rocketeer.console.config import ClusterConfig, ConsoleConfig, read_clusters
        from rocketeer.console.http_peers import BACKLOG, CONNECTIONS_MAX, HEAD_BYTES_MAX, HttpPeer
    except ImportError:
        raise ConfigError(NEEDS) from None
    if clusters is not None and report is not None:
        raise ConfigError("with --clusters each cluster names its own report, in the file")
    shown = read_clusters(clusters) if clusters is not None else ()
    if not shown:
        shown = (ClusterConfig(name="default", nameserver=find_source(namesrv), report=report),)
    config = ConsoleConfig(
        clusters=shown,
        host=host.strip("[]"),
        port=port,
        users=users,
        certificate=certificate,
        key=key,
        audit_log=audit_log,
    )
    app = make_app(config)
    settings = uvicorn.Config(
        app, host=config.host, port=port, log_level="warning", server_header=False,
        http=HttpPeer, ws="none", limit_concurrency=CONNECTIONS_MAX, backlog=BACKLOG,
        h11_max_incomplete_event_size=HEAD_BYTES_MAX,
    )  # fmt: skip
    _use_tls(config, settings)
    typer.echo(f"console  {'https' if config.is_secure else 'http'}://{join_address(host, port)}/")
    if not config.is_loopback and not config.is_secure:
        typer.echo(
            "passwords travel unencrypted: give --certificate and --key, or put a proxy with TLS in front"
        )
    # Long answers and pages are made in threads: those give way to the loop as soon as it has something to do.
    sys.setswitchinterval(SWITCH_S)
    server = uvicorn.Server(settings)
    # What lives now lives until the end: no later collection, which keeps everybody waiting, needs to look at it.
    gc.collect()
    gc.freeze()
    if until_stdin_ends:
        threading.Thread(target=_stop_at_end_of_stdin, args=(server,), daemon=True).start()
    server.run()


def _use_tls(config: "ConsoleConfig", settings: "uvicorn.Config") -> None:
    """Raises ConfigError when the files cannot be used: before anybody connects."""
    if config.certificate is None or config.key is None:
        return
    import ssl

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(config.certificate, config.key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"{config.certificate} and {config.key} cannot be used: {error}") from None
    settings.load()
    settings.ssl = context


def _stop_at_end_of_stdin(server: "uvicorn.Server") -> None:
    """Stop when stdin ends: the program that started this one is gone, or asks for it."""
    sys.stdin.buffer.read()
    server.should_exit = True


def console_user(
    path: Annotated[Path, typer.Argument(metavar="FILE")],
    name: Annotated[str, typer.Argument()],
    role: Annotated[str, typer.Option(help="viewer, operator or admin")] = "viewer",
) -> None:
    """Add a user of the console, or change one; the password is read from the terminal or standard input."""
    try:
        from rocketeer.console.users import UserRole, add_user
    except ImportError:
        raise ConfigError(NEEDS) from None
    if role.upper() not in UserRole.__members__:
        raise ConfigError(f"the role {role!r} is none of viewer, operator, admin")
    password = getpass.getpass() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
    if len(password) < 8:
        raise ConfigError("a password has 8 characters or more")
    add_user(path, name, password, UserRole[role.upper()])
    typer.echo(f"{name} is {role} in {path}")
