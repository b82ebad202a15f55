"""The options the commands of `rocketeer bench` share."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rocketeer.bench.servers import Make
from rocketeer.bench.session import Flush


class Start(StrEnum):
    """Which brokers the benchmark starts itself."""

    ours = "ours"
    apache = "apache"
    both = "both"


class FlushChoice(StrEnum):
    """When the log is written to disk: behind the reply, or before it."""

    asynchronous = "async"
    synchronous = "sync"


MAKES: dict[Start, tuple[Make, ...]] = {
    Start.ours: ("ours",),
    Start.apache: ("apache",),
    Start.both: ("ours", "apache"),
}

TargetOption = Annotated[str | None, typer.Option(help="host:port of a broker that runs already.")]
Pid = Annotated[int | None, typer.Option(help="Its process, to measure its CPU time.")]
StartOption = Annotated[Start, typer.Option(help="Brokers to start when there is no --target.")]
FlushOption = Annotated[FlushChoice, typer.Option(help="Flush mode of the brokers it starts.")]
Connections = Annotated[int, typer.Option("--connections", "-c", min=1, help="Connections.")]
InFlightOption = Annotated[int, typer.Option("--in-flight", "-w", min=1, help="Requests under way on each.")]
BodyBytes = Annotated[int, typer.Option("--body-bytes", "-b", min=32, max=65536, help="Size of a body.")]
QueuesOption = Annotated[int, typer.Option("--queues", "-q", min=1, max=10, help="Queues of a topic.")]
Seconds = Annotated[float, typer.Option("--seconds", "-s", min=0.5, help="Measured time of a round.")]
Warmup = Annotated[float, typer.Option(min=0, help="Seconds before the measured time of a round.")]
RoundsOption = Annotated[int, typer.Option(min=1, help="Rounds; the servers take turns.")]
Processes = Annotated[int, typer.Option(min=1, help="Load processes that share the connections.")]
Rate = Annotated[float | None, typer.Option(help="Open loop: requests/s, latency from the scheduled time.")]
Folder = Annotated[Path | None, typer.Option(help="Where the stores of started brokers go.", file_okay=False)]
Json = Annotated[Path | None, typer.Option("--json", help="Write all figures to this file.")]
KafkaOption = Annotated[
    bool,
    typer.Option("--kafka", help="Beside Kafka and Spark's own source and sink (interop/prepare.sh kafka)."),
]


def flush_mode(choice: FlushChoice) -> Flush:
    return "sync" if choice is FlushChoice.synchronous else "async"


@dataclass(frozen=True, kw_only=True)
class BenchTarget:
    """Which brokers, and where the figures go: what nearly every command takes."""

    target: TargetOption = None
    pid: Pid = None
    start: StartOption = Start.ours
    folder: Folder = None
    json: Json = None


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How much load, for how long."""

    connections: Connections = 16
    in_flight: InFlightOption = 16
    body_bytes: BodyBytes = 1024
    seconds: Seconds = 5
    rounds: RoundsOption = 3
