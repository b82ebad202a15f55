"""The vectorised decoder gives what decoding one record after the other gives, for any records."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from rocketeer.errors import BadRecord, ConfigError
from rocketeer.record.compression import compress
from rocketeer.record.flags import Compression
from rocketeer.record.hosts import encode_host, host_text
from rocketeer.record.layout import PendingMessage, encode_pending
from rocketeer.record.vectorised import record_offsets
from rocketeer.spark.source.arrow import Decoder
from rocketeer.spark.source.columns import COLUMNS, SCHEMA, check_schema
from support.records import split_records

ALL = to_arrow_schema(SCHEMA, timezone="UTC")

hosts = st.sampled_from(
    [
        encode_host("10.0.0.1", 80),
        encode_host("10.0.0.2", 65535),
        encode_host("::1", 9),
        encode_host("2001:db8::7", 1),
    ]
)
names = st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "a", "TAGSX", "区域"])
values = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), max_size=8)
well_formed = st.lists(st.tuples(names, values), max_size=6).map(
    lambda pairs: "\x02".join(f"{name}\x01{value}" for name, value in pairs).encode()
)
properties = well_formed | st.text("\x01\x02aT", max_size=12).map(str.encode) | st.binary(max_size=12)


@st.composite
def pending(draw: st.DrawFn) -> tuple[bytes, PendingMessage, bytes]:
    plain = draw(st.binary(max_size=40))
    kind = draw(st.none() | st.sampled_from(list(Compression)))
    message = PendingMessage(
        topic="Orders",
        queue_id=draw(st.integers(0, 7)),
        flag=draw(st.integers(-(1 << 31), (1 << 31) - 1)),
        sys_flag=0 if kind is None else kind.sys_flag,
        born_ms=draw(st.integers(0, 1 << 41)),
        born_host=draw(hosts),
        body=plain if kind is None else compress(plain, kind),
        properties=draw(properties),
        reconsume_times=draw(st.integers(0, 100)),
    )
    return plain, message, draw(hosts)


@settings(deadline=None)
@given(st.lists(pending(), min_size=1, max_size=12), st.integers(0, 1 << 60))
def test_all_columns_equal_the_records(found: list[tuple[bytes, PendingMessage, bytes]], start: int) -> None:
    body = b"".join(
        encode_pending(
            message, queue_offset=start + at, log_offset=start * 2 + at, store_ms=at + 5, store_host=store
        )
        for at, (_, message, store) in enumerate(found)
    )
    batch = Decoder(ALL).decode(bytearray(body), record_offsets(body), "Orders", "broker-a")
    batch.validate(full=True)
    rows = batch.to_pylist()
    for row, stored, (plain, _, _) in zip(rows, split_records(body), found, strict=True):
        text = stored.properties_dict()
        assert dict(row["properties"]) == text
        assert len(row["properties"]) == len(text), "no name twice"
        assert row["body"] == plain
        assert row["tags"] == text.get("TAGS")
        assert row["keys"] == text.get("KEYS")
        assert row["offsetMsgId"] == stored.offset_msg_id
        assert row["msgId"] == text.get("UNIQ_KEY", stored.offset_msg_id)
        assert (row["topic"], row["brokerName"]) == ("Orders", "broker-a")
        assert (row["queueId"], row["queueOffset"]) == (stored.queue_id, stored.queue_offset)
        assert (row["flag"], row["sysFlag"]) == (stored.flag, stored.sys_flag)
        assert row["reconsumeTimes"] == stored.reconsume_times
        assert row["bornHost"] == host_text(stored.born_host)
        assert row["storeHost"] == host_text(stored.store_host)
        assert row["bornTimestamp"] == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(
            milliseconds=stored.born_ms
        )
        assert row["storeTimestamp"] == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(
            milliseconds=stored.store_ms
        )


def _records(count: int, tags: str = "T") -> bytes:
    message = PendingMessage(
        "Orders", 0, 0, 0, 1, encode_host("1.2.3.4", 5), b"body", f"TAGS\x01{tags}".encode()
    )
    return b"".join(
        encode_pending(
            message, queue_offset=at, log_offset=at * 100, store_ms=at, store_host=encode_host("1.1.1.1", 1)
        )
        for at in range(count)
    )


@pytest.mark.parametrize("name", list(COLUMNS))
def test_each_column_can_be_read_alone(name: str) -> None:
    schema = to_arrow_schema(StructType([SCHEMA[name]]), timezone="UTC")
    body = _records(3)
    batch = Decoder(schema).decode(body, record_offsets(body), "Orders", "b")
    whole = Decoder(ALL).decode(body, record_offsets(body), "Orders", "b")
    assert batch.schema.equals(schema)
    assert batch.column(0).equals(whole.column(name))


def test_records_and_tags_can_be_left_out() -> None:
    body = _records(10)
    decoder = Decoder(ALL)
    batch = decoder.decode(
        body, record_offsets(body), "Orders", "b", keep=lambda rows: rows["queue_offset"] >= 7
    )
    assert batch.column("queueOffset").to_pylist() == [7, 8, 9]
    assert decoder.decode(body, record_offsets(body), "Orders", "b", tags=pa.array(["other"])) is None
    assert decoder.decode(body, record_offsets(body), "Orders", "b", tags=pa.array(["T"])).num_rows == 10


def test_damaged_lengths_are_an_error_not_a_wrong_row() -> None:
    body = bytearray(_records(2))
    size = len(body) // 2
    body[size - 7] ^= 1  # the properties' length
    with pytest.raises(BadRecord, match="do not fill the record"):
        Decoder(ALL).decode(body, record_offsets(body), "Orders", "b")


def test_a_schema_with_strange_columns_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="column 'colour' does not exist"):
        check_schema(StructType().add("colour", "string"))
    with pytest.raises(ConfigError, match="column 'body' is binary, not string"):
        check_schema(StructType().add("body", "string"))
    with pytest.raises(ConfigError, match="column 'body' is named twice"):
        check_schema(StructType().add("body", "binary").add("body", "binary"))
    check_schema(StructType().add("body", "binary").add("tags", "string"))
