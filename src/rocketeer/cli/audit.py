"""`rocketeer audit STORE`: proves a store's files, without broker or Spark; exit code 1 if they are wrong."""

import contextlib
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from rocketeer.audit.options import DelayLevels, Exact, JsonFile, Shown, show
from rocketeer.audit.report import FINDINGS_MAX

SHOW_S = 1.0


class Progress:
    """One line on the terminal, written over; a line now and then where that is a file."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._began_s = self._said_s = time.monotonic()
        self._on_terminal = sys.stderr.isatty()

    def tell(self, done: int, of: int) -> None:
        now_s = time.monotonic()
        if self._quiet or now_s - self._said_s < (SHOW_S if self._on_terminal else 10 * SHOW_S):
            return
        self._said_s = now_s
        text = f"audit  tasks {done:,}/{of:,}  {now_s - self._began_s:.0f} s"
        print(
            f"\r{text:<60}" if self._on_terminal else text,
            end="" if self._on_terminal else "\n",
            file=sys.stderr,
        )

    def end(self) -> None:
        if self._on_terminal and self._said_s > self._began_s:
            with contextlib.suppress(OSError):
                print("\r" + " " * 60, end="\r", file=sys.stderr, flush=True)


def audit(
    store: Annotated[
        Path, typer.Argument(help="A broker's store folder (storePathRootDir), running or a copy.")
    ],
    exact: Exact = None,
    delay_levels: DelayLevels = None,
    findings: Shown = FINDINGS_MAX,
    json: JsonFile = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Processes that read side by side.  [default: one for each core]"),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Prove a store's files: checksums, places, queues, index, checkpoint; exit code 1 if something is wrong."""
    from rocketeer.audit.processes import in_processes
    from rocketeer.audit.store import audit_store

    progress = Progress(quiet=quiet)
    try:
        report = audit_store(
            in_processes(workers, progress.tell), store, exact=exact, delay_levels=delay_levels
        )
    finally:
        progress.end()
    show(report, findings, json)
