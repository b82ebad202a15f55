"""`rocketeer spark demo`: a cluster, a shop's orders, and the jobs on them; ends by itself, says where to look.

Everything is in one temporary folder: at the end the lake and the report stay there, after Ctrl-C nothing.
"""

import json
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.sync.push_consumer import PushConsumer
from rocketeer.spark.jobs.archive.command import ArchiveTerms, archive
from rocketeer.spark.jobs.audit.command import audit
from rocketeer.spark.jobs.chosen_messages import known_queues, read_topics
from rocketeer.spark.jobs.demo.shop import (
    AGAIN,
    ORDERS,
    TOPICS,
    TOTALS,
    DemoFailed,
    OpenShop,
    Shop,
    shop_cluster,
)
from rocketeer.spark.jobs.progress import JobProgress
from rocketeer.spark.jobs.query.terms import TableTerms
from rocketeer.spark.jobs.replay.command import ReplayTerms, replay
from rocketeer.spark.jobs.running import Run, job_command
from rocketeer.spark.jobs.stats.command import stats, write_page
from rocketeer.spark.jobs.stats.measures import COLUMNS
from rocketeer.spark.jobs.topic_sink import TopicSink
from rocketeer.spark.jobs.transform import TransformTerms, transform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LIVE_S_MAX: Final = 90.0
"""Time limit for the first totals of the live aggregation; a busy machine starts streams slowly."""
_SHOWN_TOTALS: Final = 6


class DemoLog:
    """Prints what the demo does, with the seconds since it began."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began_s

    def say(self, text: str) -> None:
        print(f"[{self.seconds:5.1f} s] {text}", flush=True)


@job_command()
def command(
    run: Run,
    orders: Annotated[
        int, typer.Option(min=100, help="How many orders the shop has before it opens.")
    ] = 20_000,
    live_s: Annotated[float, typer.Option(min=1, help="How long the shop is open.")] = 8.0,
    folder: Annotated[
        Path | None, typer.Option(help="Where lake and report are put.  [default: a temporary folder]")
    ] = None,
) -> None:
    """A cluster, a shop's orders and the jobs on them, in under two minutes; changes nothing of yours."""
    steps = DemoLog()
    with demo_folder(folder) as home, ExitStack() as stack:
        steps.say(f"a cluster starts, in {home}")
        nameserver = stack.enter_context(shop_cluster(home))
        shop = Shop(nameserver)
        first_orders = _FirstOrders(shop, orders)
        first_orders.start()
        steps.say(f"name server {nameserver}; the shop fills it while Spark starts")
        with run.spark("demo") as spark:
            spark.conf.set("spark.sql.shuffle.partitions", "2")
            first_orders.finish()
            kinds = ", ".join(f"{count:,} {kind}" for kind, count in shop.sent.items())
            steps.say(f"sent: {kinds}")
            show_totals(spark, shop, home, live_s, steps)
            lake, report = home / "lake", home / "report.html"
            run_jobs(spark, nameserver, home / "store", lake, report, steps, quiet=run.quiet)
    show_delta(lake, steps)
    steps.say("done; the cluster is gone, this is left to look at:")
    print(f"  report  {report}\n  lake    {lake}", flush=True)
    command = (
        "rocketeer" if shutil.which("rocketeer") else sys.argv[0]
    )  # of an environment that is not active
    print(
        f"  try     {command} spark query --lake {lake} -e 'SELECT tags, count(*) FROM {ORDERS} GROUP BY tags'"  # noqa: S608
    )


def show_delta(lake: Path, steps: DemoLog) -> None:
    """The lake as a reader sees it that knows nothing of us; where DuckDB is not installed, how to ask it."""
    question = "SELECT topic, count(*), min(storeTimestamp) FROM lake GROUP BY topic ORDER BY topic"
    try:
        import duckdb
    except ImportError:
        steps.say("DuckDB would read the lake, too: pip install duckdb, then")
        print("  " + question.replace("FROM lake", f"FROM delta_scan('{lake}')"), flush=True)
        return
    from deltalake import DeltaTable

    steps.say("the Delta table, read by DuckDB:")
    connection = duckdb.connect()
    connection.register("lake", DeltaTable(lake).to_pyarrow_dataset())
    for topic, messages, first in connection.execute(question).fetchall():
        print(f"          {topic:<24}{messages:>9,}  since {first:%H:%M:%S}", flush=True)


class _FirstOrders(threading.Thread):
    """The shop's first orders, sent while the JVM starts."""

    def __init__(self, shop: Shop, orders: int) -> None:
        super().__init__(daemon=True)
        self._shop = shop
        self._orders = orders
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            self._shop.all_kinds(self._orders)
        except BaseException as error:
            self._error = error

    def finish(self) -> None:
        while self.is_alive():
            self.join(0.2)  # so that Ctrl-C is heard
        if self._error is not None:
            raise DemoFailed(f"the shop could not send its orders: {self._error}") from self._error


@contextmanager
def demo_folder(wanted: Path | None) -> Iterator[Path]:
    """A folder of its own; the broker's store goes in any case, all of it if the demo does not come to its end."""
    if wanted is not None:
        wanted.mkdir(parents=True, exist_ok=True)
    home = Path(tempfile.mkdtemp(prefix="rocketeer-demo-", dir=wanted)).absolute()
    try:
        yield home
    except BaseException:
        shutil.rmtree(home, ignore_errors=True)
        raise
    for name in ("store", "checkpoint"):
        shutil.rmtree(home / name, ignore_errors=True)
    (home / "cluster.log").unlink(missing_ok=True)


def show_totals(spark: "SparkSession", shop: Shop, home: Path, live_s: float, steps: DemoLog) -> None:
    """While orders come in, a stream sums them up into a topic, and a consumer of that topic prints the sums."""
    steps.say(f"the shop opens; a stream sums {ORDERS} up into the topic {TOTALS}")
    lines: list[str] = []
    enough = threading.Event()
    consumer = PushConsumer("totals-board", nameserver=shop.nameserver)

    def show(message: ReceivedMessage) -> None:
        total = json.loads(message.body)
        lines.append(message.text)
        if len(lines) <= _SHOWN_TOTALS:
            figures = f"{total['orders']:>7,} orders  {total['sum']:>12,.2f}"
            print(f"          {total['from'][11:19]}  {total['tag']:<10}{figures}", flush=True)
        if len(lines) >= _SHOWN_TOTALS:
            enough.set()

    consumer.subscribe(TOTALS)(show)
    terms = TransformTerms(
        TopicSink(shop.nameserver, TOTALS, id_column="id"),
        home / "checkpoint" / "totals",
        topics=[ORDERS],
        interval="1 second",
        watermark="0 seconds",
    )
    query = transform(spark, totals, terms)
    try:
        with consumer:
            with OpenShop(shop, per_s=400):
                opened_s = time.monotonic()
                while not enough.wait(0.2) or time.monotonic() - opened_s < live_s:
                    if not query.isActive or time.monotonic() - opened_s > live_s + LIVE_S_MAX:
                        break
            if query.isActive:
                query.processAllAvailable()  # a stream that is stopped in the middle of a batch complains
    finally:
        failure = query.exception()
        query.stop()
    if failure is not None:
        raise failure
    steps.say(f"the shop closes; {len(lines)} totals went through the topic {TOTALS}")


def totals(orders: "DataFrame") -> "DataFrame":
    """Orders and their amount by tag, every two seconds."""
    from pyspark.sql import functions as f

    amount = f.get_json_object(f.col("body").cast("string"), "$.amount").cast("double")
    sums = orders.groupBy(f.window("storeTimestamp", "2 seconds"), "tags").agg(
        f.count("*").alias("orders"), f.round(f.sum(amount), 2).alias("sum")
    )
    body = f.to_json(
        f.struct(f.col("window.start").alias("from"), f.col("tags").alias("tag"), "orders", "sum")
    )
    name = f.concat_ws(" ", f.col("window.start").cast("string"), "tags")
    return sums.select(body.alias("body"), "tags", name.alias("id"))


def run_jobs(
    spark: "SparkSession",
    nameserver: str,
    store: Path,
    lake: Path,
    report: Path,
    steps: DemoLog,
    *,
    quiet: bool,
) -> None:
    """Run the jobs one after the other: archive, stats, replay, audit."""
    # What nobody was sent to has nothing to archive, but its queues are there.
    terms = ArchiveTerms(topics=[topic for topic in TOPICS if topic != AGAIN], nameserver=nameserver)
    steps.say("archive: all topics into a lake, a Delta table")
    done = archive(spark, lake, terms, progress=JobProgress("archive", quiet=quiet))
    steps.say(f"archived {done.rows:,} messages in {done.files} files, exactly once")

    steps.say("stats: the report")
    tables = TableTerms(nameserver=nameserver, lake=lake)
    topics = list(terms.topics)
    with JobProgress("stats", quiet=quiet).during(spark):
        found = stats(read_topics(spark, tables, topics, COLUMNS), queues=known_queues(tables, topics))
    write_page(found, report, title="The shop's messages", about=[("From", "the demo's brokers and lake")])
    steps.say(f"report written: {report}")

    steps.say(f"replay: paid orders over 100 of the lake into the topic {AGAIN}")
    chosen = "CAST(get_json_object(CAST(body AS STRING), '$.amount') AS DOUBLE) > 100"
    again = ReplayTerms(
        nameserver=nameserver, lake=lake, topics=[ORDERS], to=AGAIN, tags="paid", where=chosen
    )
    replayed = replay(spark, again, progress=JobProgress("replay", quiet=quiet))
    steps.say(f"replayed {replayed.sent:,} messages")

    steps.say("audit: every record, queue and key of the broker's store, and the lake against it")
    with JobProgress("audit", quiet=quiet).during(spark):
        proof = audit(spark, store, lake=lake)
    if not proof.ok:
        raise DemoFailed(f"the audit found faults:\n{proof.table(10)}")
    facts = proof.facts
    steps.say(
        f"nothing wrong: {facts['records']:,} records, {facts['keys']:,} keys in the index, "
        f"{facts['lake rows compared']:,} archived messages equal to the broker's"
    )
