"""Driver programs for the tests that kill something: run as a process of its own, with a job's name and arguments.

Where something is to die it does so once: a file says that it has.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from rocketeer.bench.control import Control
from rocketeer.protocol.codes import RequestCode
from rocketeer.spark import session
from rocketeer.spark.sink.identity import identify_rows


def once(marker: str) -> bool:
    """True for the first who asks, in whichever process."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def jvm_of(pid: int) -> int:
    """The java process a Python worker belongs to."""
    while True:
        name, _, rest = Path(f"/proc/{pid}/stat").read_text().partition(" (")[2].rpartition(") ")
        if name == "java":
            return pid
        pid = int(rest.split()[1])


def dying(a: dict[str, Any]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Passes rows on, slowly from the id `at` on, and dies once: when some of those are stored.

    They are what must not be there twice. (Waiting for them would not do: Spark hands rows on when more come.)
    """
    die = DEATHS[a["dies"]]

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if max(batch.column("id").to_pylist()) >= a["at"] and not Path(a["marker"]).exists():
                time.sleep(0.1)
                if stored_rows(a) > a["at"] and once(a["marker"]):
                    die()
            yield batch

    return pass_on


def stored_rows(a: dict[str, Any]) -> int:
    topic = a["options"]["topic"]
    with Control(a["broker"]) as control:
        replies = [
            control.call(RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": str(queue)})
            for queue in range(4)
        ]
    return sum(int(reply.ext["offset"]) for reply in replies)


def kill_worker() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_executor() -> None:
    os.kill(jvm_of(os.getpid()), signal.SIGKILL)
    time.sleep(60)


def wait_for_the_end() -> None:
    time.sleep(600)


DEATHS = {"worker": kill_worker, "executor": kill_executor, "driver": wait_for_the_end}


def with_bodies(df: DataFrame, by_content: bool) -> DataFrame:
    """About 1 KB each, so that they flow from worker to worker instead of waiting in buffers."""
    # Without ids each body is there three times: equal rows that are all wanted.
    number = "floor(id / 3)" if by_content else "id"
    return df.selectExpr("id", f"concat('row-', cast({number} as string), '-', repeat('x', 1000)) as body")


QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A JVM that lives for seconds: compiling well would cost more than it gains."""


def start(master: str) -> SparkSession:
    spark = session(
        "sink-driver",
        master=master,
        config={
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": 3,
            "spark.sql.execution.arrow.maxRecordsPerBatch": 50,
            "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "spark.executor.memory": "512m",
            "spark.driver.extraJavaOptions": QUICK,
            "spark.executor.extraJavaOptions": QUICK,
        },
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def messages(df: DataFrame, a: dict[str, Any]) -> DataFrame:
    """The rows on their way, with death among them."""
    by_content = a.get("by_content", False)
    passed = with_bodies(df, by_content).mapInArrow(dying(a), "id long, body string")
    return identify_rows(passed.drop("id")) if by_content else passed


def write(a: dict[str, Any]) -> None:
    """A batch write in which something dies; then the same again, cut into other partitions."""
    spark = start(a["master"])
    for parts in a["parts"]:
        # Round robin: which rows meet, and in which order, is nothing anybody should rely on.
        df = spark.range(0, a["rows"], 1, parts).repartition(parts + 1)
        messages(df, a).write.format("rocketmq").options(**a["options"]).mode("append").save()


def stream(a: dict[str, Any]) -> None:
    """A stream over the files of a folder, one file a batch, until all are there."""
    spark = start(a["master"])
    files = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(a["files"])
    query = (
        messages(files.repartition(3), a)
        .writeStream.format("rocketmq")
        .options(**a["options"])
        .option("checkpointLocation", a["checkpoint"])
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    {"write": write, "stream": stream}[sys.argv[1]](json.loads(sys.argv[2]))
