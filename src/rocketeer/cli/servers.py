"""One server in the foreground: `rocketeer namesrv` and `broker`, or as RocketMQ's scripts `mqnamesrv`, `mqbroker`.

command line -> Settings -> what is odd about them is said -> ports and folders are looked at -> the server runs
"""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from rocketeer.cli.error_output import say
from rocketeer.cli.logs import LogFormat, LogLevel, log_file, show_logs
from rocketeer.cli.preflight import Port, allow_many_files, check_folder, check_ports, numeric_host
from rocketeer.cli.serve import run_loop, serve
from rocketeer.clock import SystemClock
from rocketeer.config import BrokerRole, ServerRole, Settings, parse_addresses, read_config
from rocketeer.config.command_line import parse_words
from rocketeer.config.unavailable import refuse_unavailable, without_effect
from rocketeer.errors import ConfigError
from rocketeer.remoting.address import join_address

ConfigFile = Annotated[
    Path | None,
    typer.Option("-c", "--config", "--configFile", metavar="FILE", help="A RocketMQ configuration file."),
]
NamesrvAddr = Annotated[
    str | None,
    typer.Option("-n", "--namesrv-addr", "--namesrvAddr", metavar="ADDR", help="host:port;host:port ..."),
]
PrintConfig = Annotated[
    bool,
    typer.Option("-p", "--print-config", "--printConfigItem", help="Print every setting in force and leave."),
]
PrintImportant = Annotated[
    bool,
    typer.Option("-m", "--printImportantConfig", help="Print the settings that matter most and leave."),
]
LevelOption = Annotated[LogLevel, typer.Option(help="The least important log lines to show.")]
FormatOption = Annotated[
    LogFormat, typer.Option("--log-format", help="Log lines for people or for machines.")
]
LogDir = Annotated[
    Path | None,
    typer.Option(
        "--log-dir", metavar="DIR", help="Write log files there, too.  [default for services: STORE/logs]"
    ),
]

WITH_SETTINGS: Final = {"allow_extra_args": True, "ignore_unknown_options": True}
"""Typer settings of a command whose other words are settings: `autoCreateTopicEnable=true`, `--listenPort 9876`."""
_IMPORTANT: Final = frozenset(
    {
        "namesrvAddr", "brokerIP1", "brokerName", "brokerClusterName", "brokerId",
        "autoCreateTopicEnable", "autoCreateSubscriptionGroup", "msgTraceTopicName", "traceTopicEnable",
        "rejectTransactionMessage", "fetchNamesrvAddrByAddressServer", "transactionTimeOut",
        "transactionCheckMax", "transactionCheckInterval", "aclEnable", "storePathRootDir",
        "storePathCommitLog", "storePathDLedgerCommitLog", "flushIntervalCommitLog",
        "commitIntervalCommitLog", "flushCommitLogTimed", "deleteWhen", "fileReservedTime",
        "maxTransferBytesOnMessageInMemory", "maxTransferCountOnMessageInMemory",
        "maxTransferBytesOnMessageInDisk", "maxTransferCountOnMessageInDisk",
        "accessMessageInMemoryMaxRatio", "messageIndexEnable", "messageIndexSafe", "haMasterAddress",
        "brokerRole", "flushDiskType", "cleanFileForciblyEnable", "transientStorePoolEnable",
    }
)  # fmt: skip
"""What RocketMQ's mqbroker prints with -m."""


@dataclass(frozen=True, kw_only=True)
class ServerStart:
    """What a person asked for when starting a server, and in whose words it says that it runs."""

    config: Path | None
    words: list[str]
    namesrv_addr: str | None = None
    print_config: bool = False
    print_important: bool = False
    log_level: LogLevel = LogLevel.INFO
    log_format: LogFormat = LogFormat.TEXT
    log_dir: Path | None = None
    as_rocketmq: bool = False

    def settings(self, role: ServerRole) -> Settings:
        """The file's settings with the command line's on top; what is odd about the file is said now."""
        settings = read_config(self.config, role, command_line=parse_words(self.words))
        for warning in settings.warnings:
            say(f"warning: {warning}")
        if self.namesrv_addr is None:
            return settings
        try:
            addresses = parse_addresses(self.namesrv_addr)
        except ConfigError as error:
            raise ConfigError(f"-n: {error}") from None
        return dataclasses.replace(
            settings, broker=dataclasses.replace(settings.broker, namesrv_addresses=addresses)
        )

    def prints_only(self, settings: Settings) -> bool:
        """Print the settings if that is all that was asked for."""
        if self.print_config or self.print_important:
            properties = settings.effective_properties()
            for key in sorted(properties, key=str.lower):
                if self.print_config or key in _IMPORTANT:
                    print(f"{key}={properties[key]}")
        return self.print_config or self.print_important

    def show_logs(self, level: str | None, folder: Path, name: str) -> None:
        show_logs(
            LogLevel(level or self.log_level),
            log_format=self.log_format,
            file=log_file(self.log_dir, folder, name),
        )


def run_namesrv(asked: ServerStart) -> None:
    """Run a name server until somebody stops it."""
    settings = asked.settings(ServerRole.NAMESRV)
    if asked.prints_only(settings):
        return
    _say_without_effect(settings)
    asked.show_logs(
        settings.namesrv.log_level, settings.namesrv.kv_config_path.parent / "logs", "namesrv.log"
    )
    allow_many_files()
    server = settings.server
    check_ports([Port(server.bind_host, server.listen_port, "name server, listenPort")])

    from rocketeer.nameserver.server import NameServer

    ready = f"name server listens on {join_address(server.bind_host, server.listen_port)}"
    if asked.as_rocketmq:
        ready = "The Name Server boot success. serializeType=JSON"
    run_loop(
        serve(
            [NameServer(settings.namesrv, SystemClock(), extras=settings.extras)],
            ready=lambda: print(ready, flush=True),
        )
    )


def run_broker(asked: ServerStart) -> None:
    """Run a broker until somebody stops it."""
    settings = asked.settings(ServerRole.BROKER)
    if asked.prints_only(settings):
        return
    refuse_unavailable(settings)
    _say_without_effect(settings)
    asked.show_logs(settings.broker.log_level, settings.store.store_path / "logs", "broker.log")
    allow_many_files()
    _check_places(settings)
    if not settings.broker.namesrv_addresses:
        say("no name server given (-n, namesrvAddr or NAMESRV_ADDR): clients cannot find this broker")

    from rocketeer.broker.assemble import Broker
    from rocketeer.broker.group.member import ReplicaGroupMember

    # Message ids carry the address, so a host name in brokerIP1 is looked up once, here.
    host = numeric_host(settings.broker.host)
    settings = dataclasses.replace(settings, broker=dataclasses.replace(settings.broker, host=host))
    broker = (ReplicaGroupMember if settings.broker.group.enabled else Broker)(
        settings.broker,
        settings.store,
        settings.server,
        SystemClock(),
        config_path=settings.path,
        extras=settings.extras,
    )
    ready = _boot_success(settings) if asked.as_rocketmq else _listens(settings)
    run_loop(serve([broker], ready=lambda: print(ready, flush=True)))


def _check_places(settings: Settings) -> None:
    server = settings.server
    group = settings.broker.group
    is_slave = settings.store.broker_role is BrokerRole.SLAVE
    members = [Port(server.bind_host, group.port(server.listen_port), "members, groupPort")]
    check_ports(
        [
            Port(server.bind_host, server.listen_port, "broker, listenPort"),
            Port(server.bind_host, server.fast_port, "second port of the broker, listenPort minus 2"),
            *([] if is_slave else [Port(server.bind_host, settings.store.ha_port, "slaves, haListenPort")]),
            *(members if group.enabled else []),
        ]
    )
    check_folder(settings.store.store_path)
    check_folder(settings.store.commit_log_path)


def _listens(settings: Settings) -> str:
    broker = settings.broker
    where = join_address(broker.host, settings.server.listen_port)
    if broker.advertised_address is not None:
        where += f", advertised as {broker.advertised_address}"
    return f"broker {broker.broker_name} listens on {where}, store {settings.store.store_path.absolute()}"


def _boot_success(settings: Settings) -> str:
    """RocketMQ's line: scripts wait for it."""
    broker = settings.broker
    address = broker.advertised_address or join_address(broker.host, settings.server.listen_port)
    line = f"The broker[{broker.broker_name}, {address}] boot success. serializeType=JSON"
    if broker.namesrv_addresses:
        line += f" and name server is {';'.join(broker.namesrv_addresses)}"
    return line


def _say_without_effect(settings: Settings) -> None:
    for key, why in without_effect(settings).items():
        say(f"{key} is set, but has no effect here: {why}")


def namesrv(
    context: typer.Context,
    config: ConfigFile = None,
    print_config: PrintConfig = False,
    log_level: LevelOption = LogLevel.INFO,
    log_format: FormatOption = LogFormat.TEXT,
    log_dir: LogDir = None,
) -> None:
    """Run a name server. Settings may follow: key=value or --key value."""
    run_namesrv(
        ServerStart(
            config=config,
            words=context.args,
            print_config=print_config,
            log_level=log_level,
            log_format=log_format,
            log_dir=log_dir,
        )
    )


def broker(
    context: typer.Context,
    config: ConfigFile = None,
    namesrv_addr: NamesrvAddr = None,
    print_config: PrintConfig = False,
    log_level: LevelOption = LogLevel.INFO,
    log_format: FormatOption = LogFormat.TEXT,
    log_dir: LogDir = None,
) -> None:
    """Run a broker. Settings may follow: key=value or --key value."""
    run_broker(
        ServerStart(
            config=config,
            words=context.args,
            namesrv_addr=namesrv_addr,
            print_config=print_config,
            log_level=log_level,
            log_format=log_format,
            log_dir=log_dir,
        )
    )
