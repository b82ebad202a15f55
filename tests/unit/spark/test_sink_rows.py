"""From a record batch to requests, without Spark and without a broker."""

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import pytest
from pyspark.sql import types as t

from rocketeer.clock import SystemClock
from rocketeer.model.queue import MessageQueue
from rocketeer.record.batch import iter_batch
from rocketeer.record.ids import UniqKeys
from rocketeer.record.properties import decode_properties
from rocketeer.spark.sink.columns import IDENTITY, Columns, SinkSchemaError, plan_columns
from rocketeer.spark.sink.options import SinkOptions, parse_sink_options
from rocketeer.spark.sink.requests import Request, RequestBatcher
from rocketeer.spark.sink.rows import BadRow, RowEncoder, RowMessage
from rocketeer.spark.sink.spool import Spool

PLAIN = SinkOptions(nameserver="n:1", topic="T")
IDS = UniqKeys("127.0.0.1", 1, SystemClock())
QUEUES = [MessageQueue("T", "a", number) for number in range(4)]


TYPES: dict[str, t.DataType] = {
    "int": t.IntegerType(),
    "long": t.LongType(),
    "string": t.StringType(),
    "binary": t.BinaryType(),
    "array<int>": t.ArrayType(t.IntegerType()),
    "map<string,int>": t.MapType(t.StringType(), t.IntegerType()),
}


def schema(text: str) -> t.StructType:
    """`body string, tags int`; Spark's own parser would need a JVM."""
    parts = [part.split() for part in text.split(", ")]
    return t.StructType([t.StructField(name, TYPES[kind]) for name, kind in parts])


def encoded(
    batch: pa.RecordBatch, columns: Columns, options: SinkOptions = PLAIN, producer: str | None = None
) -> list[RowMessage]:
    return list(RowEncoder(columns, options, 0, producer, IDS).encode(batch))


def digests(rows: Sequence[object], *, identity: Sequence[int]) -> list[bytes | None]:
    batch = pa.RecordBatch.from_pydict({"body": pa.array(rows), IDENTITY: pa.array(identity)})
    return [message.digest for message in encoded(batch, Columns(body=0, identity=1), producer="p")]


def requests(messages: Sequence[RowMessage], options: SinkOptions = PLAIN) -> list[Request]:
    shipped: list[Request] = []
    batcher = RequestBatcher(options, lambda topic: QUEUES, shipped.append)
    for message in messages:
        batcher.add(message)
    batcher.flush()
    return shipped


def message(
    row: int, body: bytes = b"b", *, key: str | None = None, alone: bool = False, sys_flag: int = 0
) -> RowMessage:
    return RowMessage("T", key, None, body, b"", alone, sys_flag, row)


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.string(), pa.large_string()])
def test_a_slice_of_any_arrow_layout_gives_its_own_bodies(kind: pa.DataType) -> None:
    texts = ["one", "two", "three", "four"]
    column = pa.array(
        [text.encode() for text in texts]
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
        else texts,
        kind,
    )
    batch = pa.RecordBatch.from_arrays([column], ["body"]).slice(1, 2)
    assert [bytes(each.body) for each in encoded(batch, Columns(body=0))] == [b"two", b"three"]


def test_rows_are_counted_over_all_record_batches() -> None:
    encoder = RowEncoder(Columns(body=0), PLAIN, 3, None, IDS)
    list(encoder.encode(pa.RecordBatch.from_pydict({"body": ["a", "b"]})))
    with pytest.raises(BadRow, match="row 4 of partition 3 has no body"):
        list(encoder.encode(pa.RecordBatch.from_pydict({"body": ["c", None]})))


def test_no_rows_are_no_messages() -> None:
    assert not encoded(pa.RecordBatch.from_pydict({"body": pa.array([], pa.binary())}), Columns(body=0))


def test_equal_rows_have_the_same_ids_whichever_comes_first() -> None:
    one = digests(["a", "b", "a", "a"], identity=[1, 2, 1, 1])
    other = digests(["a", "a", "b", "a"], identity=[1, 1, 2, 1])
    assert len(set(one)) == 4, "all are told apart"
    assert Counter(one) == Counter(other)


def test_rows_spark_holds_for_different_are_different() -> None:
    assert len(set(digests(["a", "a"], identity=[1, 2]))) == 2


def test_an_id_is_one_per_topic() -> None:
    def ids(topic: str, mark: object) -> bytes | None:
        batch = pa.RecordBatch.from_pydict({"body": ["x"], "id": [mark]})
        options = SinkOptions(nameserver="n:1", topic=topic)
        (only,) = encoded(batch, Columns(body=0, id=1, id_name="id"), options, "p")
        return only.digest

    assert ids("T", 7) == ids("T", "7") == ids("T", b"7")
    assert ids("T", 7) != ids("U", 7)
    with pytest.raises(BadRow, match="has no 'id'"):
        ids("T", None)


def test_ids_travel_as_properties() -> None:
    batch = pa.RecordBatch.from_pydict({"body": ["x"], "id": [1], "keys": [["a", "b"]]})
    (only,) = encoded(batch, Columns(body=0, id=1, id_name="id", keys=2), producer="spark.w")
    properties = decode_properties(only.properties)
    assert properties.keys() == {"KEYS", "PRODUCER_ID", "DEDUP_ID", "UNIQ_KEY"}
    assert properties["PRODUCER_ID"] == "spark.w"
    assert len(properties["DEDUP_ID"]) == 32


def test_batches_hold_what_the_options_allow() -> None:
    by_rows = requests([message(row) for row in range(25)], SinkOptions(nameserver="n:1", batch_rows=10))
    assert [request.rows for request in by_rows] == [
        list(range(10)),
        list(range(10, 20)),
        list(range(20, 25)),
    ]
    by_bytes = requests(
        [message(row, b"x" * 400) for row in range(5)], SinkOptions(nameserver="n:1", batch_bytes=1000)
    )
    assert [len(request.rows) for request in by_bytes] == [2, 2, 1]
    assert all(len(request.body) <= 1000 for request in by_bytes)
    assert [item.body for request in by_bytes for item in iter_batch(request.body)] == [b"x" * 400] * 5


def test_an_ordered_queue_gets_its_rows_in_order_whatever_they_are() -> None:
    rows = [message(row, key="k", alone=row == 2, sys_flag=0x301 if row == 4 else 0) for row in range(6)]
    shipped = requests(rows)
    assert [request.rows for request in shipped] == [[0, 1], [2], [3], [4], [5]]
    assert {request.queue for request in shipped} == {shipped[0].queue}
    assert all(request.ordered for request in shipped)
    assert [request.batch for request in shipped] == [True, False, True, True, True]


def test_halves_hold_all_rows() -> None:
    (whole,) = requests([message(row, str(row).encode()) for row in range(5)])
    first, second = whole.halves()
    assert (first.rows, second.rows) == ([0, 1], [2, 3, 4])
    assert [item.body for part in (first, second) for item in iter_batch(part.body)] == [
        b"0",
        b"1",
        b"2",
        b"3",
        b"4",
    ]


def test_a_spool_gives_back_what_was_put_from_memory_and_from_disk() -> None:
    with Spool(10) as spool:
        for number in range(20):
            spool.put(Request("T", None, False, b"%d" % number * 3, [number]))
        assert [(request.body, request.rows) for request in spool.take()] == [
            (b"%d" % number * 3, [number]) for number in range(20)
        ]


@pytest.mark.parametrize(
    ("ddl", "expected"),
    [
        ("body int", "column 'body' is int, but must be binary or string"),
        ("body string, tags binary", "column 'tags' is binary, but must be string"),
        ("body string, properties map<string,int>", "column 'properties' is map<string,int>, but must be map<string,string>"),
        ("body string, delayLevel string", "column 'delayLevel' is string, but must be a whole number"),
        ("body string, deliverAt long", "column 'deliverAt' is bigint, but must be timestamp"),
        ("body string, keys array<int>", "column 'keys' is array<int>, but must be string or array<string>"),
        ("tags string", "there is no body column"),
        ("body string, value string", "both a body and a value"),
        ("body string, BODY string", "two columns 'body'"),
        ("body string, tag string", "column 'tag' is no part of a message"),
    ],
)  # fmt: skip
def test_a_schema_that_makes_no_messages_is_refused(ddl: str, expected: str) -> None:
    with pytest.raises(SinkSchemaError, match="cannot be written to RocketMQ") as caught:
        plan_columns(schema(ddl), PLAIN)
    assert expected in str(caught.value)


def test_all_that_is_wrong_with_a_schema_is_said_at_once() -> None:
    with pytest.raises(SinkSchemaError) as caught:
        plan_columns(schema("body int, tags int"), SinkOptions(nameserver="n:1"))
    assert all(part in str(caught.value) for part in ("'body'", "'tags'", "topic column"))


def test_columns_of_the_source_are_passed_over() -> None:
    read = "topic string, brokerName string, queueId int, queueOffset long, body binary, tags string, msgId string"
    columns = plan_columns(schema(read), PLAIN)
    assert (columns.body, columns.tags, columns.topic) == (4, 5, None)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "'nameserver' is needed"),
        ({"nameserver": "n:1", "batchBytes": "5m"}, "a broker counts a batch as one message"),
        ({"nameserver": "n:1", "delivery": "exactly-once"}, "write at-least-once or effectively-once"),
        ({"nameserver": "n:1", "writeId": "w"}, "has no effect unless delivery is effectively-once"),
        ({"nameserver": "n:1", "idColumn": "w"}, "has no effect unless delivery is effectively-once"),
        ({"nameserver": "n:1", "compression": "snappy"}, "write none or zlib or lz4 or zstd"),
        ({"nameserver": "n:1", "batchRows": "-1"}, "write a whole number from 1 on"),
        ({"nameserver": "n:1", "nonsense": "1"}, "option 'nonsense' is unknown"),
        ({"nameserver": "n:1", "sendRetries": "3"}, "'sendRetries' is gone: deliveryTimeout"),
        ({"nameserver": "n:1", "delivery": "effectively-once", "writeId": "a b"}, "without spaces"),
    ],
)  # fmt: skip
def test_options_that_cannot_be_are_named(given: dict[str, str], expected: str) -> None:
    with pytest.raises(Exception, match=expected):
        parse_sink_options(given, streaming=False)


def test_what_spark_adds_to_the_options_is_no_concern_of_the_sink() -> None:
    options = parse_sink_options(
        {"nameserver": "n:1", "checkpointlocation": "/c", "path": "/p"}, streaming=True
    )
    assert not options.checks_first
    once = parse_sink_options({"nameserver": "n:1", "DELIVERY": "effectively-once"}, streaming=True)
    assert once.checks_first
    with pytest.raises(Exception, match="batch writes"):
        parse_sink_options(
            {"nameserver": "n:1", "delivery": "effectively-once", "writeId": "w"}, streaming=True
        )
