"""What `rocketeer audit` and `rocketeer spark audit` share: options, and how a report is shown."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from rocketeer.audit.report import AuditReport

Exact: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        "--exact/--lagging",
        help="Whether the end of queues and index may lag behind the log.  "
        "[default: only if the store has a file `abort`: its broker runs, or died]",
    ),
]
DelayLevelsOption: TypeAlias = Annotated[
    str | None, typer.Option(help="The broker's messageDelayLevel, if it is not the default.")
]
ShownOption: TypeAlias = Annotated[
    int, typer.Option(min=1, help="How many findings to show; all are counted.")
]
JsonFile: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write the report as JSON; - for the terminal.")
]


def show(report: AuditReport, findings: int, json: Path | None) -> None:
    """Print the report or its JSON, and leave with 1 if something is wrong."""
    if json is not None and str(json) != "-":
        json.write_text(report.to_json(findings) + "\n")
    on_terminal = json is not None and str(json) == "-"
    print(report.to_json(findings) if on_terminal else report.table(findings), flush=True)
    if not report.ok:
        raise typer.Exit(1)
