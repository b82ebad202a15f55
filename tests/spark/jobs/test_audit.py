"""Audits with Spark: of a living broker with every kind of message, of its store at rest, of old stores, of lakes."""

import dataclasses
import itertools
import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rocketeer import COMMIT, ROLLBACK, Message, Producer, TransactionProducer
from rocketeer.audit import queues as audit_queues
from rocketeer.audit.store import audit_store, in_this_process
from rocketeer.model.queue import MessageQueue
from rocketeer.spark.jobs.archive.command import ArchiveTerms, archive
from rocketeer.spark.jobs.audit import agreement as audit_agreement
from rocketeer.spark.jobs.audit import lake as audit_lake
from rocketeer.spark.jobs.audit.command import audit
from rocketeer.spark.jobs.lake.delta import DeltaLake
from rocketeer.spark.jobs.lake.folder import Lake, lake_offsets
from rocketeer.spark.jobs.lake.locations import LakeLocation
from rocketeer.spark.jobs.lake.state import Range
from rocketeer.testing import Cluster, cluster
from support.audited import Copy, write_store
from support.clock import ManualClock
from support.stores import checkpoint_now, kill, make_store, message

DATA = Path(__file__).parents[2] / "golden" / "data"


def restored(name: str, folder: Path) -> Path:
    """A recorded store with every file at its real size."""
    for path, size in json.loads((DATA / name / "files.json").read_bytes()).items():
        source, target = DATA / name / path, folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((source.read_bytes() if source.exists() else b"").ljust(size["real_size"], b"\0"))
    if (DATA / name / "abort").exists():
        (folder / "abort").touch()
    return folder


@pytest.mark.parametrize(("name", "records"), [("store_full", 277), ("store_crashed", 270)])
def test_nothing_is_wrong_with_the_stores_of_a_java_broker(name: str, records: int, tmp_path: Path) -> None:
    report = audit_store(in_this_process, restored(name, tmp_path / "store"), chunk_bytes=4000)
    assert report.ok, report.table()
    assert report.exact == (name == "store_full")
    assert report.facts["records"] == records


def test_parts_that_retention_deleted_are_no_fault(tmp_path: Path) -> None:
    clock = ManualClock()
    store = make_store(tmp_path / "store", clock)
    store.open()
    for number in range(900):
        store.append(
            message(
                b"x" * 300, f"T{number % 2}", number % 3, tags="a", keys=f"k{number}", uniq_key=f"u{number}"
            )
        )
    store.close()
    whole = audit_store(in_this_process, tmp_path / "store")
    assert whole.ok, whole.table()
    for path in Copy(tmp_path / "store").segments()[:2]:
        path.unlink()
    report = audit_store(in_this_process, tmp_path / "store", chunk_bytes=5000)
    assert report.ok, report.table()
    assert report.facts["queue entries expired"] > 100
    assert report.facts["records"] == whole.facts["records"] - report.facts["queue entries expired"]


def test_the_next_file_that_a_broker_made_in_advance_is_no_fault(tmp_path: Path) -> None:
    write_store(tmp_path / "store", 300)
    last = Copy(tmp_path / "store").segments()[-1]
    size = last.stat().st_size
    (last.parent / f"{int(last.name) + size:020d}").write_bytes(bytes(size))
    report = audit_store(in_this_process, tmp_path / "store")
    assert report.ok, report.table()


def test_queues_may_lag_behind_a_broker_that_died_but_only_at_their_end(tmp_path: Path) -> None:
    clock = ManualClock()
    store = make_store(tmp_path / "store", clock)
    store.open()
    for number in range(200):
        store.append(message(b"x" * 50, "Lagging", number % 2, tags="a", keys=f"k{number}"))
        if number == 100:
            checkpoint_now(store, clock)
    folder = kill(store, tmp_path / "killed")
    store.close()
    report = audit_store(in_this_process, folder)
    assert report.ok, report.table()
    assert not report.exact
    assert any("not in their queues' files yet" in note for note in report.notes)
    assert not audit_store(in_this_process, folder, exact=True).ok
    Copy(folder).write(Copy(folder).queue_file("Lagging", 0), 20 * 10, bytes(20))  # below what was safe
    spoilt = audit_store(in_this_process, folder)
    assert dict(spoilt.findings.counts) == {audit_queues.NO_ENTRY: 1}, spoilt.table()


def test_a_torn_end_is_a_fault_only_where_no_broker_died(tmp_path: Path) -> None:
    write_store(tmp_path / "store", 300)
    copy = Copy(tmp_path / "store")
    path = copy.segments()[-1]
    at = max(place + record.size for file, place, record in copy.records() if file == path)
    copy.write(path, at, b"\0\0\1\0\xda\xa3\x20\xa7 half a record")
    assert not audit_store(in_this_process, copy.folder).ok
    (copy.folder / "abort").touch()
    report = audit_store(in_this_process, copy.folder)
    assert report.ok, report.table()
    assert any("not whole" in note for note in report.notes)


# --- a broker, and a lake made from it ------------------------------------------------------------


@pytest.fixture(scope="module")
def shop() -> Iterator[Cluster]:
    with cluster(store_settings={"segment_bytes": 1 << 20, "message_bytes_max": 200_000}) as running:
        yield running


def produce(running: Cluster, count: int = 400) -> None:
    """All kinds of messages, until the transactions are settled."""
    with Producer("AUDIT", nameserver=running.nameserver) as producer:
        for number in range(count):
            given = {"tags": f"tag{number % 3}", "keys": f"order{number}"}
            producer.send(Message("Shop", b"%d" % number * 50, **given))
        producer.send([Message("Shop", b"batched", keys=f"b{number}") for number in range(50)])
        producer.send(Message("Shop", b"z" * 20_000, tags="large"))
        producer.send(Message("Shop", b"delayed", tags="late", delay_level=1))
        producer.send(Message("Shop", b"timed", tags="late", delay=1.0))
    with TransactionProducer("AUDIT_TX", nameserver=running.nameserver, check=lambda _: ROLLBACK) as producer:
        for body, state in ((b"good", COMMIT), (b"bad", ROLLBACK), (b"good", COMMIT)):
            answer = lambda _, state=state: state  # noqa: E731
            producer.send_in_transaction(Message("Shop", body, tags="tx", keys="tx"), answer)


@pytest.fixture(scope="module")
def filled(shop: Cluster) -> Cluster:
    produce(shop)
    return shop


@pytest.fixture(scope="module")
def lake(filled: Cluster, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake") / "lake"
    archive(spark, folder, ArchiveTerms(topics=["Shop"], nameserver=filled.nameserver))
    return folder


def test_a_living_broker_and_its_lake_agree(filled: Cluster, spark: SparkSession, lake: Path) -> None:
    report = audit(spark, filled.store, lake=lake)
    assert report.ok, report.table()
    assert not report.exact
    assert report.facts["records"] > 450
    assert report.facts["lake rows"] == report.facts["lake rows compared"] >= 453


def test_nothing_is_wrong_with_a_store_while_messages_come_in(spark: SparkSession, tmp_path: Path) -> None:
    """Files are rolled, queues and index grow while they are read: what is there at one moment is proved."""
    ended = threading.Event()
    batches = threading.Semaphore(0)  # a store that grows faster than it is read would never be done with
    with cluster(store_settings={"segment_bytes": 1 << 20, "message_bytes_max": 200_000}) as running:

        def send() -> None:
            with Producer("BUSY", nameserver=running.nameserver) as producer:
                for number in itertools.count():
                    batches.acquire()
                    if ended.is_set():
                        return
                    batch = [
                        Message("Busy", b"x" * 500, keys=f"k{number}-{each}", tags="t") for each in range(20)
                    ]
                    producer.send(batch)

        sender = threading.Thread(target=send)
        sender.start()
        try:
            seen = [0]
            give_up_s = time.monotonic() + 100
            while len(seen) < 12 or len(set(seen)) < 5:  # how much is proved grows with every flush
                assert time.monotonic() < give_up_s, seen
                batches.release(50)
                report = audit_store(in_this_process, running.store, chunk_bytes=20_000)
                assert report.ok, report.table()
                seen.append(report.facts.get("records", 0))
            batches.release(200)
            report = audit(spark, running.store)
            assert report.ok, report.table()
        finally:
            ended.set()
            batches.release()
            sender.join()


def test_a_lake_is_compared_with_the_brokers_topics(filled: Cluster, spark: SparkSession, lake: Path) -> None:
    report = audit(spark, lake=lake, nameserver=filled.nameserver)
    assert report.ok, report.table()
    assert report.facts["lake rows compared"] == report.facts["lake rows"]


def first_file(lake: Path) -> Path:
    return lake / min(Lake.open(lake).state().files)


def lost_file(lake: Path) -> None:
    first_file(lake).unlink()


def doubled_in_a_commit(lake: Path) -> None:
    """Somebody's commit names a copy of a file, too."""
    state = Lake.open(lake).state()
    original = state.files[min(state.files)]
    name = original.path.rsplit("/", 1)[0] + "/again.parquet"
    shutil.copy(lake / original.path, lake / name)
    copied = dataclasses.replace(original, path=name)
    DeltaLake(LakeLocation.of(lake)).append([copied], state.ranges, "somebody", 0)


def flipped_file(lake: Path) -> None:
    raw = bytearray(first_file(lake).read_bytes())
    raw[len(raw) // 3] ^= 1
    first_file(lake).write_bytes(raw)


def commit_says_more(lake: Path) -> None:
    ranges = Lake.open(lake).state().ranges
    queue, [*before, last] = next(iter(ranges.items()))
    longer = {**ranges, queue: [*before, Range(last.begin, last.end + 5)]}
    DeltaLake(LakeLocation.of(lake)).append([], longer, "somebody", 0)


@pytest.mark.parametrize(
    ("plant", "kinds"),
    [
        (lost_file, {audit_lake.LOST_FILE, audit_lake.LOST}),
        (doubled_in_a_commit, {audit_lake.DOUBLED}),
        (flipped_file, {audit_lake.DAMAGED_FILE}),
        (commit_says_more, {audit_lake.LOST}),
    ],
)
def test_faults_of_a_lake_are_found(
    plant: Callable[[Path], None], kinds: set[str], lake: Path, spark: SparkSession, tmp_path: Path
) -> None:
    spoilt = tmp_path / "lake"
    shutil.copytree(lake, spoilt)
    plant(spoilt)
    report = audit(spark, lake=spoilt)
    assert kinds <= set(report.findings.counts), report.table()


def test_what_an_archive_passed_over_is_a_hole_that_is_said_and_no_fault(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_store(tmp_path / "store", 300)
    copy = Copy(tmp_path / "store")
    path, at, record = copy.pick(lambda record: record.topic == "Topic1", skip=30)
    copy.flip(path, at)  # its size: no record is where the queue says one is
    terms = ArchiveTerms(topics=["Topic1"], store_path=str(copy.folder), fail_on_data_loss=False)
    lake = tmp_path / "lake"
    done = archive(spark, lake, terms)
    assert done.lost == 1
    before, after = lake_offsets(lake)[MessageQueue("Topic1", "broker-a", record.queue_id)]
    assert (before.end, after.begin) == (record.queue_offset, record.queue_offset + 1)
    report = audit(spark, lake=lake)
    assert report.ok, report.table()
    hole = f"Topic1/{record.queue_id} of broker-a: {record.queue_offset} to {record.queue_offset}"
    assert report.notes == [f"1 message not archived between others: {hole}"]


def test_a_store_at_rest_is_exact_and_a_changed_byte_of_any_column_differs_from_the_lake(
    filled: Cluster, spark: SparkSession, lake: Path, tmp_path: Path
) -> None:
    filled.stop()
    try:
        shutil.copytree(filled.store, tmp_path / "store")
    finally:
        filled.start()
    copy = Copy(tmp_path / "store")
    report = audit(spark, copy.folder)
    assert report.ok, report.table()
    assert report.exact
    # The user's flag and the time of birth: nothing in a store can prove them, the lake can.
    path, at, record = copy.pick(lambda record: record.topic == "Shop", skip=30)
    copy.flip(path, at + 19)
    assert audit_store(in_this_process, copy.folder).ok
    report = audit(spark, copy.folder, lake=lake)
    assert dict(report.findings.counts) == {audit_agreement.DIFFERS: 1}, report.table()
    (finding,) = report.findings.kept
    assert finding.offset == record.queue_offset
    assert f"Shop/{record.queue_id}" in finding.file


def test_the_command_says_what_is_wrong_and_exits_with_1(tmp_path: Path) -> None:
    write_store(tmp_path / "store", 300)
    copy = Copy(tmp_path / "store")
    path, at, record = copy.pick(lambda record: len(record.body) > 9)
    copy.flip(path, at + 90)
    command = [
        sys.executable,
        "-m",
        "rocketeer",
        "spark",
        "audit",
        str(copy.folder),
        "--json",
        "-",
        "--master",
        "local[1]",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    assert report["counts"] == {"record's body does not have its checksum": 1}
    assert report["findings"][0]["offset"] == record.log_offset
    assert report["findings"][0]["file"] == f"commitlog/{int(path.name):020d}"
