"""`mqnamesrv`, `mqbroker` and `mqshutdown`: RocketMQ's scripts, by their names, options and lines."""

import sys
from typing import Annotated, Any, Final, NoReturn

import typer

from rocketeer.cli.complaint import run_program
from rocketeer.cli.servers import (
    WITH_SETTINGS,
    ConfigFile,
    NamesrvAddr,
    PrintConfig,
    PrintImportant,
    Started,
    run_broker,
    run_namesrv,
)
from rocketeer.cli.shutdown import Kind, shut_down

_HELP: Final[dict[str, Any]] = {"help_option_names": ["-h", "--help"]}


def _mqnamesrv(
    context: typer.Context,
    config: ConfigFile = None,
    namesrv_addr: NamesrvAddr = None,
    print_config: PrintConfig = False,
) -> None:
    """Run a name server, as RocketMQ's script does. Settings may follow: key=value or --key value."""
    del namesrv_addr  # RocketMQ's script takes it for all its servers; a name server has no use for it
    run_namesrv(Started(config=config, words=context.args, print_config=print_config, as_rocketmq=True))


def _mqbroker(
    context: typer.Context,
    config: ConfigFile = None,
    namesrv_addr: NamesrvAddr = None,
    print_config: PrintConfig = False,
    print_important: PrintImportant = False,
) -> None:
    """Run a broker, as RocketMQ's script does. Settings may follow: key=value or --key value."""
    run_broker(
        Started(
            config=config,
            words=context.args,
            namesrv_addr=namesrv_addr,
            print_config=print_config,
            print_important=print_important,
            as_rocketmq=True,
        )
    )


def _mqshutdown(
    kind: Annotated[Kind, typer.Argument(help="Which servers.")],
    pids: Annotated[
        list[int] | None, typer.Argument(help="Only these processes.", metavar="[PID]...")
    ] = None,
) -> None:
    """Ask all brokers, or all name servers, of this user to stop, and wait until they have; no message is lost."""
    raise typer.Exit(shut_down(kind, pids or ()))


def mqnamesrv() -> NoReturn:
    """The `mqnamesrv` program."""
    _run(_mqnamesrv, "mqnamesrv", {**WITH_SETTINGS, **_HELP})


def mqbroker() -> NoReturn:
    """The `mqbroker` program."""
    _run(_mqbroker, "mqbroker", {**WITH_SETTINGS, **_HELP})


def mqshutdown() -> NoReturn:
    """The `mqshutdown` program."""
    _run(_mqshutdown, "mqshutdown", _HELP)


def _run(command: Any, name: str, context_settings: dict[str, Any]) -> NoReturn:
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(name, context_settings=context_settings)(command)
    run_program(lambda: app(sys.argv[1:], prog_name=name), name)
