"""What the tests of the sink share: topics, everything that lies in one, and driver programs that can be killed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rocketeer.bench.control import Control
from rocketeer.client.plans.topics import put_topic
from rocketeer.client.sync.driver import BlockingDriver
from rocketeer.model.topic import TopicConfig
from rocketeer.protocol.codes import RequestCode
from rocketeer.record.layout import StoredMessage
from support.cluster import ServerCluster
from support.records import sent_body, split_records

WAIT_S = 600
"""So long may a driver take on a machine with much else to do; some 15 s on one without."""
DRIVER = Path(__file__).with_name("spark_sink_driver.py")


def until(condition: Callable[[], Any], *, within_s: float, what: str) -> Any:
    """Poll until it is true; what it returned."""
    end_s = time.monotonic() + within_s
    while not (came := condition()):
        assert time.monotonic() < end_s, f"not within {within_s} s: {what}"
        time.sleep(0.05)
    return came


def make_topic(cluster: ServerCluster, topic: str, queues: int = 4) -> str:
    """Create it, or change its queues; returns when the name server knows."""
    driver = BlockingDriver()
    try:
        driver.run(put_topic(cluster.broker, TopicConfig(topic, queues, queues), 20))
        with Control(cluster.namesrv) as control:
            until(
                lambda: (
                    f'"writeQueueNums":{queues}'.encode()
                    in control.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}).body
                ),
                within_s=40,
                what=f"route of {topic}",
            )
    finally:
        driver.close()
    return topic


def stored(broker: str, topic: str, queues: int = 4) -> list[StoredMessage]:
    """Every message of the topic, queue by queue in order."""
    found: list[StoredMessage] = []
    with Control(broker, timeout_s=30) as control:
        for queue_id in range(queues):
            offset = 0
            while True:
                reply = control.call(
                    RequestCode.PULL_MESSAGE,
                    {
                        "consumerGroup": "CG", "topic": topic, "queueId": str(queue_id), "queueOffset": str(offset),
                        "maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0",
                        "subscription": "*", "subVersion": "0", "expressionType": "TAG",
                    },
                )  # fmt: skip
                if reply.code != 0:
                    break
                found += split_records(reply.body)
                offset = int(reply.ext["nextBeginOffset"])
    return found


def bodies(broker: str, topic: str, queues: int = 4) -> Counter[bytes]:
    return Counter(sent_body(message) for message in stored(broker, topic, queues))


def noted_queues(nameserver: str) -> dict[str, Any]:
    """What writes have noted with the name server, by `producer/topic`."""
    with Control(nameserver) as control:
        reply = control.call(RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": "ROCKETEER_SPARK_QUEUES"})
    table = json.loads(reply.body)["table"] if reply.body else {}
    return {key: json.loads(value) for key, value in table.items()}


class Driver:
    """A Spark driver program in processes of its own; `kill` is kill -9 of all of them at once."""

    def __init__(self, job: str, folder: Path, **arguments: Any) -> None:
        self.log = folder / f"{job}-{time.monotonic_ns()}.log"
        with self.log.open("wb") as out:
            self._process = subprocess.Popen(
                [sys.executable, str(DRIVER), job, json.dumps(arguments)],
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self.kill()

    def wait(self, within_s: float = WAIT_S) -> None:
        """Until it has ended well."""
        try:
            code = self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the driver did not end: {self.tail()}") from None
        assert code == 0, self.tail()

    def kill(self) -> None:
        """The session's processes: the driver's Python, its JVM and the workers that are still its own."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(30)

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-6000:]
