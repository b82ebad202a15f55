"""`rocketeer`: the commands, their options, and how an error reaches the person who typed them.

Everything a user can get wrong ends as one line on stderr and exit code 1, before anything is touched.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final, NamedTuple, NoReturn

import typer

from rocketeer import __version__
from rocketeer.cli.audit import audit
from rocketeer.cli.backup import backup, restore
from rocketeer.cli.certs import certs
from rocketeer.cli.children import COMMAND as CHILD_COMMAND
from rocketeer.cli.children import ChildBroker, run_child
from rocketeer.cli.console import console as console_command
from rocketeer.cli.console import console_user
from rocketeer.cli.console_child import CONSOLE_PORT, ConsoleChild, why_no_console
from rocketeer.cli.doctor.command import doctor
from rocketeer.cli.error_output import run_program, say
from rocketeer.cli.etcd_child import EtcdChild
from rocketeer.cli.java_options import SettingsCommand
from rocketeer.cli.logs import LogFormat, LogLevel, log_file, show_logs
from rocketeer.cli.preflight import allow_many_files, check_folder, check_ports, numeric_host
from rocketeer.cli.run import run
from rocketeer.cli.serve import Server, run_loop, serve
from rocketeer.cli.servers import WITH_SETTINGS, FormatOption, LevelOption, LogDir, broker, namesrv
from rocketeer.cli.up_spec import BROKERS_MAX, up_spec
from rocketeer.clock import SystemClock
from rocketeer.config import (
    BROKER_PORT,
    NAMESRV_PORT,
    local_address,
)
from rocketeer.errors import ConfigError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"rocketeer {__version__} (compatible with RocketMQ 4.9.8)")
        raise typer.Exit


@app.callback()
def rocketeer(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version and leave."
        ),
    ] = False,
) -> None:
    """A RocketMQ-compatible messaging engine: name server, broker, tools."""


@app.command()
def up(
    brokers: Annotated[
        int, typer.Option(min=1, max=BROKERS_MAX, help="How many; each further one is a process.")
    ] = 1,
    replicas: Annotated[
        int,
        typer.Option(min=1, max=9, help="Members of each broker's group, with an etcd; each is a process."),
    ] = 1,
    store: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where messages are kept.  [default: ~/store]")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Where to listen; 0.0.0.0 for every network, :: also for those of IPv6.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=3, max=65535, help="The first broker's port.")] = BROKER_PORT,
    namesrv_port: Annotated[int, typer.Option(min=1, max=65535)] = NAMESRV_PORT,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            min=1, max=65000, help="Serve metrics for Prometheus there, on 127.0.0.1; RocketMQ 5 has 5557."
        ),
    ] = None,
    console: Annotated[bool, typer.Option(help="Show the cluster in a browser, too.")] = True,
    console_port: Annotated[int, typer.Option(min=1, max=65535)] = CONSOLE_PORT,
    log_level: LevelOption = LogLevel.WARNING,
    log_format: FormatOption = LogFormat.TEXT,
    log_dir: LogDir = None,
) -> None:
    """Run a name server and a broker (or several) in the foreground."""
    folder = (store or Path.home() / "store").absolute()
    show_logs(log_level, log_format=log_format, file=log_file(log_dir, folder / "logs", "broker.log"))
    allow_many_files()
    bind_host = numeric_host(host)
    spec = up_spec(
        brokers=brokers,
        replicas=replicas,
        store_path=(store or Path.home() / "store").absolute(),
        bind_host=bind_host,
        host=local_address() if bind_host in ("0.0.0.0", "::") else bind_host,
        port=port,
        namesrv_port=namesrv_port,
        metrics_port=metrics_port,
    )
    check_ports(spec.ports)
    for planned in spec.brokers:
        check_folder(planned.store_path)

    from rocketeer.broker.assemble import Broker
    from rocketeer.cli.banner import show_banner
    from rocketeer.nameserver.server import NameServer

    no_console = why_no_console(console_port) if console else "off"
    shown = [] if no_console else [ConsoleChild(spec.namesrv_address, console_port)]

    def kill_children() -> None:
        for child in children:
            child.kill()
        for page in shown:
            page.kill()
        for own in etcd:
            own.kill()

    clock = SystemClock()
    first, *others = spec.brokers
    apart = others if spec.etcd is None else spec.brokers  # members are processes, all of them
    children = [ChildBroker(broker, log_level, log_format, on_crash=say) for broker in apart]
    etcd = [] if spec.etcd is None else [EtcdChild(spec.etcd, on_crash=say)]
    here = [Broker(first.broker_config, first.store_config, first.server_config, clock)]
    servers: list[Server] = [
        *etcd,
        NameServer(spec.namesrv, clock),
        *(here if spec.etcd is None else ()),
        *children,
        *shown,
    ]
    run_loop(
        serve(
            servers,
            ready=lambda: show_banner(
                spec, _next_to_try(first.address), no_console or f"http://127.0.0.1:{console_port}/"
            ),
            on_force=kill_children,
        )
    )


@app.command(CHILD_COMMAND, hidden=True)
def broker_child(
    log_level: LevelOption = LogLevel.WARNING, log_format: FormatOption = LogFormat.TEXT
) -> None:
    """One of the further brokers of `up`; not for people."""
    raise typer.Exit(run_child(log_level, log_format))


app.command(cls=SettingsCommand, context_settings=WITH_SETTINGS)(namesrv)
app.command(cls=SettingsCommand, context_settings=WITH_SETTINGS)(broker)
app.command()(run)
app.command()(audit)
app.command()(doctor)
app.command()(certs)
app.command("console")(console_command)
app.command("console-user")(console_user)
app.command()(backup)
app.command()(restore)


@app.command(
    "admin",
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def admin(context: typer.Context) -> None:
    """Every command of RocketMQ's mqadmin; alone it lists them."""
    from rocketeer.cli.admin.program import run as run_admin

    raise typer.Exit(run_admin(context.args, "rocketeer admin"))


class _Group(NamedTuple):
    """Commands that an installation may leave out, loaded only for who asks: servers start without them."""

    module: str
    needs: tuple[str, ...]
    help: str
    missing: str

    @property
    def installed(self) -> bool:
        return all(find_spec(name) is not None for name in self.needs)


_GROUPS: Final = {
    "bench": _Group(
        "rocketeer.bench.cli",
        ("rocketeer.bench",),
        "Measure a broker, ours or Apache's: sends, pulls, clients, Spark; and the bars they must reach.",
        "rocketeer bench is not part of the installed package: run it from a checkout of the repository "
        "(make setup, then .venv/bin/rocketeer bench)",
    ),
    "group": _Group(
        "rocketeer.cli.group",
        ("httpx2",),
        "Groups of brokers that elect their leader: who leads, and who shall.",
        "rocketeer group needs an HTTP client for etcd: pip install 'rocketeer[groups]'",
    ),
    "spark": _Group(
        "rocketeer.spark.jobs.cli",
        ("pyspark", "pyarrow"),
        "Messages in bulk with Apache Spark: archive, replay, query, transform, audit.",
        "rocketeer spark needs PySpark: pip install 'rocketeer[spark]'",
    ),
}


def _add_groups(asked: str) -> None:
    """Register the command groups anew: a process may run the program many times, and each run reads them all."""
    app.registered_groups.clear()
    for name, group in _GROUPS.items():
        wanted = asked == name and group.installed
        app.add_typer(import_module(group.module).app if wanted else _placeholder(group), name=name)


def _placeholder(group: _Group) -> typer.Typer:
    """Make a group that is listed without being loaded; called, it says what is missing."""
    placeholder = typer.Typer(
        help=group.help,
        add_help_option=False,
        invoke_without_command=True,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )

    @placeholder.callback()
    def say_what_is_missing() -> None:
        raise ConfigError(group.missing)

    return placeholder


def _next_to_try(address: str) -> str:
    return f"bench send --target {address}" if _GROUPS["bench"].installed else "--help"


def main() -> NoReturn:
    """The `rocketeer` program."""

    def work() -> None:
        _add_groups(sys.argv[1] if len(sys.argv) > 1 else "")
        app()

    run_program(work, "rocketeer")


if __name__ == "__main__":
    main()
