"""The network: ports to listen on, name servers, and whether clients reach brokers where the name server says."""

import contextlib
import socket
from collections.abc import Iterator, Sequence
from typing import Final

from rocketeer.admin.blocking import Admin
from rocketeer.admin.results import ClusterBroker
from rocketeer.cli.doctor.finding import CheckResult, advice, ok, wrong
from rocketeer.cli.preflight import Port, check_ports
from rocketeer.config import BROKER_PORT, NAMESRV_PORT, Settings
from rocketeer.errors import ConfigError, RocketeerError

TIMEOUT_S: Final = 3.0


BROKER: Final = "broker"
SLAVES: Final = "broker's slaves"


def ports_of(settings: Settings) -> list[Port]:
    """What a broker with these settings listens on, and a name server's usual port."""
    server = settings.server
    port = server.listen_port or BROKER_PORT
    return [
        Port(server.bind_host, NAMESRV_PORT, "name server"),
        Port(server.bind_host, port, BROKER),
        Port(server.bind_host, server.fast_port, "broker's second port"),
        Port(server.bind_host, settings.store.ha_port, SLAVES),
    ]


def port_findings(ports: Sequence[Port]) -> Iterator[CheckResult]:
    """Each port by itself. The one for slaves speaks another protocol: where the broker runs, it is that broker's."""
    broker_runs = False
    for port in ports:
        what = f"port {port.number}"
        try:
            check_ports([port])
        except ConfigError as error:
            running = _answers(port)
            broker_runs |= running and port.purpose == BROKER
            if running:
                yield ok(what, f"a server of RocketMQ's protocol listens there ({port.purpose})")
            elif broker_runs and port.purpose == SLAVES:
                yield ok(what, f"taken, and the broker runs ({port.purpose})")
            else:
                yield wrong(what, f"cannot be listened on ({port.purpose})", str(error))
        else:
            yield ok(what, f"free ({port.purpose})")


def _answers(port: Port) -> bool:
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(port.host.strip("[]"), port.host)
    return speaks_rocketmq(f"{host}:{port.number}")


def speaks_rocketmq(address: str) -> bool:
    """Whether somebody answers a request there, whatever the answer."""
    from rocketeer.protocol.codes import RequestCode
    from rocketeer.protocol.command import request
    from rocketeer.remoting.blocking import BlockingConnection

    connection = BlockingConnection(address)
    with contextlib.closing(connection):
        try:
            connection.invoke(request(RequestCode.GET_BROKER_CLUSTER_INFO), TIMEOUT_S)
        except RocketeerError:
            return False
    return True


def cluster_findings(nameservers: Sequence[str]) -> Iterator[CheckResult]:
    """Each name server by itself, then every broker that any of them knows."""
    brokers: set[ClusterBroker] = set()
    for address in nameservers:
        try:
            with Admin(address, timeout_s=TIMEOUT_S) as admin:
                known = admin.cluster_map()
        except RocketeerError as error:
            yield wrong(
                f"name server {address}",
                str(error),
                "start it, open its port, or correct -n and NAMESRV_ADDR",
            )
            continue
        brokers.update(known.brokers)
        count = len(known.brokers)
        yield ok(f"name server {address}", f"answers and knows {count} broker{'' if count == 1 else 's'}")
    for broker in sorted(brokers):
        yield advertised(broker, nameservers)


def advertised(broker: ClusterBroker, nameservers: Sequence[str]) -> CheckResult:
    """Whether a client here reaches the broker at the address it told the name server."""
    what = f"broker {broker.name}"
    try:
        with Admin(nameservers, timeout_s=TIMEOUT_S) as admin:
            failures = admin.topic_configs(broker=broker.address).failures
            reason = str(failures[0].error) if failures else ""
    except RocketeerError as error:
        reason = str(error)
    if not reason:
        return ok(what, f"reached at {broker.address}, the address it tells clients")
    change = "set brokerIP1 or advertisedAddress to what clients can reach, or open the port"
    return wrong(what, f"{broker.address}: {reason}", change)


def own_address(told: str) -> CheckResult:
    """What a broker with this brokerIP1, or advertisedAddress (`host:port`), will tell clients."""
    what = "advertised address"
    host = told.rpartition(":")[0] if told.count(":") == 1 else told
    if ":" in host:
        return ok(what, told)  # IPv6, in numbers
    try:
        resolved = socket.gethostbyname(host)
    except (OSError, UnicodeError) as error:
        return wrong(
            what, f"{host} cannot be looked up: {error}", "set brokerIP1 to an address clients reach"
        )
    if resolved.startswith("127."):
        return advice(
            what, f"{told} is this machine alone", "clients elsewhere need another one: set brokerIP1"
        )
    if resolved == "0.0.0.0":
        return wrong(
            what,
            "0.0.0.0 is no address to connect to",
            "set brokerIP1 or advertisedAddress to what clients reach",
        )
    return ok(what, told)
