"""Filtering at the broker: subscriptions checked, remembered and forgotten; pulls and held pulls; bits at dispatch."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from rocketeer.broker.features.filtering.bloom_bits import FILTERS_MAX, BloomBits
from rocketeer.broker.features.filtering.filter_data import FilterData, FilterTable
from rocketeer.errors import BadSqlExpression, RequestRefused
from rocketeer.filter.bloom import BloomFilter
from rocketeer.model.subscription import SQL92, ConsumeFromWhere, ConsumeType, MessageModel, Subscription
from rocketeer.protocol.bodies.heartbeat import (
    ClientCheck,
    ConsumerData,
    Heartbeat,
    encode_client_check,
    encode_heartbeat,
)
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command
from rocketeer.record.batch import BatchItem, encode_batch
from rocketeer.steps import finish
from rocketeer.store.consume_queue_ext import ExtUnit
from support.broker import BrokerUnderTest, broker_at
from support.clock import ManualClock
from support.records import split_records
from support.step_times import best_longest_step_ms, longest_step_ms

RED = "color = 'red'"


def heartbeat(*subscriptions: Subscription, group: str = "CG") -> bytes:
    consumer = ConsumerData(
        group, ConsumeType.CONSUME_PASSIVELY, MessageModel.CLUSTERING,
        ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, subscriptions, False,
    )  # fmt: skip
    return encode_heartbeat(Heartbeat("client", ("PG",), (consumer,)))


def register(table: FilterTable, group: str, subscriptions: list[Subscription]) -> BadSqlExpression | None:
    """All steps of it."""
    return finish(table.register(group, subscriptions))


def sql(expression: str, topic: str = "T", version: int = 1) -> Subscription:
    return Subscription(topic, expression, SQL92, version=version)


async def send(broker: BrokerUnderTest, body: str, topic: str = "T", **properties: str) -> None:
    text = "\x02".join(f"{name}\x01{value}" for name, value in properties.items())
    assert (await broker.send(topic, body.encode(), properties=text)).code == 0


async def beat(broker: BrokerUnderTest, *subscriptions: Subscription) -> Command:
    return await broker.ask(RequestCode.HEART_BEAT, body=heartbeat(*subscriptions))


async def pull(broker: BrokerUnderTest, expression: str | None, **ext: Any) -> Command:
    told = {"sysFlag": 0} if expression is None else {"sysFlag": 4, "subscription": expression}
    return await broker.pull("T", **{"expressionType": "SQL92", **told, **ext})


def texts(reply: Command) -> list[str]:
    return [record.body.decode() for record in split_records(reply.body)]


async def test_pulls_get_what_matches_by_their_own_expression_or_the_heartbeats(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as broker:
        for number, color in enumerate(("red", "blue", "red", "green")):
            await send(broker, f"m{number}", color=color, price=str(number))
        assert texts(await pull(broker, RED)) == ["m0", "m2"]
        assert texts(await pull(broker, "price >= 2", queueOffset=1)) == ["m2", "m3"]
        nothing = await pull(broker, "price > 99")
        assert (nothing.code, nothing.remark) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE")
        assert nothing.ext["nextBeginOffset"] == "4"
        missing = await pull(broker, None)
        assert missing.code == ResponseCode.SUBSCRIPTION_NOT_EXIST
        assert (await beat(broker, sql(RED))).code == 0
        assert texts(await pull(broker, None)) == ["m0", "m2"]
        late = await pull(broker, None, subVersion=2)
        assert late.code == ResponseCode.SUBSCRIPTION_NOT_LATEST


async def test_a_bad_expression_is_refused_wherever_it_comes_in(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as broker:
        await send(broker, "m0", color="red")
        check = encode_client_check(ClientCheck("client", "CG", sql("color = = 'red'")))
        for reply in (
            await broker.ask(RequestCode.CHECK_CLIENT_CONFIG, body=check),
            await beat(broker, sql("color = = 'red'")),
            await pull(broker, "color = = 'red'"),
        ):
            assert reply.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
            assert reply.remark is not None
            assert "position 9" in reply.remark
        answer = await pull(broker, None)
        assert answer.code == ResponseCode.FILTER_DATA_NOT_EXIST
        assert answer.remark == "The broker's consumer filter data is not exist!Your expression may be wrong!"
        unknown = encode_client_check(ClientCheck("client", "CG", Subscription("T", "*", "NOPE")))
        reply = await broker.ask(RequestCode.CHECK_CLIENT_CONFIG, body=unknown)
        assert reply.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
        fine = encode_client_check(ClientCheck("client", "CG", sql("color = 'red'")))
        assert (await broker.ask(RequestCode.CHECK_CLIENT_CONFIG, body=fine)).code == 0
        huge = "(" * 160 + "a = 1" + " OR b = 2)" * 160
        assert (await pull(broker, huge)).code in (0, ResponseCode.PULL_RETRY_IMMEDIATELY)
        too_long = await pull(broker, "a = 1 OR " * 10_000 + "a = 2")
        assert too_long.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


async def test_one_bad_expression_costs_a_client_no_other_topic(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as broker:
        await send(broker, "m0", color="red")
        reply = await beat(broker, sql("oops =", topic="Other"), sql(RED))
        assert reply.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
        assert texts(await pull(broker, None)) == ["m0"]


async def test_a_held_pull_wakes_for_matching_messages_only(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as broker:
        await send(broker, "first", color="blue")
        held = asyncio.ensure_future(pull(broker, RED, queueOffset=1, sysFlag=6, suspendTimeoutMillis=15_000))
        await asyncio.sleep(0.2)
        for number in range(50):
            await send(broker, f"m{number}", color="blue")
        assert not held.done()
        await send(broker, "wanted", color="red")
        assert texts(await held) == ["wanted"]


@pytest.mark.parametrize(("kind", "expression"), [("SQL92", RED), ("TAG", "red")])
async def test_a_held_pull_finds_what_came_behind_more_than_one_look_takes_in(
    tmp_path: Path, kind: str, expression: str
) -> None:
    async with broker_at(
        tmp_path, store={"segment_bytes": 8 << 20, "consume_queue_bytes": 20 * 20_000}
    ) as broker:
        await send(broker, "first", color="blue")
        ext = {"queueOffset": 1, "sysFlag": 6, "suspendTimeoutMillis": 15_000, "expressionType": kind}
        held = asyncio.ensure_future(pull(broker, expression, **ext))
        await asyncio.sleep(0.2)
        items = [BatchItem(0, b"x", b"color\x01blue\x02TAGS\x01blue")] * 1_500
        for _ in range(6):
            assert (await broker.send("T", encode_batch(items), m="true", i="")).code == 0
        wanted = [BatchItem(0, b"wanted", b"color\x01red\x02TAGS\x01red")]
        assert (await broker.send("T", encode_batch(wanted), m="true", i="")).code == 0
        reply = await held
        while not texts(reply):  # after some looks it is the client's turn again
            reply = await pull(broker, expression, **{**ext, "queueOffset": reply.ext["nextBeginOffset"]})
        assert texts(reply) == ["wanted"]


async def test_without_property_filters_sql_is_refused_with_rocketmqs_words(tmp_path: Path) -> None:
    async with broker_at(tmp_path, broker={"property_filter_enable": False}) as broker:
        await send(broker, "m0", color="red")
        check = encode_client_check(ClientCheck("client", "CG", sql(RED)))
        assert (await beat(broker, sql(RED))).code == 0
        for reply in (
            await broker.ask(RequestCode.CHECK_CLIENT_CONFIG, body=check),
            await pull(broker, RED),
            await pull(broker, None),
        ):
            assert (reply.code, reply.remark) == (
                ResponseCode.SYSTEM_ERROR,
                "The broker does not support consumer to filter message by SQL92",
            )


@pytest.mark.parametrize("retries", [True, False])
async def test_retries_match_the_expression_of_their_topic_when_that_is_wanted(
    tmp_path: Path, retries: bool
) -> None:
    async with broker_at(tmp_path, broker={"filter_retry_enable": retries}) as broker:
        await beat(broker, sql(RED), Subscription("%RETRY%CG"))
        for color in ("red", "blue"):
            await send(broker, color, topic="%RETRY%CG", color=color, RETRY_TOPIC="T")
        await send(broker, "other", topic="%RETRY%CG", RETRY_TOPIC="Unfiltered")
        reply = await broker.pull("%RETRY%CG", sysFlag=0)
        assert texts(reply) == (["red", "other"] if retries else ["red", "blue", "other"])


async def test_filters_and_their_bits_outlive_a_restart(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "store": {"queue_extension_enable": True},
        "broker": {"filter_bitmap_enable": True},
    }
    async with broker_at(tmp_path, **settings) as broker:
        await beat(broker, sql(RED))
        await asyncio.sleep(0.01)  # messages of the same millisecond count as older than the filter
        for color in ("red", "blue"):
            await send(broker, color, color=color)
        assert texts(await pull(broker, None)) == ["red"]
    saved = json.loads((tmp_path / "config" / "consumerFilter.json").read_text())
    data = saved["filterDataByTopic"]["T"]["groupFilterData"]["CG"]
    assert (data["expression"], data["expressionType"], data["dead"]) == (RED, "SQL92", True)
    raw = (tmp_path / "consumequeue_ext" / "T" / "0" / f"{0:020d}").read_bytes()
    mask = sum({1 << position for position in data["bloomFilterData"]["bitPos"]})
    assert int.from_bytes(raw[20:34], "little") == mask
    assert int.from_bytes(raw[54:68], "little") == 0
    async with broker_at(tmp_path, **settings) as broker:
        assert (await pull(broker, None)).code == ResponseCode.SUBSCRIPTION_NOT_EXIST
        await beat(broker, sql(RED))
        assert texts(await pull(broker, None)) == ["red"]


# --- the table -------------------------------------------------------------------------------


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def table(clock: ManualClock) -> FilterTable:
    return FilterTable(BloomFilter(20, 32), clock, keep_dead_ms=86_400_000)


def test_the_newest_version_of_an_expression_counts(table: FilterTable, clock: ManualClock) -> None:
    assert register(table, "G", [sql("a = 1", version=5)]) is None
    assert table.take_dirty()
    first = table.get("T", "G")
    assert first is not None
    clock.advance(ms=10)
    register(table, "G", [sql("a = 2", version=4)])
    assert table.get("T", "G") is first, "a member that lags behind"
    register(table, "G", [sql("a = 1", version=6)])
    assert table.get("T", "G") is first, "nothing changed but the version"
    assert first.client_version == 6
    register(table, "G", [sql("a = 2", version=7)])
    second = table.get("T", "G")
    assert second is not None
    assert (second.expression, second.born_ms) == ("a = 2", first.born_ms + 10)
    bad = register(table, "G", [sql("a = ", version=8)])
    assert bad is not None
    assert table.get("T", "G") is None, "rather none than one nobody wants any more"


def test_all_expressions_together_are_bounded(clock: ManualClock) -> None:
    table = FilterTable(BloomFilter(20, 32), clock, keep_dead_ms=1_000, chars_max=215)
    register(table, "G", [sql("a = 1", version=1)])
    register(table, "G", [sql("a = 2", version=2)])  # in place of the first
    register(table, "H", [sql("a = 1", topic="U")])
    with pytest.raises(RequestRefused, match="limitFilterChars"):
        register(table, "I", [sql("a = 1")])
    table.unregister("H")
    clock.advance(ms=1_000)
    told = table.encode()
    assert register(table, "I", [sql("a = 1")]) is None
    again = FilterTable(BloomFilter(20, 32), clock, keep_dead_ms=1_000)
    again.decode(told)
    assert [(data.topic, data.group, data.expression) for data in again] == [("T", "G", "a = 2")]


def test_names_of_topics_and_groups_count_as_well(clock: ManualClock) -> None:
    table = FilterTable(BloomFilter(20, 32), clock, keep_dead_ms=1_000, chars_max=300)
    with pytest.raises(RequestRefused, match="limitFilterChars"):
        register(table, "G" * 100, [sql("a = 1", topic="T" * 100)])
    assert register(table, "G" * 100, [sql("a = 1", topic="T" * 90)]) is None


def test_a_group_that_left_is_kept_for_a_day(table: FilterTable, clock: ManualClock) -> None:
    register(table, "G", [sql("a = 1"), sql("b = 1", topic="U")])
    register(table, "H", [sql("a = 2")])
    register(table, "G", [sql("a = 1")])  # no longer to U
    gone = table.get("U", "G")
    assert gone is not None
    assert gone.is_dead
    table.unregister("G")
    dead = table.get("T", "G")
    assert dead is not None
    assert dead.is_dead
    clock.advance(ms=86_399_999)
    register(table, "G", [sql("a = 1")])
    assert not dead.is_dead
    table.unregister("G")
    clock.advance(ms=1)
    assert "U" not in json.loads(table.encode())["filterDataByTopic"]
    assert table.get("T", "G") is dead
    clock.advance(ms=86_400_000)
    finish(table.refresh())
    assert [data.group for data in table] == ["H"]


def test_a_file_written_for_other_bloom_filters_is_forgotten(table: FilterTable, clock: ManualClock) -> None:
    register(table, "G", [sql("a = 1")])
    other = FilterTable(BloomFilter(10, 64), clock, keep_dead_ms=1)
    other.decode(table.encode())
    assert list(other) == []
    same = FilterTable(BloomFilter(20, 32), clock, keep_dead_ms=1 << 40)
    same.decode(table.encode())
    (data,) = same
    assert data.is_dead, "nobody is connected yet"
    same.decode(table.encode().replace("a = 1", "a = = 1"))
    assert list(same) == []


def test_filters_whose_groups_left_long_ago_are_forgotten_in_steps() -> None:
    clock = ManualClock()
    table = FilterTable(BloomFilter(20, 32), clock, keep_dead_ms=1_000)
    for number in range(100):
        register(table, f"G{number}", [sql("a = 1", topic=f"T{number % 10}")])
        table.unregister(f"G{number}")
    clock.advance(ms=1_000)
    left = 100
    for _ in table.refresh():
        assert left - len(list(table)) <= 1
        left = len(list(table))
    assert left == 0
    assert json.loads(table.encode())["filterDataByTopic"] == {}


@pytest.mark.parametrize(("expression", "kept"), [("a = 22", "a = 22"), ("a = ", None)])
def test_a_group_that_is_back_while_others_are_forgotten_keeps_what_it_wants_now(
    table: FilterTable, clock: ManualClock, expression: str, kept: str | None
) -> None:
    for group in ("G", "H", "I"):
        register(table, group, [sql("a = 1")])
        table.unregister(group)
    clock.advance(ms=86_400_000)
    steps = table.refresh()
    next(steps)
    (before, _) = table
    register(table, before.group, [sql(expression, version=2)])
    finish(steps)
    assert [data.expression for data in table] == ([] if kept is None else [kept])
    assert table._chars == sum(data.chars for data in table)


def told(table: FilterTable) -> dict[str, str]:
    """What the file says: the group's expression by topic."""
    topics = json.loads(table.table_text().whole())["filterDataByTopic"]
    return {topic: text["groupFilterData"]["G"]["expression"] for topic, text in topics.items()}


@pytest.mark.parametrize("steps_done", range(6))
def test_what_was_being_made_when_the_broker_stopped_is_saved_all_the_same(
    table: FilterTable, steps_done: int
) -> None:
    topics = ("T", "U")
    for version in (1, 2):
        register(table, "G", [sql(f"a = {version}", topic, version) for topic in topics])
        if version == 1:
            table.encode()
    broken_off = table.refresh()
    for _ in range(steps_done):
        next(broken_off, None)
    for close in (lambda: None, broken_off.close):  # the slices may end it late
        close()
        finish(table.refresh())
        assert told(table) == {"T": "a = 2", "U": "a = 2"}


def test_filters_that_change_all_the_time_are_saved_all_the_same(table: FilterTable) -> None:
    register(table, "G", [sql("a = 1")])
    steps = table.refresh()
    for version in range(2, 100):
        if next(steps, "done") == "done":
            break
        register(table, "G", [sql(f"a = {version}", version=version)])
    else:
        raise AssertionError("the pass does not end")
    assert told(table).keys() == {"T"}
    assert table.take_dirty()
    finish(table.refresh())
    assert told(table) == {"T": f"a = {version - 1}"}


class TickingClock(ManualClock):
    """Every look at it takes 10 µs."""

    def monotonic_s(self) -> float:
        self.ticks = getattr(self, "ticks", 0) + 1
        return super().monotonic_s() + self.ticks * 1e-5


def filters_of(topic: str, *expressions: str) -> list[FilterData]:
    table = FilterTable(BloomFilter(20, 32), ManualClock(), keep_dead_ms=1)
    for number, expression in enumerate(expressions):
        register(table, f"G{number}", [sql(expression, topic)])
    return list(table.of_topic(topic))


def bits_of(bits: BloomBits, filters: list[FilterData], properties: bytes) -> bytes:
    return bits.of(filters, properties) if bits.has_time_for(filters) else b""


def test_bits_are_worked_out_for_a_share_of_the_time_and_messages_without_them_may_match() -> None:
    """3,000 filters of a topic held up everybody for 8 ms a message, 2,000 messages together for 2.7 s."""
    clock = TickingClock()
    bits = BloomBits(clock, bits_bytes=14)
    filters = filters_of("T", *["a = 1"] * 10)
    told = [bits_of(bits, filters, b"a\x011") for _ in range(1_000)]
    wanted = BloomFilter(20, 32).union(data.bloom for data in filters)
    assert set(told) == {wanted, b""}
    assert told[0] == wanted
    assert 5 < told.count(wanted) < 20, "a tenth of 11 ms"
    assert all(data.may_match(ExtUnit(0, 1 << 60, each)) for data in filters for each in told)
    clock.advance(ms=1_000)
    assert bits_of(bits, filters, b"a\x011") == wanted
    assert not any(bits_of(bits, filters, b"a\x012"))


def test_bits_of_very_many_filters_are_not_worked_out_and_those_of_a_costly_one_are_set() -> None:
    bits = BloomBits(ManualClock(), bits_bytes=14)
    cheap, costly = "a = 1", " OR ".join(f"a = {number}" for number in range(2, 100))
    few = filters_of("T", cheap, costly)
    long = b"\x02b\x01" + b"b" * 5_000
    assert bits_of(bits, few, b"a\x019999") == bytes(14)
    assert bits_of(bits, few, b"a\x019999" + long) == BloomFilter(20, 32).union([few[1].bloom])
    assert bits_of(bits, few, b"a\x011" + long) == BloomFilter(20, 32).union(data.bloom for data in few)
    many = filters_of("T", *[cheap] * (FILTERS_MAX + 1))
    assert bits_of(bits, many, b"a\x011") == b""
    assert bits_of(bits, many[1:], b"a\x011") != b""
    assert bits_of(bits, [], b"a\x011") == b""


MANY = 36_000
"""There is room for no more (limitFilterChars)."""


def test_no_step_is_long_however_many_filters_a_topic_has(table: FilterTable) -> None:
    for number in range(MANY):
        register(table, f"G{number}", [sql("a=1")])
    assert longest_step_ms(table.refresh()) < 5
    assert best_longest_step_ms(table.refresh) < 3, "nothing is to be made, and all are looked at"
    assert best_longest_step_ms(lambda: table.table_text().joining()) < 3
    topics = json.loads(table.table_text().whole())["filterDataByTopic"]
    assert topics.keys() == {"T"}
    assert len(topics["T"]["groupFilterData"]) == MANY
    assert topics["T"]["topic"] == "T"


def test_no_step_is_long_however_many_topics_a_group_has_filtered(table: FilterTable) -> None:
    for number in range(0, MANY, 3_000):
        register(table, "G", [sql("a=1", topic=f"T{number + each}") for each in range(3_000)])
    assert longest_step_ms(table.register("G", [sql("a=1", topic="T1")])) < 5
    assert [data.topic for data in table if not data.is_dead] == ["T1"]
