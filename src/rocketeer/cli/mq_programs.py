"""`mqnamesrv`, `mqbroker` and `mqshutdown`: RocketMQ's scripts, by their names, options and lines."""

import os
import sys
from typing import Annotated, Any, Final, NoReturn

import typer

from rocketeer.cli.error_output import run_program
from rocketeer.cli.java_options import SettingsCommand, words_of_variables
from rocketeer.cli.servers import (
    WITH_SETTINGS,
    ConfigFile,
    NamesrvAddr,
    PrintConfig,
    PrintImportant,
    ServerStart,
    run_broker,
    run_namesrv,
)
from rocketeer.cli.shutdown import ServerKind, shut_down

_HELP: Final[dict[str, Any]] = {"help_option_names": ["-h", "--help"]}


def _mqnamesrv(
    context: typer.Context,
    config: ConfigFile = None,
    namesrv_addr: NamesrvAddr = None,
    print_config: PrintConfig = False,
) -> None:
    """Run a name server, as RocketMQ's script does. Settings may follow: key=value or --key value."""
    del namesrv_addr  # RocketMQ's script takes it for all its servers; a name server has no use for it
    run_namesrv(ServerStart(config=config, words=context.args, print_config=print_config, as_rocketmq=True))


def _mqbroker(
    context: typer.Context,
    config: ConfigFile = None,
    namesrv_addr: NamesrvAddr = None,
    print_config: PrintConfig = False,
    print_important: PrintImportant = False,
) -> None:
    """Run a broker, as RocketMQ's script does. Settings may follow: key=value or --key value."""
    run_broker(
        ServerStart(
            config=config,
            words=context.args,
            namesrv_addr=namesrv_addr,
            print_config=print_config,
            print_important=print_important,
            as_rocketmq=True,
        )
    )


def _mqshutdown(
    kind: Annotated[ServerKind, typer.Argument(help="Which servers.")],
    pids: Annotated[
        list[int] | None, typer.Argument(help="Only these processes.", metavar="[PID]...")
    ] = None,
) -> None:
    """Ask all brokers, or all name servers, of this user to stop, and wait until they have; no message is lost."""
    raise typer.Exit(shut_down(kind, pids or ()))


def mqnamesrv() -> NoReturn:
    """The `mqnamesrv` program."""
    _run_server(_mqnamesrv, "mqnamesrv")


def mqbroker() -> NoReturn:
    """The `mqbroker` program."""
    _run_server(_mqbroker, "mqbroker")


def mqshutdown() -> NoReturn:
    """The `mqshutdown` program."""
    app = _app()
    app.command("mqshutdown", context_settings=_HELP)(_mqshutdown)
    run_program(lambda: app(sys.argv[1:], prog_name="mqshutdown"), "mqshutdown")


def _run_server(command: Any, name: str) -> NoReturn:
    app = _app()
    app.command(name, cls=SettingsCommand, context_settings={**WITH_SETTINGS, **_HELP})(command)
    run_program(
        lambda: app([*words_of_variables(os.environ, name), *sys.argv[1:]], prog_name=name),
        name,
    )


def _app() -> typer.Typer:
    return typer.Typer(add_completion=False, pretty_exceptions_enable=False)
