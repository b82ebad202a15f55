"""`rocketeer spark audit`: reads a whole store in parallel and proves it, and that a lake agrees with the topics.

Exit code 1 when something is wrong; the report says what, where, what was expected and what was found.
"""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rocketeer.audit.options import DelayLevelsOption, Exact, JsonFile, ShownOption, show
from rocketeer.audit.report import FINDINGS_MAX, AuditReport
from rocketeer.audit.store import audit_store
from rocketeer.errors import ConfigError
from rocketeer.spark.jobs.audit.agreement import audit_agreement
from rocketeer.spark.jobs.audit.lake import audit_lake_files
from rocketeer.spark.jobs.audit.runner import with_spark
from rocketeer.spark.jobs.lake.folder import Lake
from rocketeer.spark.jobs.lake.state import LakeState
from rocketeer.spark.jobs.progress import JobProgress
from rocketeer.spark.jobs.running import Run, job_command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def audit(
    spark: "SparkSession",
    store: "str | Path | None" = None,
    *,
    lake: "str | Path | None" = None,
    nameserver: str | None = None,
    broker_name: str | None = None,
    exact: bool | None = None,
    delay_levels: str | None = None,
) -> AuditReport:
    """Audit a broker's store folder, a lake, or both and that they agree; a lake without a store is compared with the
    brokers' topics if a name server is given.

    `audit(spark, "/data/store", lake="/data/lake").ok`
    """
    if store is None and lake is None:
        raise ConfigError("nothing to audit: name a store's folder, a lake, or both")
    began_s = time.monotonic()
    run = with_spark(spark)
    report: AuditReport | None = None
    if store is not None:
        report = audit_store(run, store, exact=exact, delay_levels=delay_levels)
    if lake is not None:
        opened = Lake.open(lake)
        if report is None:
            report = AuditReport(f"lake {opened.place}", exact=True)
        else:
            report.subject += f" and lake {opened.place}"
        before = report.seconds
        state = audit_lake_files(run, opened, report)
        where = _where(state, store, nameserver, broker_name)
        if where is not None:
            audit_agreement(spark, opened, state, where, report)
        if before:
            report.notes.append(f"the store took {before:.1f} s of it")
        else:
            report.seconds = time.monotonic() - began_s
    assert report is not None
    return report


def _where(
    state: LakeState, store: "str | Path | None", nameserver: str | None, broker_name: str | None
) -> dict[str, str] | None:
    """The source's options for the other side of the lake; None when there is none."""
    if store is not None:
        brokers = sorted({queue.broker_name for queue in state.ranges})
        if broker_name is None and len(brokers) > 1:
            names = ", ".join(brokers)
            raise ConfigError(f"the lake has messages of {names}: say whose store this is with --broker-name")
        name = broker_name or (brokers[0] if brokers else "broker-a")
        return {"storePath": str(store), "brokerName": name}
    return None if nameserver is None else {"nameserver": nameserver}


@job_command()
def command(
    run: Run,
    store: Annotated[
        Path | None, typer.Argument(help="A broker's store folder (storePathRootDir), running or a copy.")
    ] = None,
    lake: Annotated[
        str | None, typer.Option(help="A lake: checked, and compared with the store, or with -n the topics.")
    ] = None,
    broker_name: Annotated[
        str | None, typer.Option(help="Whose store it is, when the lake has several brokers.")
    ] = None,
    exact: Exact = None,
    delay_levels: DelayLevelsOption = None,
    findings: ShownOption = FINDINGS_MAX,
    json: JsonFile = None,
) -> None:
    """Prove a store (checksums, places, queues, index) and that a lake agrees with it; exit code 1 if not."""
    if store is None and lake is None:
        raise ConfigError("nothing to audit: name a store's folder, or a lake with --lake")
    if store is not None and not (store / "commitlog").is_dir():
        raise ConfigError(f"{store} is not a store: it has no folder commitlog")
    progress = JobProgress("audit", quiet=run.quiet)
    with run.spark("audit") as spark, progress.during(spark):
        report = audit(
            spark,
            store,
            lake=lake,
            nameserver=run.nameserver,
            broker_name=broker_name,
            exact=exact,
            delay_levels=delay_levels,
        )
    show(report, findings, json)
