"""A store's files read from outside: a running broker's, copies of it, and those a Java broker left."""

import json
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from rocketeer import Message, Producer
from rocketeer.errors import ConfigError, StoreError
from rocketeer.model.queue import MessageQueue
from rocketeer.spark.source.bounds import ending_places, starting_places
from rocketeer.spark.source.columns import SCHEMA
from rocketeer.spark.source.losses import DataLost
from rocketeer.spark.source.options import SourceOptions, parse_options
from rocketeer.spark.source.planning import QueueRange
from rocketeer.spark.source.reading import plan_tasks, read_partition
from rocketeer.spark.source.store_view import StoreView
from rocketeer.store.queue_entry import BLANK, ENTRY_BYTES
from rocketeer.testing import Cluster, cluster

GOLDEN = Path(__file__).parents[2] / "golden" / "data" / "store_full"
COLUMNS = StructType([SCHEMA[name] for name in ("topic", "queueId", "queueOffset", "body", "tags")])
COUNT = 600


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Cluster]:
    settings = {"segment_bytes": 1 << 16, "consume_queue_bytes": 20 * 100}
    with cluster(tmp_path / "store", store_settings=settings) as running:
        _fill(running, COUNT)
        yield running


def _fill(running: Cluster, count: int, start: int = 0) -> None:
    with Producer("P", nameserver=running.nameserver) as producer:
        for at in range(start, start + count):
            queue = MessageQueue("Files", "broker-a", at % 2)
            producer.send(
                Message("Files", b"%d " % at + b"x" * 200, tags="even" if at % 4 < 2 else "odd"), queue=queue
            )


def _options(store: Path, **given: str) -> SourceOptions:
    return parse_options({"storePath": str(store), "subscribe": "Files", **given}, streaming=False)


def _read(options: SourceOptions, view: StoreView | None = None) -> list[tuple[int, int]]:
    """(queue, offset) of every message; bodies must be where they belong."""
    view = view or StoreView(options)
    queues = view.queues()
    begin, end = (
        starting_places(options, view, queues, default="earliest"),
        ending_places(options, view, queues),
    )
    wanted = [QueueRange(queue, begin[queue], end[queue]) for queue in sorted(queues)]
    found = []
    for partition in plan_tasks(options, view, wanted):
        for batch in read_partition(options, COLUMNS, partition):
            batch.validate(full=True)
            for row in batch.to_pylist():
                assert int(row["body"].split()[0]) == row["queueOffset"] * 2 + row["queueId"]
                found.append((row["queueId"], row["queueOffset"]))
    return found


ALL = [(queue, offset) for queue in (0, 1) for offset in range(COUNT // 2)]


def test_a_running_brokers_files_have_every_message_also_the_newest(broker: Cluster, tmp_path: Path) -> None:
    options = _options(tmp_path / "store")
    view = StoreView(options)
    assert _read(options, view) == ALL, "over many files of the log, each ending with a blank"
    _fill(broker, 10, start=COUNT)
    assert len(_read(options, view)) == COUNT + 10, "the same view follows the log"
    assert len(_read(options)) == COUNT + 10


def test_tags_offsets_and_times_choose_as_with_a_broker(broker: Cluster, tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert len(_read(_options(store, tags="even"))) == COUNT // 2
    starting = json.dumps({"Files": {"broker-a": {"0": COUNT // 2 - 3, "1": COUNT // 2}}})
    assert _read(_options(store, startingOffsets=starting)) == ALL[COUNT // 2 - 3 : COUNT // 2]
    time.sleep(0.01)
    now_ms = int(time.time() * 1000)
    _fill(broker, 4, start=COUNT)
    assert len(_read(_options(store, startingTimestamp=str(now_ms)))) == 4
    assert len(_read(_options(store, endingTimestamp=str(now_ms)))) == COUNT


def test_a_cold_copy_after_a_clean_stop_is_whole(broker: Cluster, tmp_path: Path) -> None:
    broker.stop()
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    assert _read(_options(tmp_path / "copy")) == ALL
    broker.start()


def test_a_copy_whose_log_ends_early_ends_there(broker: Cluster, tmp_path: Path) -> None:
    broker.stop()
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "store", copy)
    segments = sorted((copy / "commitlog").iterdir())
    for segment in segments[2:]:
        segment.unlink()
    segments[1].write_bytes(segments[1].read_bytes()[:30_000])
    found = _read(_options(copy))
    assert 0 < len(found) < COUNT
    counts = Counter(queue for queue, _ in found)
    assert found == [(queue, offset) for queue in (0, 1) for offset in range(counts[queue])]
    broker.start()


def test_what_retention_deleted_is_not_offered_and_asking_for_it_is_an_error(
    broker: Cluster, tmp_path: Path
) -> None:
    broker.stop()
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "store", copy)
    sorted((copy / "commitlog").iterdir())[0].unlink()
    found = _read(_options(copy))
    assert 0 < len(found) < COUNT
    assert found[-1] == (1, COUNT // 2 - 1)
    starting = json.dumps({"Files": {"broker-a": {"0": 0}}})
    with pytest.raises(DataLost, match=r"messages \[0, \d+\) of queue 0 of topic 'Files'"):
        _read(_options(copy, startingOffsets=starting))
    assert _read(_options(copy, startingOffsets=starting, failOnDataLoss="false")) == found
    broker.start()


def test_blank_entries_before_a_queues_first_message_are_passed_over(broker: Cluster, tmp_path: Path) -> None:
    broker.stop()
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "store", copy)
    # As a broker writes them whose queue begins behind 0: a slave that came later, a store rebuilt from its log's rest.
    first = copy / "consumequeue" / "Files" / "1" / "00000000000000000000"
    raw = bytearray(first.read_bytes())
    raw[: 7 * ENTRY_BYTES] = BLANK * 7
    first.write_bytes(raw)
    assert _read(_options(copy)) == [place for place in ALL if place not in {(1, at) for at in range(7)}]
    starting = json.dumps({"Files": {"broker-a": {"1": 2}}})
    with pytest.raises(DataLost, match=r"5 messages \[2, 7\) of queue 1 of topic 'Files'"):
        _read(_options(copy, startingOffsets=starting))
    broker.start()


def test_a_java_brokers_store_is_read_message_for_message() -> None:
    manifest = json.loads((GOLDEN / "manifest.json").read_text())
    by_id = {message["offsetMsgId"]: message for message in manifest["messages"]}
    queued = manifest["consumequeue[topic][queue]=[index,phyOffset,size,tagsCode]"]
    options = parse_options({"storePath": str(GOLDEN), "subscribePattern": ".*"}, streaming=False)
    view = StoreView(options)
    queues = view.queues()
    wanted = [QueueRange(queue, low, view.highs([queue])[queue]) for queue, low in view.lows(queues).items()]
    rows = [
        row
        for partition in plan_tasks(options, view, wanted)
        for batch in read_partition(options, SCHEMA, partition)
        for row in batch.to_pylist()
    ]
    for row in rows:
        told = by_id[row["offsetMsgId"]]
        for name in (
            "topic",
            "queueId",
            "queueOffset",
            "msgId",
            "tags",
            "keys",
            "flag",
            "sysFlag",
            "reconsumeTimes",
        ):
            assert row[name] == told.get(name), name
        assert dict(row["properties"]) == told["properties"]
        assert row["storeHost"] == told["storeHost"].lstrip("/")
        assert row["bornHost"] == told["bornHost"].lstrip("/")
        assert round(row["storeTimestamp"].timestamp() * 1000) == told["storeTimestamp"]
        assert round(row["bornTimestamp"].timestamp() * 1000) == told["bornTimestamp"]
        if not row["sysFlag"] & 1:
            assert row["body"].hex() == (told["body_hex"] or "")
    topics = {queue.topic for queue in queues}
    assert len(rows) == sum(len(entries) for topic in topics for entries in queued[topic].values())


def test_what_is_no_store_is_said_so(tmp_path: Path, broker: Cluster) -> None:
    with pytest.raises(StoreError, match="no folder commitlog"):
        StoreView(_options(tmp_path))
    with pytest.raises(StoreError, match="is not a folder"):
        StoreView(_options(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match="has no topic 'Missing'; it has"):
        StoreView(_options(tmp_path / "store", subscribe="Missing")).queues()
