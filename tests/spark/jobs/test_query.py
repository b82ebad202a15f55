"""SQL over topics and a lake: one table per topic, each message once, bodies opened, results in every form."""

import csv
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from rocketeer import Message
from rocketeer.bench.control import Control
from rocketeer.errors import ConfigError
from rocketeer.model.queue import MessageQueue
from rocketeer.protocol.codes import RequestCode
from rocketeer.spark.jobs.archive.command import ArchiveTerms, archive
from rocketeer.spark.jobs.progress import JobProgress
from rocketeer.spark.jobs.query.command import Shell, query_tables
from rocketeer.spark.jobs.query.statements import NoSuchTable
from rocketeer.spark.jobs.query.tables import TopicTables
from rocketeer.spark.jobs.query.terms import TableTerms
from rocketeer.spark.jobs.results import OutputFormat

from ..conftest import SETTINGS, Broker, numbers

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def ask(spark: SparkSession, broker: Broker) -> Callable[..., list[tuple[object, ...]]]:
    """`ask(sql, ...)`: the rows of a statement, through the tables that `query` uses."""

    def rows(sql: str, **given: object) -> list[tuple[object, ...]]:
        tables = TopicTables(spark, TableTerms(**{"nameserver": broker.nameserver, **given}))  # type: ignore[arg-type]
        tables.prepare(sql)
        try:
            return [tuple(row) for row in spark.sql(sql).collect()]
        finally:
            tables.forget()

    return rows


@pytest.fixture(scope="module")
def shop(broker: Broker) -> str:
    """JSON bodies in one queue, two bodies that are none, a field named like a column."""
    topic = broker.topic(1)
    queue = MessageQueue(topic, "broker-a", 0)
    for number in range(10):
        order = {"id": number, "amount": number / 2, "tags": f"t{number % 2}", "who": {"name": "Ann"}}
        broker.producer.send(
            Message(topic, json.dumps(order).encode(), tags="paid", keys=f"k{number}"), queue=queue
        )
    for body in (b"\xff\x00", b"[1, 2]"):
        broker.producer.send(Message(topic, body, tags="odd"), queue=queue)
    return topic


def test_lake_and_topic_are_one_table_without_overlap(
    spark: SparkSession, broker: Broker, tmp_path: Path, ask: Callable[..., list[tuple[object, ...]]]
) -> None:
    topic = broker.topic(2)
    broker.fill(topic, 20, queues=2)
    lake = tmp_path / "lake"
    # The first messages are not archived either: a table has what is before, in and behind the lake.
    start = json.dumps({topic: {"broker-a": {"0": 4, "1": 5}}})
    archive(spark, lake, ArchiveTerms([topic], nameserver=broker.nameserver, start=start))
    broker.fill(topic, 10, start=20, queues=2)
    sql = f"SELECT count(*), count(DISTINCT queueId, queueOffset), sum(CAST(CAST(body AS STRING) AS INT)) FROM {topic}"
    assert ask(sql, lake=lake) == [(30, 30, sum(range(30)))]
    assert ask(sql) == [(30, 30, sum(range(30)))], "the topic alone"
    archived = [number for number in range(20) if number // 2 >= (4, 5)[number % 2]]
    assert ask(sql, lake=lake, nameserver=None) == [(len(archived), len(archived), sum(archived))], (
        "the lake alone"
    )
    broker.delete(topic)
    with Control(broker.nameserver) as control:
        control.call(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": topic})
    assert ask(sql, lake=lake) == [(len(archived), len(archived), sum(archived))], (
        "the topic is gone, the lake is not"
    )


def test_a_statement_reads_only_the_columns_it_uses_and_sees_them_all(
    spark: SparkSession, broker: Broker, shop: str, ask: Callable[..., list[tuple[object, ...]]]
) -> None:
    tables = TopicTables(spark, TableTerms(broker.nameserver))
    used = {
        f"SELECT tags, count(*) FROM {shop} WHERE storeTimestamp > '2020-01-01' GROUP BY tags": {
            "tags",
            "storeTimestamp",
        },
        f"SELECT count(*) FROM {shop}": set(),
        f"SELECT tags FROM (SELECT tags, keys, body FROM {shop})": {"tags"},
        f"SELECT a.keys FROM {shop} a JOIN {shop} b ON a.queueOffset = b.queueOffset": {
            "keys",
            "queueOffset",
        },
        f"SELECT 1 FROM {shop} WHERE queueId = (SELECT max(queueId) FROM {shop} WHERE flag = 0)": {
            "queueId",
            "flag",
        },
    }
    for sql, columns in used.items():
        assert tables.prepare(sql) == {shop: columns}, sql
        tables.forget()
    whole = f"SELECT * FROM {shop} UNION ALL SELECT * FROM {shop}"
    assert len(tables.prepare(whole)[shop]) == 17, "a union goes by position: it uses all"
    tables.forget()
    made = tables.prepare(f"CREATE TEMPORARY VIEW odd AS SELECT keys FROM {shop}")
    assert len(made[shop]) == 17, "what a command does with its rows is its own business"
    tables.forget()
    assert ask(f"SELECT tags, count(*), max(keys) FROM {shop} GROUP BY tags ORDER BY tags") == [
        ("odd", 2, None),
        ("paid", 10, "k9"),
    ]
    assert ask(
        f"WITH a AS (SELECT keys k FROM {shop}) SELECT count(*) FROM a WHERE k IN (SELECT keys FROM {shop})"
    ) == [(10,)]


def test_names_that_are_no_words_and_names_that_are_nothing(
    spark: SparkSession, broker: Broker, ask: Callable[..., list[tuple[object, ...]]]
) -> None:
    topic = broker.topic(1, name="%DLQ%odd-Name")
    broker.fill(topic, 3, queues=1)
    assert ask(f"SELECT count(*) FROM `{topic}`") == [(3,)]
    assert ask(f"SELECT count(*) FROM `{topic.lower()}`") == [(3,)], "the only one that differs by case"
    with pytest.raises(NoSuchTable, match="no topic or table 'odd'; there are %DLQ%odd-Name"):
        ask("SELECT * FROM odd")
    assert not [view.name for view in spark.catalog.listTables() if "odd" in view.name.lower()], (
        "nothing is left behind"
    )
    with pytest.raises(ConfigError, match="nothing to read"):
        TopicTables(spark, TableTerms())


def test_bodies_open_into_columns_beside_the_messages_own(
    shop: str, spark: SparkSession, broker: Broker, ask: Callable[..., list[tuple[object, ...]]]
) -> None:
    opened: dict[str, object] = {"json": {shop: None}}
    assert ask(
        f"SELECT sum(id), sum(amount), max(who.name), max(body_tags), max(tags) FROM {shop}", **opened
    ) == [(45, 22.5, "Ann", "t1", "paid")]
    misfits = f"SELECT count(*), count(id) FROM {shop} WHERE NOT bodyIsJson"
    assert ask(misfits, **opened) == [(2, 0)], "bodies that are no JSON object are there, with NULLs"
    given: dict[str, object] = {"json": {"*": "id string, tags int"}}
    assert ask(f"SELECT count(id), count_if(bodyIsJson), count(tags) FROM {shop}", **given) == [(0, 0, 12)], (
        "a body that does not fit the schema counts as none"
    )
    assert TopicTables(spark, TableTerms(broker.nameserver, json={"*": None})).count_misfits(shop) == (
        12,
        2,
    )
    with pytest.raises(ConfigError, match="the JSON schema of"):
        ask(f"SELECT * FROM {shop}", json={shop: "id wrong"})
    plain = broker.topic(1)
    with pytest.raises(ConfigError, match=r"none of the 0 newest messages .* is a JSON object"):
        ask(f"SELECT * FROM {plain}", json={plain: None})


def test_times_bound_every_table(spark: SparkSession, broker: Broker) -> None:
    from datetime import UTC, datetime

    topic = broker.topic(2)
    broker.fill(topic, 6, queues=2)
    time.sleep(0.01)
    middle = datetime.now(UTC)
    time.sleep(0.01)  # messages know their time to the millisecond only
    broker.fill(topic, 4, start=6, queues=2)
    later = query_tables(spark, [topic], nameserver=broker.nameserver, since=middle)[topic]
    assert numbers(later) == [6, 7, 8, 9]
    assert spark.sql(f"SELECT count(*) FROM {topic}").collect()[0][0] == 4, "also a view"
    earlier = query_tables(spark, [topic], nameserver=broker.nameserver, until=middle)[topic]
    assert numbers(earlier) == [0, 1, 2, 3, 4, 5]
    spark.catalog.dropTempView(topic)


def test_results_in_every_form(
    spark: SparkSession, broker: Broker, shop: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    terms = TableTerms(broker.nameserver, json={shop: "id long"})
    shell = Shell(spark, terms, JobProgress("query", quiet=True), rows_max=3, count_misfits=True)
    shell.execute(
        f"SELECT id, body, keys FROM {shop} WHERE id IS NULL OR id < 2 ORDER BY id NULLS LAST, queueOffset"
    )
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].split() == ["id", "|", "body", "|", "keys"]
    assert lines[2].startswith(' 0 | {"id": 0, "amount": 0.0') or lines[2].startswith('   0 | {"id": 0'), out
    assert "X'FF00'" in out
    assert lines[-1].startswith("(3 rows shown; there are more")
    assert f"{shop}: 2 of 12 messages are no JSON of its schema" in err
    sql = (
        f"SELECT id, body, keys, storeTimestamp FROM {shop} WHERE queueOffset IN (1, 10) ORDER BY queueOffset"
    )
    shell.execute(sql, OutputFormat.CSV, tmp_path / "out.csv")
    rows = list(csv.reader((tmp_path / "out.csv").open()))
    assert rows[0] == ["id", "body", "keys", "storeTimestamp"]
    assert (rows[1][0], rows[1][2], rows[2][:3]) == ("1", "k1", ["", "/wA=", ""])
    shell.execute(sql, OutputFormat.JSON, tmp_path / "out.json")
    first, second = map(json.loads, (tmp_path / "out.json").read_text().splitlines())
    assert (first["id"], second["id"], second["body"]) == (1, None, "/wA=")
    shell.execute(sql, OutputFormat.PARQUET, tmp_path / "out")
    assert pq.read_table(tmp_path / "out").column("body").to_pylist()[1] == b"\xff\x00"
    capsys.readouterr()
    shell.list_tables("")
    assert f"{shop} " in capsys.readouterr().out
    shell.list_tables(shop)
    assert "bodyIsJson" in capsys.readouterr().out


# --- the command, at a terminal and without one -------------------------------------------------------


def _command(broker: Broker, *arguments: str) -> list[str]:
    conf = [part for key, value in SETTINGS.items() for part in ("--conf", f"{key}={value}")]
    program = "import sys; from rocketeer.cli.main import main; main()"
    return [
        sys.executable,
        "-c",
        program,
        "spark",
        "query",
        "-n",
        broker.nameserver,
        "--master",
        "local[2]",
        *conf,
        *arguments,
    ]


class Terminal:
    """The command with a terminal of its own."""

    def __init__(self, command: list[str], home: Path) -> None:
        self._master, slave = pty.openpty()
        environment = {**os.environ, "XDG_STATE_HOME": str(home), "TERM": "dumb"}
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True, env=environment
        )
        os.close(slave)
        os.set_blocking(self._master, False)
        self.text = ""

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def until(self, mark: str, within_s: float = 300) -> str:
        """What came up to the mark, which is taken away."""
        end_s = time.monotonic() + within_s
        while mark not in self.text:
            assert time.monotonic() < end_s, f"no {mark!r} in {self.text!r}"
            try:
                self.text += os.read(self._master, 65536).decode(errors="replace")
            except BlockingIOError:
                time.sleep(0.05)
            except OSError:  # the other end is closed
                assert mark in self.text, self.text
        before, self.text = self.text.split(mark, 1)
        return before

    def interrupt(self) -> None:
        os.kill(self.process.pid, signal.SIGINT)

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)
        os.close(self._master)


@pytest.fixture
def terminal(broker: Broker, tmp_path: Path) -> Iterator[Terminal]:
    running = Terminal(_command(broker, "--quiet"), tmp_path)
    yield running
    running.close()


def test_the_prompt_survives_errors_and_ctrl_c(
    terminal: Terminal, broker: Broker, shop: str, tmp_path: Path
) -> None:
    terminal.until("rocketeer> ")
    terminal.type("SELECT tags, count(*) AS n\n")
    terminal.until("...> ")
    terminal.type(f"FROM {shop} GROUP BY tags ORDER BY n DESC;\n")
    shown = terminal.until("(2 rows)")
    assert "paid | 10" in shown
    terminal.until("rocketeer> ")
    terminal.type("SELECT * FROM nowhere_at_all;\n")
    assert "Traceback" not in terminal.until("there is no topic or table 'nowhere_at_all'")
    terminal.until("rocketeer> ")
    terminal.type("SELEC;\n")
    terminal.until("Syntax error at or near 'SELEC'")
    terminal.until("rocketeer> ")
    terminal.type("\\d\n")
    terminal.until(f"{shop} ")
    terminal.until("rocketeer> ")
    terminal.type("SELECT sum(a.id * b.id) FROM range(1000000) a JOIN range(1000000) b ON a.id < b.id;\n")
    terminal.until("b.id;")
    time.sleep(1)  # in the middle, whether it has begun or not
    terminal.interrupt()
    terminal.until("cancelled")
    terminal.until("rocketeer> ")
    terminal.type("SELECT 40 + 2;\n")
    terminal.until("42")
    terminal.until("rocketeer> ")
    terminal.type("\\q\n")
    assert terminal.process.wait(120) == 0
    assert "SELECT 40 + 2;" in (tmp_path / "rocketeer" / "sql_history").read_text()


def test_one_go_from_a_pipe_and_errors_as_one_line(broker: Broker, shop: str) -> None:
    sql = f"SELECT 'a;b' AS x; -- no ; here\nSELECT count(*) AS n FROM {shop}"
    done = subprocess.run(
        _command(broker, "--format", "csv"),
        input=sql,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "x\na;b\nn\n12\n"), done.stderr
    refused = subprocess.run(
        _command(broker, "-e", "SELECT 1", "--format", "parquet"),
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert (refused.returncode, refused.stderr) == (1, "rocketeer: Parquet needs a place: --output FOLDER\n")
