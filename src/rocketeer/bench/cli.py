"""`rocketeer bench`: measure our broker, Apache's, or any other; measure our client; check the bars."""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import NoReturn

import typer

from rocketeer.bench import bar_commands, load_commands
from rocketeer.bench.backlog_command import backlog
from rocketeer.bench.clients.command import client
from rocketeer.bench.compare import console as terminal
from rocketeer.bench.console_command import console
from rocketeer.bench.failover_command import failover
from rocketeer.bench.filter_command import filter_
from rocketeer.bench.metrics_command import metrics
from rocketeer.bench.replication_command import replication
from rocketeer.bench.spark import spark
from rocketeer.bench.spark_jobs import spark_jobs
from rocketeer.bench.spark_sink import spark_sink
from rocketeer.bench.timer_command import timers
from rocketeer.bench.topics_command import topics
from rocketeer.errors import RocketeerError
from rocketeer.option_groups import with_options

app = typer.Typer(
    help="Measure a broker: messages/s, latencies, CPU; ours, Apache's, or any RocketMQ. Or our client.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def _ends_what_it_started() -> None:
    """A terminated benchmark takes its servers along, as an interrupted one does."""
    signal.signal(signal.SIGTERM, _end)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    """Whoever started a server stops it on the way out; one that is being started just now has nobody yet."""
    own = os.getpid()
    for child in Path(f"/proc/{own}/task/{own}/children").read_text().split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(child), number)
    sys.exit(128 + number)


@contextlib.contextmanager
def _errors_shown() -> Iterator[None]:
    """Show what a command could not do as one red text, and end with exit code 1."""
    try:
        yield
    except RocketeerError as why:
        terminal.print(f"[red]{why}[/red]")
        raise typer.Exit(1) from None


for _command in (
    load_commands.send,
    load_commands.batch,
    load_commands.pull,
    load_commands.e2e,
    topics,
    bar_commands.idle,
    bar_commands.bars,
    bar_commands.loadgen,
    client,
    backlog,
    timers,
    metrics,
    console,
    replication,
    failover,
    spark,
):
    app.command()(_errors_shown()(with_options(_command)))
app.command("filter")(_errors_shown()(with_options(filter_)))
app.command("spark-sink")(_errors_shown()(with_options(spark_sink)))
app.command("spark-jobs")(_errors_shown()(with_options(spark_jobs)))


if __name__ == "__main__":
    app()
