"""`rocketeer audit STORE`: proves a store's files, without broker or Spark; exit code 1 if they are wrong."""

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from rocketeer.audit.options import DelayLevelsOption, Exact, JsonFile, ShownOption, show
from rocketeer.audit.report import FINDINGS_MAX
from rocketeer.cli.progress_line import ProgressLine


def audit(
    store: Annotated[
        Path, typer.Argument(help="A broker's store folder (storePathRootDir), running or a copy.")
    ],
    exact: Exact = None,
    delay_levels: DelayLevelsOption = None,
    findings: ShownOption = FINDINGS_MAX,
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

    with closing(ProgressLine(quiet=quiet, in_files=True)) as line:

        def tell(done: int, of: int) -> None:
            line.show(f"audit  tasks {done:,}/{of:,}  {line.seconds:.0f} s")

        report = audit_store(in_processes(workers, tell), store, exact=exact, delay_levels=delay_levels)
    show(report, findings, json)
