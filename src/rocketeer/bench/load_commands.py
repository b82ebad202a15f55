"""The commands that put one kind of load on one or more brokers: send, batch, pull, e2e."""

from dataclasses import asdict
from typing import Annotated

import typer

from rocketeer.bench.compare import compare
from rocketeer.bench.options import (
    BenchTarget,
    BodyBytes,
    Connections,
    FlushChoice,
    FlushOption,
    Processes,
    QueuesOption,
    Rate,
    RoundsOption,
    Seconds,
    Shape,
    Warmup,
)
from rocketeer.bench.session import LoadPlan, run_batch, run_end_to_end, run_pull, run_send


def send(
    where: BenchTarget,
    shape: Shape,
    flush: FlushOption = FlushChoice.asynchronous,
    queues: QueuesOption = 4,
    warmup: Warmup = 2,
    processes: Processes = 1,
    rate: Rate = None,
    acl: Annotated[
        bool, typer.Option("--acl", help="The brokers ask for accounts: sends are signed.")
    ] = False,
    tls: Annotated[bool, typer.Option("--tls", help="The load comes with TLS.")] = False,
) -> None:
    """Single messages (SEND_MESSAGE_V2), each with its own KEYS and UNIQ_KEY."""
    plan = LoadPlan(**asdict(shape), queues=queues, warmup_s=warmup, processes=processes, rate=rate)
    mode = "sync-flush send" if flush is FlushChoice.synchronous else "send"
    mode += " with accounts" * acl + " over TLS" * tls
    step = (lambda server, plan: run_send(server, plan, mode), plan)
    compare([step], where, flush=flush, acl=acl, tls=tls)


def batch(where: BenchTarget, shape: Shape, processes: Processes = 1) -> None:
    """Batches of 32 messages (SEND_BATCH_MESSAGE)."""
    compare([(run_batch, LoadPlan(**asdict(shape), processes=processes))], where)


def pull(where: BenchTarget, shape: Shape, processes: Processes = 1) -> None:
    """Pulls of 32 messages that are stored already (it stores them first)."""
    compare([(run_pull, LoadPlan(**asdict(shape), processes=processes))], where, filled=True)


def e2e(
    where: BenchTarget,
    rate: Annotated[float, typer.Option(help="Messages/s, sent at fixed times.")] = 2000,
    connections: Connections = 1,
    body_bytes: BodyBytes = 1024,
    seconds: Seconds = 5,
    rounds: RoundsOption = 3,
) -> None:
    """From the scheduled send to the arrival at a consumer whose pulls are held by the broker."""
    plan = LoadPlan(connections=connections, body_bytes=body_bytes, seconds=seconds, rounds=rounds, rate=rate)
    compare([(run_end_to_end, plan)], where)
