"""An app's options from code, file, profile, environment and command line, and which counts more."""

import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rocketeer import (
    App,
    ConfigError,
    ConsumeFromWhere,
    MessageModel,
    Producer,
    ReceivedMessage,
    TlsConfig,
    UnknownOption,
)
from rocketeer.client.apps.settings import app_settings, parse_settings, read_environment, read_file
from rocketeer.config.ports import free_ports
from support.cluster import ServerCluster
from support.consuming import make_topic, until_sync

FILE = """
nameserver: file:1
concurrency: 8
consume-from: consume_from_first_offset
group: billing
producer:
  send_timeout_s: 5
groups:
  ledger:
    concurrency: 2
    message_model: BROADCASTING
profiles:
  prod:
    nameserver: prod:1;prod:2
    producer: {retries: 7}
  eu:
    concurrency: 9
"""


def test_the_environment_counts_more_than_profiles_and_those_more_than_the_file(tmp_path: Path) -> None:
    path = tmp_path / "app.yml"
    path.write_text(FILE)
    plain = read_file(path)
    assert plain.options == {
        "nameserver": "file:1", "concurrency": 8, "consume_from": ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    }  # fmt: skip
    assert (plain.group, plain.producer) == ("billing", {"send_timeout_s": 5})
    assert plain.groups == {"ledger": {"concurrency": 2, "message_model": MessageModel.BROADCASTING}}
    said = app_settings(
        path,
        ("prod", "eu"),
        {
            "ROCKETEER_APP_NAMESERVER": "env:1",
            "ROCKETEER_APP_TRACE": "yes",
            "ROCKETEER_APP_PRODUCER__RETRIES": "3",
            "ROCKETEER_APP_PRODUCER__SEND_TIMEOUT_S": "2.5",
            "ROCKETEER_APP_GROUPS__ledger__CONCURRENCY": "4",
            "ROCKETEER_APP_PRODUCER_GROUP": "shop",
            "ROCKETEER_PLAIN": "1",
        },
    )
    assert said.options["nameserver"] == "env:1"
    assert (said.options["concurrency"], said.options["trace"]) == (9, True)
    assert said.producer == {"send_timeout_s": 2.5, "retries": 3}
    assert said.groups["ledger"] == {"concurrency": 4, "message_model": MessageModel.BROADCASTING}
    assert said.producer_group == "shop"
    by_name = {"ROCKETEER_APP_CONFIG": str(path), "ROCKETEER_APP_PROFILE": "prod"}
    assert app_settings(None, (), by_name).options["nameserver"] == "prod:1;prod:2"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"concurency": 3}, "concurency= is no option of a consumer: did you mean concurrency="),
        ({"producer": {"linger": 3}}, "producer: linger= is no option of a producer"),
        ({"groups": {"g": {"pullBatchSize": 3}}}, r"groups: g: pullBatchSize= .* did you mean pull_batch="),
        ({"groups": 3}, "groups is 3: names with values are wanted"),
        ({"concurrency": "many"}, "concurrency is 'many': it must be a number"),
        ({"trace": "perhaps"}, "trace is 'perhaps': it must be true or false"),
        (
            {"message_model": "both"},
            "message_model is 'both': one of CLUSTERING, BROADCASTING|BROADCASTING, CLUSTERING",
        ),
        ({"group": 7}, "group is 7: it must be a text"),
        ({"tls": {"cart": "x"}}, "tls: cart is no setting of TLS"),
        ({"accessChannel": "CLOUD"}, "accessChannel= is an option of a cloud's RocketMQ, it sends traces"),
        ({"access_channel": "CLOUD"}, "access_channel= is an option of a cloud's RocketMQ"),
        ({"producer": {"onsAddr": "http://x"}}, "onsAddr= is an option of a cloud's RocketMQ"),
    ],
)
def test_a_wrong_setting_is_refused_with_its_place(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        parse_settings(given)


def test_cloud_options_are_refused_by_name_in_code_too() -> None:
    with pytest.raises(UnknownOption, match="access_channel= is an option of a cloud's RocketMQ"):
        Producer("g", access_channel="CLOUD")  # type: ignore[call-arg]


def test_a_file_or_variable_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    path = tmp_path / "app.yml"
    with pytest.raises(ConfigError, match=r"app\.yml cannot be read: No such file"):
        read_file(path)
    path.write_text("a: [")
    with pytest.raises(ConfigError, match=r"app\.yml is no YAML: "):
        read_file(path)
    path.write_text("- a")
    with pytest.raises(ConfigError, match="names with values"):
        read_file(path)
    path.write_text("profiles: {prod: {}}")
    with pytest.raises(ConfigError, match="no profile 'dev': it has prod"):
        read_file(path, ("dev",))
    with pytest.raises(ConfigError, match="profiles stand in a file"):
        app_settings(None, ("prod",), {})
    with pytest.raises(ConfigError, match="ROCKETEER_APP_CONCURENCY: concurency= is no option"):
        read_environment({"ROCKETEER_APP_CONCURENCY": "3"})


def test_what_is_configured_reaches_the_clients() -> None:
    app = App(nameserver="code:1", concurrency=1, namespace="shop")
    app.configure(
        {
            "nameserver": "file:1",
            "groups": {"b": {"concurrency": 5}},
            "producer": {"retries": 9},
            "tls": {"trust": "/ca"},
        }
    )

    def listen(message: ReceivedMessage) -> None: ...

    app.listener("t", group="a", concurrency=3)(listen)
    app.listener("t", group="b", concurrency=3)(listen)
    one, two = app._consumers()
    assert (one.config.nameserver, one.config.concurrency) == ("file:1", 3)
    assert two.config.concurrency == 5
    config = app.producer.config
    assert (config.nameserver, config.namespace, config.retries) == ("file:1", "shop", 9)
    assert config.tls == TlsConfig(trust=Path("/ca"))
    app.configure({"groups": {"c": {"concurrency": 5}}})
    with pytest.raises(ConfigError, match="name the group 'c', which the app does not have: it has a, b"):
        app._consumers()


# --- rocketeer run ---------------------------------------------------------------------------

MODULE = """
import os
from rocketeer import App, ReceivedMessage
app = App(group="G-{topic}")

@app.listener("{topic}", publish="{topic}-seen")
def take(message: ReceivedMessage) -> str:
    return f"{{os.getpid()}} {version} {{message.text}}"
"""


@contextmanager
def running(
    folder: Path, *arguments: str, environment: dict[str, str] | None = None
) -> Iterator["subprocess.Popen[str]"]:
    """`rocketeer run`, ended as a service manager ends it."""
    env = {key: value for key, value in os.environ.items() if key != "NAMESRV_ADDR"}
    process = subprocess.Popen(
        [sys.executable, "-m", "rocketeer", "run", *arguments],
        cwd=folder,
        env={**env, **(environment or {})},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            raise


def page(port: int, path: str) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def seen(cluster: ServerCluster, topic: str) -> list[str]:
    from rocketeer import NoRoute, PullConsumer

    with PullConsumer("readers", nameserver=cluster.namesrv) as reader:
        try:
            return [each.text for queue in reader.queues(f"{topic}-seen") for each in reader.read(queue)]
        except NoRoute:
            return []


def test_workers_share_the_work_tell_their_health_and_are_started_again(
    cluster: ServerCluster, topic: str, tmp_path: Path
) -> None:
    make_topic(cluster, topic, queues=4)
    make_topic(cluster, f"{topic}-seen", queues=1)
    (tmp_path / "shop.py").write_text(MODULE.format(topic=topic, version="v1"))
    (tmp_path / "app.yml").write_text(f"profiles:\n  here:\n    nameserver: {cluster.namesrv}\n")
    port, _ = free_ports()
    arguments = [
        "shop:app",
        "--config",
        "app.yml",
        "--profile",
        "here",
        "--workers",
        "2",
        "--health-port",
        str(port),
    ]
    quick = {"ROCKETEER_APP_REBALANCE_S": "1"}
    with (
        running(tmp_path, *arguments, environment=quick) as process,
        Producer("P", nameserver=cluster.namesrv) as producer,
    ):
        until_sync(lambda: page(port, "/ready") == 200)
        assert page(port, "/live") == 200
        assert page(port, "/elsewhere") == 404

        def workers() -> set[str]:
            for _ in range(4):
                producer.send(topic, "x")
            return {line.split()[0] for line in seen(cluster, topic)}

        until_sync(lambda: len(workers()) >= 2)
        victim = int(next(iter(workers())))
        os.kill(victim, 9)
        until_sync(lambda: len(workers()) >= 3)
        until_sync(lambda: page(port, "/ready") == 200)
        process.terminate()
        assert process.wait(30) == 0
    assert page(port, "/live") == 0


def test_a_changed_file_starts_the_app_anew_and_a_broken_one_waits_for_the_next_change(
    cluster: ServerCluster, topic: str, tmp_path: Path
) -> None:
    make_topic(cluster, topic, queues=1)
    make_topic(cluster, f"{topic}-seen", queues=1)
    module = tmp_path / "shop.py"
    module.write_text(MODULE.format(topic=topic, version="v1"))
    port, _ = free_ports()
    with (
        running(tmp_path, "shop:app", "-n", cluster.namesrv, "--reload", "--health-port", str(port)),
        Producer("P", nameserver=cluster.namesrv) as producer,
    ):
        until_sync(lambda: page(port, "/ready") == 200)
        producer.send(topic, "one")
        until_sync(lambda: any("v1 one" in line for line in seen(cluster, topic)))
        module.write_text("def broken(:\n")
        until_sync(lambda: page(port, "/ready") == 503)
        module.write_text(MODULE.format(topic=topic, version="v2 "))
        until_sync(lambda: page(port, "/ready") == 200)
        producer.send(topic, "two")
        until_sync(lambda: any("v2  two" in line for line in seen(cluster, topic)))


def test_an_app_that_cannot_start_ends_all_workers_and_says_why(
    cluster: ServerCluster, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(
        "from rocketeer import App\napp = App(group='g', start_timeout_s=1)\n"
        "@app.listener('T')\ndef take(message): ...\n@app.on_startup\ndef up(): raise RuntimeError('no database')\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "rocketeer", "run", "shop:app", "-n", cluster.namesrv, "--workers", "2"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert "no database" in done.stderr
    assert "worker cannot start" in done.stderr


def test_workers_end_when_their_supervisor_was_killed(
    cluster: ServerCluster, topic: str, tmp_path: Path
) -> None:
    make_topic(cluster, topic, queues=1)
    make_topic(cluster, f"{topic}-seen", queues=1)
    (tmp_path / "shop.py").write_text(MODULE.format(topic=topic, version="v1"))
    port, _ = free_ports()
    with running(
        tmp_path, "shop:app", "-n", cluster.namesrv, "--workers", "2", "--health-port", str(port)
    ) as process:
        until_sync(lambda: page(port, "/ready") == 200)
        with Producer("P", nameserver=cluster.namesrv) as producer:
            producer.send(topic, "one")
        until_sync(lambda: bool(seen(cluster, topic)))
        worker = int(seen(cluster, topic)[0].split()[0])
        process.kill()
        process.wait()

        def gone() -> bool:
            try:
                os.kill(worker, 0)
            except ProcessLookupError:
                return True
            return Path(f"/proc/{worker}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"

        until_sync(gone)


def test_a_drain_finishes_what_is_in_hand_and_is_not_ready_meanwhile(
    cluster: ServerCluster, topic: str, tmp_path: Path
) -> None:
    make_topic(cluster, topic, queues=1)
    make_topic(cluster, f"{topic}-seen", queues=1)
    (tmp_path / "shop.py").write_text(
        f"""
import pathlib, time
from rocketeer import App
app = App(group="G-{topic}", close_timeout_s=20)

@app.listener("{topic}", publish="{topic}-seen")
def take(text: str) -> str:
    pathlib.Path("begun").touch()
    while not pathlib.Path("go").exists():
        time.sleep(0.01)
    return text
"""
    )
    port, _ = free_ports()
    with (
        running(tmp_path, "shop:app", "-n", cluster.namesrv, "--health-port", str(port)) as process,
        Producer("P", nameserver=cluster.namesrv) as producer,
    ):
        until_sync(lambda: page(port, "/ready") == 200)
        producer.send(topic, "slow")
        until_sync((tmp_path / "begun").exists)
        process.terminate()
        until_sync(lambda: page(port, "/ready") == 503)
        assert page(port, "/live") == 200
        (tmp_path / "go").touch()
        assert process.wait(30) == 0
    assert seen(cluster, topic) == ["slow"]
