"""Source and sink with an account and TLS, and where the secret does not show."""

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rocketeer import Message, Producer
from rocketeer.errors import ConfigError
from rocketeer.spark.protection import Protection, with_environment
from rocketeer.spark.sink.options import parse_sink_options
from rocketeer.spark.source.options import parse_options
from support.secured import SHOP, Secured, secured_cluster

SECRET = "hush-hush-spark"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """In a thread of its own: PySpark blocks this one."""
    started, ended = threading.Event(), threading.Event()
    found: list[Secured] = []

    async def run() -> None:
        async with secured_cluster(tmp_path_factory.mktemp("secured")) as cluster:
            found.append(cluster)
            started.set()
            await asyncio.to_thread(ended.wait)

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    try:
        assert started.wait(60)
        with Producer("shop", nameserver=found[0].nameserver, tls=found[0].tls, **SHOP) as producer:
            producer.send(Message("orders", b"the first"))
        yield found[0]
    finally:
        ended.set()
        thread.join()


def options(secured: Secured) -> dict[str, str]:
    return {
        "nameserver": secured.nameserver,
        "accessKey": "sparkuser",
        "secretKey": SECRET,
        "tls": "true",
        "tlsTrust": str(secured.tls.trust),
    }


def test_reads_and_writes_with_an_account_over_tls_and_plans_do_not_show_the_secret(
    spark: SparkSession, secured: Secured
) -> None:
    given = options(secured)
    rows = spark.createDataFrame([(bytearray(b"the second"),)], "body binary")
    rows.write.format("rocketmq").mode("append").options(**given, topic="orders").save()
    read = spark.read.format("rocketmq").options(**given, subscribe="orders").load()
    assert {bytes(row.body) for row in read.select("body").collect()} == {b"the first", b"the second"}
    plan = read._jdf.queryExecution().toString()
    assert "rocketmq" in plan.lower()
    assert SECRET not in plan
    assert SECRET not in read._jdf.queryExecution().explainString(
        spark._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("formatted")  # type: ignore[union-attr]
    )


def test_a_wrong_secret_is_one_clear_sentence_at_once(spark: SparkSession, secured: Secured) -> None:
    given = {**options(secured), "secretKey": "wrong-secret-1"}
    with pytest.raises(Exception, match="signature failed for accessKey=sparkuser") as caught:
        spark.read.format("rocketmq").options(**given, subscribe="orders").load().count()
    assert "wrong-secret-1" not in str(caught.value)


def test_a_pattern_asks_for_all_topics_which_name_servers_with_accounts_tell_admins_only(
    spark: SparkSession, secured: Secured
) -> None:
    with pytest.raises(Exception, match="Need admin permission"):
        spark.read.format("rocketmq").options(**options(secured), subscribePattern="order.*").load().count()
    admin = {**options(secured), "accessKey": "operator1", "secretKey": "secret123"}
    read = spark.read.format("rocketmq").options(**admin, subscribePattern="order.*").load()
    assert read.count() >= 1


def test_options_do_not_show_secrets_and_half_of_them_is_refused() -> None:
    given = {"nameserver": "127.0.0.1:1", "accessKey": "sparkuser", "secretKey": SECRET}
    for parsed in (
        parse_options({**given, "subscribe": "T"}, streaming=False),
        parse_sink_options({**given, "topic": "T"}, streaming=False),
    ):
        assert SECRET not in repr(parsed)
        assert parsed.secret_key == SECRET
    with pytest.raises(ConfigError, match="go together"):
        parse_options({"nameserver": "127.0.0.1:1", "subscribe": "T", "accessKey": "x"}, streaming=False)
    with pytest.raises(ConfigError, match="unless the option 'tls' is true"):
        parse_options({"nameserver": "127.0.0.1:1", "subscribe": "T", "tlsTrust": "ca.pem"}, streaming=False)


def test_the_drivers_environment_goes_to_the_tasks(tmp_path: Path) -> None:
    file = tmp_path / "tls.properties"
    file.write_text("tls.enable=true\ntls.client.trustCertPath=/some/ca.pem\n")
    environment = {
        "ROCKETEER_ACCESS_KEY": "sparkuser",
        "ROCKETEER_SECRET_KEY": SECRET,
        "ROCKETEER_TLS_CONFIG": str(file),
    }
    found = with_environment(Protection(), environment)
    assert found == Protection("sparkuser", SECRET, tls=True, tls_trust="/some/ca.pem")


_LOGGED_SESSION = """
import json, sys
from rocketeer.spark import session
given, logs = json.loads(sys.argv[1]), sys.argv[2]
settings = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": logs, "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false", "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}
spark = session("logged", master="local[1]", config=settings)
rows = spark.createDataFrame([(bytearray(b"the logged"),)], "body binary")
rows.write.format("rocketmq").mode("append").options(**given, topic="orders").save()
read = spark.read.format("rocketmq").options(**given, subscribe="orders").load()
assert read.where("body = cast('the logged' as binary)").count() == 1
spark.sql("CREATE TEMPORARY VIEW orders USING rocketmq OPTIONS ("
          + ", ".join(f"{name} '{value}'" for name, value in {**given, "subscribe": "orders"}.items()) + ")")
assert spark.table("orders").count() >= 1
spark.stop()
"""


@pytest.mark.jvms
def test_the_event_log_of_a_session_does_not_show_the_secret(secured: Secured, tmp_path: Path) -> None:
    """It holds plans, options and the SQL text of every query, and it is what Spark's history server shows."""
    logs = tmp_path / "events"
    logs.mkdir()
    command = [sys.executable, "-c", _LOGGED_SESSION, json.dumps(options(secured)), str(logs)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode == 0, ended.stderr[-3000:]
    (file,) = logs.iterdir()
    text = file.read_text()
    assert "SparkListenerSQLExecutionStart" in text
    assert "rocketmq" in text.lower()
    assert SECRET not in text
    assert SECRET not in ended.stdout + ended.stderr
