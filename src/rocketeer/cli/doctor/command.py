"""The command: runs all looks, shows them, and leaves with 1 when something will not work."""

import json
import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final

import typer

from rocketeer.cli.doctor.disk import disk_findings
from rocketeer.cli.doctor.finding import CheckResult, Level, advice, ok
from rocketeer.cli.doctor.machine import machine_findings
from rocketeer.client.core.nameservers import parse_addresses
from rocketeer.config import ServerRole, Settings, read_config
from rocketeer.errors import RocketeerError

_MARKS: Final = {Level.OK: "ok", Level.ADVICE: "advice", Level.WRONG: "WRONG"}
_STYLES: Final = {Level.OK: "green", Level.ADVICE: "yellow", Level.WRONG: "bold red"}


def doctor(
    config: Annotated[
        Path | None, typer.Option("-c", "--config", metavar="FILE", help="A broker's configuration file.")
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The store to look at.  [default: the file's, or ~/store]"),
    ] = None,
    namesrv_addr: Annotated[
        str | None,
        typer.Option("-n", "--namesrv-addr", metavar="ADDR", help="Name servers to ask; or NAMESRV_ADDR."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Look at this machine, its disk and its network, and say what to change; exit code 1 if it will not work."""
    settings = read_config(config, ServerRole.BROKER)
    given = namesrv_addr or os.environ.get("NAMESRV_ADDR") or ";".join(settings.broker.namesrv_addresses)
    found = list(
        findings(settings, store or settings.store.store_path, parse_addresses(given), config is not None)
    )
    if as_json:
        print(json.dumps([_values(each) for each in found], ensure_ascii=False, indent=2))
    else:
        _show(found)
    raise typer.Exit(1 if any(each.level is Level.WRONG for each in found) else 0)


def findings(
    settings: Settings, store: Path, nameservers: tuple[str, ...], configured: bool
) -> Iterator[CheckResult]:
    # Only here: it brings the clients, and servers start without them.
    from rocketeer.cli.doctor.network import cluster_findings, own_address, port_findings, ports_of

    yield from machine_findings()
    yield from disk_findings(store)
    yield from port_findings(ports_of(settings))
    if configured:
        yield own_address(settings.broker.advertised_address or settings.broker.host)
    yield java_for_spark()
    if nameservers:
        yield from cluster_findings(nameservers)
    else:
        yield advice("name server", "none was given", "give -n host:9876 to have the cluster looked at too")


def java_for_spark() -> CheckResult:
    """The pipeline's jobs need a Java; brokers and clients do not."""
    what = "Java for Spark"
    if find_spec("pyspark") is None:
        return ok(what, "not needed: PySpark is not installed")
    from rocketeer.spark.java import ensure_java

    try:
        return ok(what, str(ensure_java()))
    except RocketeerError as error:
        return advice(what, "none", str(error))


def _values(each: CheckResult) -> dict[str, str]:
    return {"level": each.level.value, "what": each.what, "seen": each.seen, "change": each.change}


def _show(found: list[CheckResult]) -> None:
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.text import Text

        console = Console()
        for each in found:
            line = Text(f"{_MARKS[each.level]:<8}", style=_STYLES[each.level])
            line.append(f"{each.what:<23} {each.seen}", style="default")
            console.print(line)
            if each.change:
                console.print(Text(f"{'':<32}{each.change}", style=_STYLES[each.level]))
        return
    for each in found:
        print(f"{_MARKS[each.level]:<8}{each.what:<23} {each.seen}")
        if each.change:
            print(f"{'':<32}{each.change}")
