"""Rows packed by compiled code make the requests that the general way makes, and leave to it what is not as most are."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketeer.clock import SystemClock
from rocketeer.compiled import COMPILED
from rocketeer.errors import NoRoute
from rocketeer.model.queue import MessageQueue
from rocketeer.record.batch import iter_batch
from rocketeer.record.ids import UniqKeys
from rocketeer.spark.sink.columns import Columns
from rocketeer.spark.sink.options import SinkOptions
from rocketeer.spark.sink.plain_rows import GeneralRows, PlainRows, Rows, choose_rows
from rocketeer.spark.sink.requests import Request, RequestBatcher
from rocketeer.spark.sink.rows import BadRow, RowEncoder
from support.clock import ManualClock

pytestmark = pytest.mark.skipif(not COMPILED, reason="the compiled modules are not in use")

OPTIONS = SinkOptions(nameserver="n:1", topic="T", batch_bytes=600, batch_rows=3, message_bytes_max=900)
COLUMNS = Columns(body=0, tags=1, keys=2, id=3)
QUEUES = {
    brokers: [MessageQueue("T", broker, number) for broker in brokers for number in range(4)]
    for brokers in ("a", "ab")
}
Row = tuple[Any, Any, Any, Any]
NAMES = ["body", "tags", "keys", "id"]

texts = st.one_of(
    st.none(), st.sampled_from(["", "t", "größe", "k1 k2"]), st.sampled_from(["a\x01b", "\x02"])
)
usual = st.tuples(
    st.binary(min_size=1, max_size=90),
    st.sampled_from([None, "", "t", "größe"]),
    st.sampled_from([None, "k1 k2"]),
    st.integers(-3, 30),
)
odd = st.tuples(
    st.one_of(st.none(), st.just(b""), st.sampled_from([b"x" * 590, b"x" * 700, b"x" * 901]), st.just(b"y")),
    texts,
    texts,
    st.one_of(st.none(), st.integers(0, 3)),
)


def written(
    rows: list[Row], kinds: dict[str, pa.DataType], cut: int, producer: str | None, brokers: str, way: str
) -> Any:
    """What is shipped, by whom; or the row that cannot be, and why."""
    arrays = [pa.array([row[at] for row in rows], kinds[name]) for at, name in enumerate(NAMES)]
    whole = pa.RecordBatch.from_arrays(arrays, NAMES)
    shipped: list[Request] = []
    uniq_keys = UniqKeys("127.0.0.1", 1, SystemClock())
    encoder = RowEncoder(COLUMNS, OPTIONS, 5, producer, uniq_keys)
    batcher = RequestBatcher(OPTIONS, lambda topic: QUEUES[brokers], shipped.append)
    sink: Rows = GeneralRows(encoder, batcher)
    if way == "plain":
        sink = choose_rows(encoder, batcher, shipped.append, COLUMNS, OPTIONS, producer, uniq_keys)
        assert isinstance(sink, PlainRows)
    try:
        for batch in (whole.slice(0, cut), whole.slice(cut)):
            if batch.num_rows:
                sink.add(batch)
        sink.flush()
    except BadRow as error:
        return str(error)
    return [
        (each.topic, each.queue, each.ordered, each.sys_flag, each.batch, each.rows, _items(each))
        for each in shipped
    ]


def _items(request: Request) -> list[tuple[int, bytes, bytes]]:
    """Without what is different every time."""
    if not request.batch:
        return [(0, request.body, request.properties.partition(b"UNIQ_KEY")[0])]
    return [
        (item.flag, item.body, item.properties.partition(b"UNIQ_KEY")[0]) for item in iter_batch(request.body)
    ]


KINDS = st.fixed_dictionaries(
    {
        "body": st.sampled_from([pa.binary(), pa.large_binary()]),
        "tags": st.sampled_from([pa.string(), pa.large_string()]),
        "keys": st.sampled_from([pa.string(), pa.large_string()]),
        "id": st.sampled_from([pa.int64(), pa.int32(), pa.int8()]),
    }
)
PRODUCERS = st.sampled_from([None, "spark.7f.1"])


@settings(deadline=None, max_examples=200)
@given(
    rows=st.lists(usual, max_size=20),
    kinds=KINDS,
    cut=st.integers(0, 9),
    producer=PRODUCERS,
    brokers=st.sampled_from(["a", "ab"]),
)
def test_usual_rows_make_the_same_requests(
    rows: list[Row], kinds: dict[str, pa.DataType], cut: int, producer: str | None, brokers: str
) -> None:
    plain = written(rows, kinds, cut, producer, brokers, "plain")
    assert sorted(plain, key=str) == sorted(written(rows, kinds, cut, producer, brokers, "general"), key=str)


@settings(deadline=None, max_examples=200)
@given(
    rows=st.lists(st.one_of(usual, odd), max_size=12), kinds=KINDS, cut=st.integers(0, 9), producer=PRODUCERS
)
def test_odd_rows_in_between_are_sent_or_refused_as_the_general_way_does(
    rows: list[Row], kinds: dict[str, pa.DataType], cut: int, producer: str | None
) -> None:
    plain, general = (written(rows, kinds, cut, producer, "a", way) for way in ("plain", "general"))
    if isinstance(general, str):
        assert plain == general
        return

    def flat(requests: Any) -> Any:
        return sorted(
            [
                (queue, row, item)
                for _, queue, _, _, _, numbers, items in requests
                for row, item in zip(numbers, items, strict=True)
            ],
            key=str,
        )

    assert flat(plain) == flat(general)


def test_whole_requests_are_equal_to_the_last_byte() -> None:
    """With the ids that are different every time: the layout behind the last property, too."""
    rows = [(b"body%d" % at, "t", "k", at) for at in range(3)]
    shipped: list[Request] = []
    uniq_keys = UniqKeys("127.0.0.1", 1, SystemClock())
    batch = pa.RecordBatch.from_arrays(
        [pa.array([row[at] for row in rows]) for at in range(4)], ["b", "t", "k", "i"]
    )
    encoder = RowEncoder(COLUMNS, OPTIONS, 0, None, uniq_keys)
    batcher = RequestBatcher(OPTIONS, lambda topic: QUEUES["a"], shipped.append)
    sink = choose_rows(encoder, batcher, shipped.append, COLUMNS, OPTIONS, None, uniq_keys)
    sink.add(batch)
    sink.flush()
    GeneralRows(encoder, batcher).add(batch)
    batcher.flush()
    plain, general = (list(iter_batch(each.body)) for each in shipped)
    for one, other in zip(plain, general, strict=True):
        assert len(one.properties) == len(other.properties)
        assert one.properties[:-12] == other.properties[:-12]


def test_unique_keys_are_those_the_general_way_would_have_made_also_where_their_counter_begins_anew() -> None:
    made: list[list[bytes]] = []
    batch = pa.RecordBatch.from_arrays([pa.array([b"x"] * 4), *[pa.nulls(4, pa.string())] * 3], NAMES)
    for way in ("plain", "general"):
        shipped: list[Request] = []
        uniq_keys = UniqKeys("127.0.0.1", 1, ManualClock(), instance=7)
        uniq_keys.take((1 << 16) - 2)
        encoder = RowEncoder(COLUMNS, OPTIONS, 0, None, uniq_keys)
        batcher = RequestBatcher(OPTIONS, lambda topic: QUEUES["a"], shipped.append)
        sink: Rows = GeneralRows(encoder, batcher)
        if way == "plain":
            sink = choose_rows(encoder, batcher, shipped.append, COLUMNS, OPTIONS, None, uniq_keys)
            assert isinstance(sink, PlainRows)
        sink.add(batch)
        sink.flush()
        made.append([item.properties for each in shipped for item in iter_batch(each.body)])
    assert made[0] == made[1]
    assert [properties[-4:] for properties in made[0]] == [b"FFFE", b"FFFF", b"0000", b"0001"]


def test_lists_of_keys_take_the_general_way() -> None:
    shipped: list[Request] = []
    uniq_keys = UniqKeys("127.0.0.1", 1, SystemClock())
    columns = Columns(body=0, keys=1)
    encoder = RowEncoder(columns, OPTIONS, 0, None, uniq_keys)
    batcher = RequestBatcher(OPTIONS, lambda topic: QUEUES["a"], shipped.append)
    sink = choose_rows(encoder, batcher, shipped.append, columns, OPTIONS, None, uniq_keys)
    sink.add(pa.RecordBatch.from_pydict({"body": [b"x"], "keys": [["a", "b"]]}))
    sink.flush()
    assert b"KEYS\x01a b\x02" in shipped[0].body


def test_a_topic_that_is_nowhere_names_the_first_row() -> None:
    def no_queues(topic: str) -> list[MessageQueue]:
        raise NoRoute(topic, ("n:1",))

    uniq_keys = UniqKeys("127.0.0.1", 1, SystemClock())
    columns = Columns(body=0)
    encoder = RowEncoder(columns, OPTIONS, 3, None, uniq_keys)
    batcher = RequestBatcher(OPTIONS, no_queues, lambda request: None)
    sink = choose_rows(encoder, batcher, lambda request: None, columns, OPTIONS, None, uniq_keys)
    with pytest.raises(BadRow, match="row 1 of partition 3 is for a topic that does not exist"):
        sink.add(pa.RecordBatch.from_pydict({"body": [b"x"]}))
