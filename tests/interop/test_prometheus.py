"""A real Prometheus (Debian's package) scrapes our broker; promtool judges pages, rules and configuration."""

import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketeer import Message, Producer
from support.cluster import ServerCluster, running_cluster
from support.metrics import get

pytestmark = pytest.mark.interop

ROOT = Path(__file__).parents[2]
UNPACKED = ROOT / "interop" / "prometheus" / "root" / "usr" / "bin"
WAIT_S = 60.0


def tool(name: str) -> str:
    """Installed, or unpacked by `bash interop/prepare.sh prometheus`."""
    found = shutil.which(name, path=f"{UNPACKED}{os.pathsep}{os.environ['PATH']}")
    assert found, f"no {name}: bash interop/prepare.sh prometheus"
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def metrics_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, metrics_port: int) -> Iterator[ServerCluster]:
    conf = {"metricsExporterType": "PROM", "metricsPromExporterPort": metrics_port}
    with running_cluster(tmp_path_factory.mktemp("measured"), conf=conf) as cluster:
        with Producer("shop", nameserver=cluster.namesrv) as producer:
            for number in range(1, 11):
                producer.send(Message("orders", b"x" * number))
        yield cluster


class Prometheus:
    def __init__(self, folder: Path, targets: dict[str, str]) -> None:
        """`targets` are paths by job name, all of one address each: `host:port/path`."""
        jobs = []
        for job, target in targets.items():
            address, _, path = target.partition("/")
            jobs.append(
                {"job_name": job, "metrics_path": f"/{path}", "static_configs": [{"targets": [address]}]}
            )
        rules = ROOT / "deploy" / "prometheus" / "rocketeer-rules.yml"
        settings = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(rules)],
            "scrape_configs": jobs,
        }
        path = folder / "prometheus.yml"
        path.write_text(json.dumps(settings))  # JSON is YAML
        self.address = f"127.0.0.1:{free_port()}"
        self.process = subprocess.Popen(
            [
                tool("prometheus"),
                f"--config.file={path}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={self.address}",
                "--log.level=warn",
            ],
            stderr=(folder / "prometheus.out").open("w"),
        )

    def api(self, path: str, **query: str) -> Any:
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            told = json.load(answer)
        assert told["status"] == "success", told
        return told["data"]

    def value(self, expression: str) -> float | None:
        result = self.api("query", query=expression)["result"]
        return float(result[0]["value"][1]) if result else None

    def wait_for(self, expression: str, expected: float) -> None:
        give_up_s = time.monotonic() + WAIT_S
        value: object = None
        while time.monotonic() < give_up_s:
            try:
                value = self.value(expression)
            except OSError as error:  # not up yet
                value = error
            if value == expected:
                return
            time.sleep(0.2)
        raise AssertionError(f"{expression} is {value}, not {expected}")


@pytest.fixture(scope="module")
def prometheus(
    tmp_path_factory: pytest.TempPathFactory, measured: ServerCluster, metrics_port: int
) -> Iterator[Prometheus]:
    address = f"127.0.0.1:{metrics_port}"
    running = Prometheus(
        tmp_path_factory.mktemp("prometheus"),
        {"rocketeer-broker": f"{address}/metrics", "rocketeer-exporter": f"{address}/metrics/exporter"},
    )
    yield running
    running.process.terminate()
    running.process.wait(WAIT_S)


def test_it_scrapes_what_was_sent(prometheus: Prometheus) -> None:
    prometheus.wait_for('rocketmq_messages_in_total{topic="orders"}', 10)
    prometheus.wait_for('rocketmq_producer_offset{topic="orders"}', 10)
    prometheus.wait_for('min(up{job=~"rocketeer.*"})', 1)


def test_its_rules_are_evaluated_without_an_error(prometheus: Prometheus) -> None:
    prometheus.wait_for('count(up{job=~"rocketeer.*"})', 2)
    give_up_s = time.monotonic() + WAIT_S
    while True:
        rules = [rule for group in prometheus.api("rules")["groups"] for rule in group["rules"]]
        assert len(rules) > 10
        if all(rule["health"] == "ok" for rule in rules) or time.monotonic() > give_up_s:
            break
        time.sleep(0.2)
    assert [(rule["name"], rule.get("lastError")) for rule in rules if rule["health"] != "ok"] == []


def test_every_question_of_the_dashboard_can_be_asked(prometheus: Prometheus) -> None:
    prometheus.wait_for('rocketmq_messages_in_total{topic="orders"}', 10)
    dashboard = json.loads((ROOT / "deploy" / "grafana" / "rocketeer.json").read_text())
    asked = 0
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            expression = target["expr"].replace("$__rate_interval", "1m")
            prometheus.api("query", query=re.sub(r"\$(cluster|node)", ".*", expression))
            asked += 1
    assert asked > 30


def promtool(*arguments: object, text: str | None = None) -> None:
    done = subprocess.run(
        [tool("promtool"), *map(str, arguments)], input=text, capture_output=True, text=True, timeout=WAIT_S
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_rules_and_configuration_are_valid() -> None:
    promtool("check", "rules", ROOT / "deploy" / "prometheus" / "rocketeer-rules.yml")
    promtool("check", "config", ROOT / "deploy" / "prometheus" / "prometheus.yml")


def test_pages_can_be_parsed_by_promtool(measured: ServerCluster, metrics_port: int) -> None:
    for path in ("/metrics", "/metrics/exporter"):
        page = get(f"http://127.0.0.1:{metrics_port}{path}")
        done = subprocess.run(
            [tool("promtool"), "check", "metrics"], input=page, capture_output=True, text=True, timeout=WAIT_S
        )
        # It also has opinions about names, which are RocketMQ's.
        assert done.returncode in (0, 3), done.stderr
        assert "error while linting" not in done.stderr
