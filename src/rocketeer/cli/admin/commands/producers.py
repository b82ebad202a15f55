"""Commands about producers: who is connected."""

from typing import Annotated

from rocketeer.admin.blocking import Admin
from rocketeer.cli.admin.declare import Option, Subject, command
from rocketeer.cli.admin.options import Topic
from rocketeer.cli.admin.output import Cell, Output, OutputLines, OutputTable, columns
from rocketeer.protocol.versions import version_name


@command("producerConnection", Subject.PRODUCERS, "The clients of a producer group")
def producer_connection(
    admin: Admin,
    group: Annotated[str, Option("g", "producerGroup", "name of the producer group")],
    topic: Topic,
) -> Output:
    found = admin.producer_connections(group, topic)
    rows = [
        (
            Cell(number, f"{number:04d}"), each.client_id, each.address, each.language,
            Cell(each.version, version_name(each.version)),
        )
        for number, each in enumerate(found, start=1)
    ]  # fmt: skip
    table = OutputTable(
        "%s  %-32s %-22s %-8s %s",
        columns(
            "number", "#", "clientId", "#ClientId", "address", "#Address", "language", "#Language", "version",
            "#Version",
        ),
        rows,
        heading=False,
    )  # fmt: skip
    return Output([table])


@command("producer", Subject.PRODUCERS, "Every producer group of a broker, with its clients")
def producer(
    admin: Admin, broker: Annotated[str, Option("b", "broker", "address of the broker: host:port")]
) -> Output:
    found = admin.producers(broker)
    lines = [
        f"producer group ({group}) instance : clientId={each.client_id},remoteIP={each.address}, "
        f"language={each.language}, version={each.version}, lastUpdateTimestamp={each.last_update_ms}"
        for group, clients in sorted(found.items())
        for each in clients
    ]  # fmt: skip
    data = {
        group: [
            {
                "clientId": each.client_id, "address": each.address, "language": each.language,
                "version": version_name(each.version), "lastUpdateMs": each.last_update_ms,
            }
            for each in clients
        ]
        for group, clients in sorted(found.items())
    }  # fmt: skip
    return Output([OutputLines(lines or ["no producer is connected"])], data)
