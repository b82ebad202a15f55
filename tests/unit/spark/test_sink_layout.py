"""The queues an effectively-once write has noted, with a real name server and broker; and a task against them."""

from collections import Counter
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from rocketeer.client.plans.topics import put_topic
from rocketeer.client.sync.driver import BlockingDriver
from rocketeer.model.topic import TopicConfig
from rocketeer.spark.sink import layout as sink_layout
from rocketeer.spark.sink.client import SinkClient
from rocketeer.spark.sink.columns import Columns
from rocketeer.spark.sink.layout import KEEP_MS, Layout
from rocketeer.spark.sink.options import SinkOptions
from rocketeer.spark.sink.rows import BadRow
from rocketeer.spark.sink.writers import BatchWriter, TaskResult, write_task
from rocketeer.testing import Cluster, cluster
from support.spark_sink import bodies, noted_queues, until


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    with cluster() as started:
        yield started


def make(running: Cluster, topic: str, queues: int) -> None:
    driver = BlockingDriver()
    driver.run(put_topic(running.broker, TopicConfig(topic, queues, queues), 10))
    driver.close()
    client = SinkClient.of(running.nameserver)
    until(lambda: _counts(client, topic) == {"broker-a": queues}, within_s=30, what="the route")


def _counts(client: SinkClient, topic: str) -> dict[str, int] | None:
    try:
        return call(client, sink_layout.current_queues(client, topic))
    except Exception:
        return None


def call(client: SinkClient, work: Coroutine[Any, Any, Any]) -> Any:
    return client.thread.call(work, 30)


def task(running: Cluster, topic: str, rows: list[str], **options: Any) -> TaskResult:
    batch = pa.RecordBatch.from_pydict({"body": rows})
    chosen = SinkOptions(nameserver=running.nameserver, topic=topic, delivery="effectively-once", **options)
    return write_task(iter([batch]), chosen, Columns(body=0, id=0, id_name="body"), "p.0", "p", 0)


def test_a_write_goes_on_with_the_queues_it_began_with(running: Cluster) -> None:
    make(running, "Begun", 2)
    client = SinkClient.of(running.nameserver)
    assert call(client, sink_layout.settled_queues(client, "w", "Begun", 0)) == {"broker-a": 2}
    make(running, "Begun", 5)
    assert call(client, sink_layout.settled_queues(client, "w", "Begun", 0)) == {"broker-a": 2}
    assert call(client, sink_layout.settled_queues(client, "another", "Begun", 0)) == {"broker-a": 5}
    call(client, sink_layout.forget(client, "w", "Begun"))
    assert call(client, sink_layout.settled_queues(client, "w", "Begun", 0)) == {"broker-a": 5}


def test_a_stream_takes_up_changes_between_batches_and_remembers_the_last_one(running: Cluster) -> None:
    make(running, "Flowing", 2)
    client = SinkClient.of(running.nameserver)
    used = call(client, sink_layout.settled_queues(client, "q", "Flowing", 7))
    call(client, sink_layout.take_up_changes(client, "q", "Flowing", 7, used))
    assert call(client, sink_layout.settled_queues(client, "q", "Flowing", 8)) == {"broker-a": 2}
    make(running, "Flowing", 4)
    assert call(client, sink_layout.settled_queues(client, "q", "Flowing", 8)) == {"broker-a": 2}
    call(client, sink_layout.take_up_changes(client, "q", "Flowing", 8, used))
    assert call(client, sink_layout.settled_queues(client, "q", "Flowing", 8)) == {"broker-a": 2}, (
        "sent again"
    )
    assert call(client, sink_layout.settled_queues(client, "q", "Flowing", 9)) == {"broker-a": 4}


def test_notes_nobody_needs_any_more_go(running: Cluster) -> None:
    make(running, "Old", 1)
    client = SinkClient.of(running.nameserver)
    old = Layout({"broker-a": 1}, client.clock.now_ms() - KEEP_MS - 1)
    call(client, sink_layout._write(client, "ancient/Old", old))
    assert "ancient/Old" in noted_queues(running.nameserver)
    call(client, sink_layout.settled_queues(client, "new", "Old", 0))
    assert "ancient/Old" not in noted_queues(running.nameserver)
    assert "new/Old" in noted_queues(running.nameserver)


def test_a_name_server_that_is_away_is_done_without(running: Cluster) -> None:
    make(running, "Half", 3)
    client = SinkClient.of(f"127.0.0.1:1;{running.nameserver}")
    assert call(client, sink_layout.settled_queues(client, "w", "Half", 0)) == {"broker-a": 3}


def test_a_task_sent_again_adds_only_what_is_new(running: Cluster) -> None:
    make(running, "Again", 3)
    assert task(running, "Again", [f"r{n}" for n in range(300)]).rows == 300
    make(running, "Again", 8)
    # Another order, other batches, more rows.
    again = task(running, "Again", [f"r{n}" for n in reversed(range(500))], batch_rows=7)
    assert again.layouts == {"Again": {"broker-a": 3}}
    assert bodies(running.broker, "Again", 8) == Counter(f"r{n}".encode() for n in range(500))


def test_a_planned_write_waits_for_a_broker_that_is_away_when_its_tasks_begin(running: Cluster) -> None:
    make(running, "Away", 2)
    # Another spelling, another client: as in a worker that has met no topic yet.
    options = SinkOptions(nameserver=f"{running.nameserver};", topic="Away")
    writer = BatchWriter(options, Columns(body=0), "away")
    batch = pa.RecordBatch.from_pydict({"body": ["a", "b"]})
    running.stop()
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(writer.write, iter([batch]))
        with pytest.raises(TimeoutError):
            writing.result(0.5)
        running.start()
        assert writing.result(60).rows == 2
    assert bodies(running.broker, "Away", 2) == Counter([b"a", b"b"])
    with pytest.raises(BadRow, match="row 1 of partition 0 is for a topic that does not exist"):
        write_task(iter([batch]), replace(options, topic="Never"), Columns(body=0), None, None, 0)
