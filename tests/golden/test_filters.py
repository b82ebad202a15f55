"""SQL92 and bloom filters against tables made by Apache's own classes (interop/java, FilterTable)."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketeer.broker.features.filtering.feature import Filtering
from rocketeer.broker.features.filtering.filter_data import FilterTable
from rocketeer.compiled import COMPILED
from rocketeer.errors import BadSqlExpression
from rocketeer.filter.bloom import BloomFilter, mask_of
from rocketeer.filter.records import record_filter
from rocketeer.filter.sql import SqlFilter
from rocketeer.filter.sql_compile import Incomparable
from rocketeer.record.delay_levels import DelayLevels
from rocketeer.record.entry import DispatchEntry, entry_at
from rocketeer.record.properties import encode_properties
from rocketeer.store.consume_queue_ext import ADDRESS_MIN
from rocketeer.store.extended_queue import ExtendedQueue, QueueExtension
from rocketeer.store.file_cache import FileCache
from rocketeer.store.queue_entry import ENTRY
from support.clock import ManualClock

DATA = Path(__file__).parent / "data"
FILTER = DATA / "filter"

# RocketMQ's parser stops at the first token it cannot use and takes what it has: `a > 5 b` is `a > 5`, `a LIKE 'b%'`
# is `a`. Ours tells where the expression goes wrong.
REST_IGNORED = {
    "a = 1)", "a + 1 = 5", "a LIKE 'b%'", "a > 5 b", "a-b = 1", "a = 00", "a = 07", "a = 0L", "a = 5LL", "a = 1e",
    "a = 1e+", "a IS NULL > 3",
}  # fmt: skip


def rows(name: str) -> Iterator[Any]:
    with gzip.open(FILTER / name, "rt") as lines:
        yield from map(json.loads, lines)


def answer(expression: str, properties: dict[str, str]) -> object:
    try:
        compiled = SqlFilter(expression)
    except BadSqlExpression as error:
        return "refused" if 1 <= error.position <= len(expression) + 1 else f"refused at {error.position}"
    raw = encode_properties(properties)
    truth: object
    try:
        truth = compiled.truth(raw)
    except Incomparable:
        truth = "error"
    assert compiled.matches(raw) is (truth is True)
    if COMPILED:
        assert record_filter(compiled).matches_properties(raw) is (truth is True), "the compiled twin differs"
    return truth


@pytest.mark.parametrize("table", ["sql_4.9.8.jsonl.gz", "sql_5.3.1.jsonl.gz"])
def test_every_expression_has_the_truth_apaches_evaluator_gives_it(table: str) -> None:
    different = [
        (expression, properties, wanted, ours)
        for expression, properties, wanted in rows(table)
        if expression not in REST_IGNORED and (ours := answer(expression, properties)) != wanted
    ]
    assert different == []


def test_what_apaches_parser_leaves_unread_is_refused() -> None:
    seen = {expression for expression, _, _ in rows("sql_4.9.8.jsonl.gz")}
    assert seen >= REST_IGNORED
    assert {answer(expression, {}) for expression in REST_IGNORED} == {"refused"}


def test_bloom_positions_are_apaches() -> None:
    count = 0
    for error_percent, consumers, text, bits, positions, _ in rows("bloom_4.9.8.jsonl.gz"):
        bloom = BloomFilter(error_percent, consumers)
        data = bloom.data(text)
        assert (bloom.bits, list(data.positions)) == (bits, positions)
        assert int.from_bytes(bloom.union([data]), "little") == mask_of(data)
        count += 1
    assert count > 400


@pytest.mark.parametrize("store", ["store_full", "store_crashed"])
def test_a_recorded_table_of_filters_reads_and_writes_the_same(store: str) -> None:
    text = (DATA / store / "config" / "consumerFilter.json").read_text()
    clock = ManualClock()
    table = FilterTable(BloomFilter(20, 32), clock, keep_dead_ms=1 << 60)
    table.decode(text)
    assert json.loads(table.encode()) == json.loads(text)
    for data in table:
        assert table.bloom.data(f"{data.group}#{data.topic}") == data.bloom


class RecordedLog:
    """The recorded log as the filtering feature reads it."""

    def __init__(self, path: Path) -> None:
        self.bytes = path.read_bytes()

    def read(self, offset: int, size: int) -> memoryview | None:
        return memoryview(self.bytes)[offset : offset + size]


def test_the_units_beside_filtered_queues_come_out_with_the_recorded_bytes(tmp_path: Path) -> None:
    """After its restart the recorded broker dispatched all again, with both filters: the second half of each file."""
    store = DATA / "store_full"
    log = RecordedLog(store / "commitlog" / f"{0:020d}")
    table = FilterTable(BloomFilter(20, 32), ManualClock(), keep_dead_ms=1 << 60)
    table.decode((store / "config" / "consumerFilter.json").read_text())
    filtering = Filtering(table, ManualClock(), enabled=True, retries=False)
    extension = QueueExtension(tmp_path / "ext", 20_480)
    extension.set_filter_bits(lambda entry: filtering.bits_of(entry, log))
    files = FileCache()
    queues = [ExtendedQueue(tmp_path / str(q), "FilterTopic", q, 20_000, files, extension) for q in range(2)]
    at = 0
    while isinstance(
        entry := entry_at(log.bytes, at, DelayLevels.parse("1s"), check_crc=False), DispatchEntry
    ):
        if entry.topic == "FilterTopic":
            assert queues[entry.queue_id].append(entry)
        at += entry.size
    for queue in queues:
        queue.write_out()
        recorded = (
            store / "consumequeue_ext" / "FilterTopic" / str(queue.queue_id) / f"{0:020d}"
        ).read_bytes()
        ours = (tmp_path / "ext" / "FilterTopic" / str(queue.queue_id) / f"{0:020d}").read_bytes()
        half = 5 * 34
        assert ours[:half] == recorded.ljust(2 * half, b"\0")[half : 2 * half]
        assert len(ours) == 20_480
        assert not any(ours[half:])
        assert [code for _, _, code in ENTRY.iter_unpack(queue.read(0, 10))] == [
            ADDRESS_MIN + number * 34 for number in range(5)
        ]
    files.close()
