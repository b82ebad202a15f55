"""The dashboard and the alerts that come with the repository ask for nothing that is not served."""

import json
import re
import socket
from pathlib import Path

from rocketeer.config import MetricsExporter
from rocketeer.observe.families import BROKER_FAMILIES, EXPORTER_FAMILIES, NAMESERVER_FAMILIES, Family
from support.broker import broker_at
from support.metrics import scrape

DEPLOY = Path(__file__).parents[3] / "deploy"
NAME = re.compile(r"\b(?:rocketmq|rocketeer|process|python)_[a-z0-9_]+")
BY = re.compile(r"\b(?:by|on) \(([^)]*)\)")
SELECTED = re.compile(r"[{,](\w+)(?:=~|!~|!=|=)\"")

LABELS = {
    "aggregation", "cluster", "consume_mode", "consumer_group", "instance", "is_long_polling", "is_retry",
    "is_system", "job", "language", "le", "message_type", "node_id", "node_type", "processor", "protocol_type",
    "request_code", "response_code", "result", "topic", "version",
}  # fmt: skip
"""Those of the pages, and the two that Prometheus adds itself."""


def served_by(families: tuple[Family, ...]) -> set[str]:
    return {
        name
        for family in families
        for name in (
            [f"{family.name}_{part}" for part in ("bucket", "sum", "count")]
            if family.kind == "histogram"
            else [family.name]
        )
    }


def dashboard_expressions() -> list[str]:
    dashboard = json.loads((DEPLOY / "grafana" / "rocketeer.json").read_text())
    panels = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    queries = [each["query"] for each in dashboard["templating"]["list"] if each["type"] == "query"]
    return panels + [query["query"] for query in queries]


def alert_expressions() -> list[str]:
    """Without a YAML library: `expr:` is one line, or those that follow `>-` and stand further right."""
    lines = (DEPLOY / "prometheus" / "rocketeer-rules.yml").read_text().splitlines()
    found: list[str] = []
    for number, line in enumerate(lines):
        if line.strip().startswith("expr: >-"):
            indent = len(line) - len(line.lstrip())
            rest = lines[number + 1 :]
            end = next(at for at, each in enumerate(rest) if len(each) - len(each.lstrip()) <= indent)
            found.append(" ".join(each.strip() for each in rest[:end]))
        elif line.strip().startswith("expr:"):
            found.append(line.partition("expr:")[2].strip())
    return found


async def served_names(folder: Path) -> set[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    settings = {"metrics_exporter": MetricsExporter.PROM, "metrics_port": port}
    async with broker_at(folder, broker=settings):
        page = await scrape(port)
    process = {each.name for each in page.series if not each.name.startswith("rocketmq")}
    return served_by((*BROKER_FAMILIES, *NAMESERVER_FAMILIES)) | process


async def test_every_name_and_label_that_is_asked_for_is_served(tmp_path: Path) -> None:
    served = await served_names(tmp_path)
    dashboard, alerts = dashboard_expressions(), alert_expressions()
    assert len(dashboard) > 30
    assert len(alerts) > 10
    for expression in dashboard + alerts:
        names = set(NAME.findall(re.sub(r'"[^"]*"', '""', expression)))
        assert names or "up{" in expression, expression
        assert names <= served, expression
        labels = {label.strip() for group in BY.findall(expression) for label in group.split(",")}
        labels |= set(SELECTED.findall(expression))
        assert labels <= LABELS, expression


def test_no_name_means_two_things() -> None:
    modern, exporter = served_by(BROKER_FAMILIES), served_by(EXPORTER_FAMILIES)
    assert modern.isdisjoint(exporter)
    assert len(served_by(BROKER_FAMILIES)) > 40
