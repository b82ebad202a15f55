"""The data pipeline: groups that report progress and have no members, as Spark jobs do; the report of `spark stats`.

A stream with the option `group` (docs/spark.md), `archive` too, writes how far it is to the brokers as a group's
offsets. It never joins the group, so there is no retry topic: that is how such a group is told from a consumer's.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rocketeer.admin.results import GroupProgress
from rocketeer.console.errors import Refused
from rocketeer.console.fan_out import ask_each, outcomes
from rocketeer.console.i18n import text
from rocketeer.console.page_request import PageRequest, listing
from rocketeer.console.registry import Action, Attachment, Download, PageView, Param
from rocketeer.errors import RocketeerError
from rocketeer.model.group import is_system_group
from rocketeer.model.topic import retry_topic

REPORT_CSP: Final = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
"""The report has no scripts, and could not run any."""
GROUPS_MAX: Final = 200
TOOLS: Final = frozenset({"TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP"})


async def pipeline(request: PageRequest) -> Mapping[str, Any]:
    cluster = request.cluster
    names, known = await asyncio.gather(cluster.topics.get(), cluster.brokers.get())
    tables, failures = await ask_each(
        known.masters(), lambda broker: cluster.admin.consumer_offsets(broker.address)
    )
    topics = await asyncio.to_thread(_topics_of_groups, tables)
    jobs = await asyncio.to_thread(_jobs_of, topics, names)
    progress = await outcomes(jobs, cluster.admin.group_progress)
    rows = [_row(group, sorted(topics[group]), each) for group, each in progress]
    page = listing(
        request, rows, search_in=lambda row: row["group"], default_sort="group",
        sorts={"group": lambda row: row["group"], "lag": lambda row: row["lag"],
               "behind": lambda row: row["behind_s"]},
    )  # fmt: skip
    return {"page": page, "failures": failures, "report": _report(cluster.config.report)}


def _topics_of_groups(tables: Iterable[tuple[object, Iterable[str]]]) -> dict[str, set[str]]:
    """From `topic@group`, of all brokers."""
    topics: dict[str, set[str]] = {}
    for _, table in tables:
        for place in table:
            topic, _, group = place.rpartition("@")
            topics.setdefault(group, set()).add(topic)
    return topics


def _jobs_of(groups: Iterable[str], topics: Iterable[str]) -> list[str]:
    having = set(topics)
    return [group for group in groups if _only_reports(group, having)][:GROUPS_MAX]


def _only_reports(group: str, topics: set[str]) -> bool:
    return (
        bool(group) and retry_topic(group) not in topics and not is_system_group(group) and group not in TOOLS
    )


def _row(group: str, topics: list[str], progress: GroupProgress | RocketeerError) -> dict[str, Any]:
    """Lag in messages, and in time: how old what was read last is, where something is left."""
    if isinstance(progress, RocketeerError):
        return {"group": group, "topics": topics, "lag": None, "behind_s": None, "read_ms": None,
                "problem": str(progress)}  # fmt: skip
    now_ms = time.time() * 1000
    read = [at.last_ms for at in progress.stats.queues.values() if at.last_ms]
    late = [at.last_ms for at in progress.stats.queues.values() if at.lag and at.last_ms]
    return {
        "group": group,
        "topics": topics,
        "lag": None if progress.failures else progress.lag,
        "behind_s": (now_ms - min(late)) / 1000 if late else None,
        "read_ms": max(read, default=None),
        "problem": "; ".join(str(failure) for failure in progress.failures),
    }


def _report(where: str | None) -> Mapping[str, Any] | None:
    """A report elsewhere has a URL, one on this machine a time it was made."""
    if where is None:
        return None
    if where.startswith(("http://", "https://")):
        return {"url": where, "made_ms": None}
    try:
        made_ms: int | None = int(Path(where).stat().st_mtime * 1000)
    except OSError:
        made_ms = None
    return {"url": None, "path": where, "made_ms": made_ms}


async def report(request: PageRequest) -> Attachment:
    where = request.cluster.config.report
    if where is None or where.startswith(("http://", "https://")):
        raise Refused(404, text("no report was named: start the console with --report"))
    path = Path(where)
    try:
        file = await asyncio.to_thread(path.open, "rb")
    except OSError as error:
        raise Refused(404, text("the report cannot be read: {error}", error=error.strerror)) from None

    async def pieces() -> AsyncIterator[bytes]:
        with file:
            while piece := await asyncio.to_thread(file.read, 1 << 16):
                yield piece

    return Attachment(path.name, "text/html; charset=utf-8", pieces(), shown_under=REPORT_CSP)


VIEWS: Sequence[PageView] = (
    PageView("/pipeline", "pipeline", "Spark jobs that report as groups", pipeline, "pipeline.html", nav="Pipeline",
             query=(Param("q", "search"), Param("sort", "sort by"), Param("page", "page", "number"))),
)  # fmt: skip
DOWNLOADS: Sequence[Download] = (
    Download("/pipeline/report", "stats_report", "The report of `rocketeer spark stats`", report),
)
ACTIONS: Sequence[Action] = ()
