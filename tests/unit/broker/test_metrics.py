"""Laws of the metrics: what happened is counted, under RocketMQ's names, and what is gone has no series."""

import asyncio
import contextlib
import gzip
import json
import socket
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rocketeer.config import MetricsExporter, local_address
from rocketeer.errors import PortInUse
from rocketeer.observe.families import BROKER_FAMILIES, EXPORTER_FAMILIES
from rocketeer.protocol.codes import RequestCode, ResponseCode
from support.broker import BrokerUnderTest, broker_at
from support.management_broker import heartbeat
from support.metrics import get, scrape
from support.pairs import eventually, ha_address, slave_at

MANY_PAIRS = 15_000
TRIES = 3


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.asynccontextmanager
async def measured_broker(folder: Path, **broker: Any) -> AsyncIterator[tuple[BrokerUnderTest, int]]:
    port = free_port()
    settings = {"metrics_exporter": MetricsExporter.PROM, "metrics_port": port, **broker}
    async with broker_at(folder, broker=settings) as running:
        yield running, port


async def send_ten(broker: BrokerUnderTest, topic: str = "Sales") -> None:
    for number in range(10):
        answer = await broker.send(topic, b"x" * 1_000, queue_id=number % 2, properties="TAGS\x01A")
        assert answer.code == ResponseCode.SUCCESS


async def commit(broker: BrokerUnderTest, queue_id: int, offset: int, topic: str = "Sales") -> None:
    header = {"consumerGroup": "CG", "topic": topic, "queueId": queue_id, "commitOffset": offset}
    await broker.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header)


async def test_messages_and_bytes_in_and_out_by_topic_and_group(tmp_path: Path) -> None:
    async with measured_broker(tmp_path) as (broker, port):
        await send_ten(broker)
        assert len(await broker.messages("Sales", 0)) == 5
        page = await scrape(port)
        common = {"cluster": "DefaultCluster", "node_type": "broker", "node_id": "broker-a"}
        assert page.value("rocketmq_messages_in_total", topic="Sales", is_system="false", **common) == 10
        size = page.value("rocketmq_throughput_in_total", topic="Sales")
        assert size > 10_000
        out = {"topic": "Sales", "consumer_group": "CG", "is_retry": "false"}
        assert page.value("rocketmq_messages_out_total", **out, **common) == 5
        assert page.value("rocketmq_throughput_out_total", **out) == size / 2
        assert page.value("rocketmq_message_size_bucket", le="4096") == 10
        assert page.value("rocketmq_message_size_sum") == size
        await send_ten(broker)
        assert (await scrape(port)).value("rocketmq_messages_in_total", topic="Sales") == 20


async def test_lag_what_is_in_flight_and_what_is_ready(tmp_path: Path) -> None:
    async with measured_broker(tmp_path, metrics_lag_per_queue=True) as (broker, port):
        await send_ten(broker)
        await broker.pull("Sales", 0, maxMsgNums=4)
        await commit(broker, 0, 1)
        await commit(broker, 1, 5)
        page = await scrape(port)
        pair = {"topic": "Sales", "consumer_group": "CG"}
        assert page.value("rocketmq_consumer_lag_messages", **pair) == 4
        assert page.value("rocketmq_consumer_inflight_messages", **pair) == 3
        assert page.value("rocketmq_consumer_ready_messages", **pair) == 1
        assert 0 < page.value("rocketmq_consumer_lag_latency_milliseconds", **pair) < 60_000
        assert 0 < page.value("rocketmq_consumer_queueing_latency_milliseconds", **pair) < 60_000
        assert page.value("rocketeer_consumer_lag_messages_by_queue", queue_id="0", **pair) == 4
        await commit(broker, 0, 5)
        page = await scrape(port)
        assert page.value("rocketmq_consumer_lag_messages", **pair) == 0
        assert page.value("rocketmq_consumer_lag_latency_milliseconds", **pair) == 0
        assert page.values("rocketeer_consumer_lag_messages_by_queue") == []


async def test_a_deleted_topic_and_a_deleted_group_have_no_series(tmp_path: Path) -> None:
    async with measured_broker(tmp_path) as (broker, port):
        for topic in ("Sales", "Other"):
            await send_ten(broker, topic)
            await broker.pull(topic)
            await commit(broker, 0, 2, topic)
        await broker.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "Sales"})
        for path in ("/metrics", "/metrics/exporter"):
            page = await scrape(port, path)
            assert "Sales" not in page.text
            assert "Other" in page.text
        await broker.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "CG", "removeOffset": "true"})
        for path in ("/metrics", "/metrics/exporter"):
            assert '"CG"' not in (await scrape(port, path)).text


async def test_transactions_timers_connections_and_requests(tmp_path: Path) -> None:
    async with measured_broker(tmp_path) as (broker, port):
        half = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01A1"
        sent = await broker.send("Sales", b"x", properties=half, f=4)
        timed = f"TIMER_DELAY_SEC\x01{3_600}"
        assert (await broker.send("Later", b"x", properties=timed)).code == ResponseCode.SUCCESS
        await broker.ask(RequestCode.HEART_BEAT, body=heartbeat("c1", "G", topic="Sales"))
        page = await scrape(port)
        assert page.value("rocketmq_half_messages", topic="Sales") == 1
        assert page.value("rocketmq_timing_messages") == 1
        assert page.value("rocketmq_timer_enqueue_total") == 1
        assert page.value("rocketmq_delay_message_latency_seconds_bucket", le="3600") == 1
        assert page.value("rocketmq_producer_connections", protocol_type="remoting") == 1
        assert page.value("rocketmq_consumer_connections", consumer_group="G") == 1
        assert page.value(
            "rocketmq_rpc_latency_milliseconds_count",
            request_code="heart_beat", response_code="success", is_long_polling="false",
        ) == 1  # fmt: skip
        offset = int(sent.ext["msgId"][-16:], 16)
        end = {"producerGroup": "PG", "tranStateTableOffset": sent.ext["queueOffset"], "commitLogOffset": offset,
               "commitOrRollback": 8, "fromTransactionCheck": "false", "msgId": "A1"}  # fmt: skip
        await broker.ask(RequestCode.END_TRANSACTION, end)
        page = await scrape(port)
        assert page.value("rocketmq_commit_messages_total", topic="Sales") == 1
        assert page.values("rocketmq_half_messages") == []
        assert page.value("rocketmq_finish_message_latency_milliseconds_count", topic="Sales") == 1


async def test_every_family_is_on_its_page_with_its_kind(tmp_path: Path) -> None:
    async with measured_broker(tmp_path) as (broker, port):
        await send_ten(broker)
        page, exporter = await scrape(port), await scrape(port, "/metrics/exporter")
        for families, scraped in ((BROKER_FAMILIES, page), (EXPORTER_FAMILIES, exporter)):
            for family in families:
                # The parser calls a counter by its name without the ending.
                name = family.name.removesuffix("_total") if family.kind == "counter" else family.name
                assert scraped.families[name] == family.kind, family
        assert page.value("process_resident_memory_bytes") > 1 << 20
        assert page.value("rocketmq_storage_flush_behind_bytes") >= 0
        assert page.value("rocketmq_broker_permission") == 6
        assert 0 < page.value("rocketeer_disk_used_ratio", folder="commitlog") < 1
        assert 0 <= page.value("rocketmq_storage_message_reserve_time_milliseconds") < 60_000
        assert page.value("rocketmq_topic_number") > 5


async def test_codes_that_nobody_knows_are_one_series(tmp_path: Path) -> None:
    async with measured_broker(tmp_path) as (broker, port):
        for number in range(200):
            answer = await broker.ask(70_000 + number, {})
            assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        page = await scrape(port)
        counted = {"request_code": "unknown", "response_code": "request_code_not_supported"}
        assert page.value("rocketmq_rpc_latency_milliseconds_count", **counted) == 200
        assert (
            page.value("rocketmq_rpc_latency_milliseconds_count", response_code="request_code_not_supported")
            == 200
        )


async def test_the_page_in_the_manner_of_the_exporter(tmp_path: Path) -> None:
    async with measured_broker(tmp_path) as (broker, port):
        await send_ten(broker)
        await broker.pull("Sales", 0, maxMsgNums=3)
        await commit(broker, 0, 3)
        page = await scrape(port, "/metrics/exporter")
        topic = {"cluster": "DefaultCluster", "broker": "broker-a", "topic": "Sales"}
        assert page.value("rocketmq_producer_offset", **topic) == 10
        assert page.value("rocketmq_producer_tps", **topic) > 0
        assert page.value("rocketmq_group_diff", group="CG", topic="Sales") == 7
        assert page.value("rocketmq_consumer_offset", group="CG", **topic) == 10
        assert page.value("rocketmq_group_consume_total_offset", group="CG", **topic) == 3
        assert page.value("rocketmq_consumer_tps", group="CG", **topic) > 0
        assert page.value("rocketmq_brokeruntime_putmessage_times_total", brokerHost="broker-a") == 10
        assert page.value("rocketmq_brokeruntime_commitlog_maxoffset") > 10_000
        sums = [page.value(f"rocketmq_brokeruntime_pmdt_{span}") for span in ("0ms", "0to10ms", "10to50ms")]
        assert 0 < sum(sums) <= 10


async def test_dead_letters_are_counted_by_where_they_came_from(tmp_path: Path) -> None:
    async with measured_broker(tmp_path) as (broker, port):
        sent = await broker.send("Sales", b"x")
        back = {
            "offset": int(sent.ext["msgId"][-16:], 16),
            "group": "CG",
            "delayLevel": -1,
            "originTopic": "Sales",
        }
        assert (await broker.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)).code == ResponseCode.SUCCESS
        page = await scrape(port)
        assert page.value("rocketmq_send_to_dlq_messages_total", topic="Sales", consumer_group="CG") == 1


async def test_pages_are_packed_for_those_far_away_and_nothing_else_is_served(tmp_path: Path) -> None:
    async with measured_broker(tmp_path, metrics_host="0.0.0.0") as (_, port):

        def ask(host: str) -> tuple[str | None, bytes]:
            asked = urllib.request.Request(
                f"http://{host}:{port}/metrics", headers={"Accept-Encoding": "gzip"}
            )
            with urllib.request.urlopen(asked, timeout=30) as answer:
                return answer.headers["Content-Encoding"], bytes(answer.read())

        packing, body = await asyncio.to_thread(ask, "127.0.0.1")
        assert packing is None
        assert b"rocketmq_topic_number" in body
        if (host := local_address()) != "127.0.0.1":
            packing, body = await asyncio.to_thread(ask, host)
            assert packing == "gzip"
            assert b"rocketmq_topic_number" in gzip.decompress(body)
        with pytest.raises(urllib.error.HTTPError) as refused:
            await asyncio.to_thread(get, f"http://127.0.0.1:{port}/secrets")
        assert refused.value.code == 404


async def test_a_port_that_is_taken_stops_the_start_and_leaves_nothing(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        settings = {"metrics_exporter": MetricsExporter.PROM, "metrics_port": taken.getsockname()[1]}
        with pytest.raises(PortInUse):
            async with broker_at(tmp_path, broker=settings):
                pass
    async with broker_at(tmp_path) as broker:
        assert (await broker.send("Sales", b"x")).code == ResponseCode.SUCCESS


async def test_several_requests_on_a_connection_and_one_without_a_version_are_answered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with measured_broker(tmp_path) as (_, port):

        def ask(request: bytes) -> bytes:
            with socket.create_connection(("127.0.0.1", port), 30) as sock:
                sock.sendall(request)
                return b"".join(iter(lambda: sock.recv(1 << 16), b""))

        get_one, last = (
            b"GET /metrics HTTP/1.1\r\n\r\n",
            b"GET /nothing HTTP/1.1\r\nConnection: close\r\n\r\n",
        )
        answer = await asyncio.to_thread(ask, get_one + get_one + last)
        assert answer.count(b"HTTP/1.1 200 OK\r\n") == answer.count(b"\n# TYPE rocketmq_topic_number ") == 2
        assert answer.count(b"HTTP/1.1 404 Not Found\r\n") == 1
        assert (await asyncio.to_thread(ask, b"GET /metrics\r\n\r\n")).startswith(b"# HELP ")
    assert "scrape failed" not in caplog.text


async def test_many_scrapers_at_once_share_one_page(tmp_path: Path) -> None:
    async with measured_broker(tmp_path) as (broker, port):
        await send_ten(broker)
        pages = await asyncio.gather(*(scrape(port) for _ in range(8)))
        assert {page.value("rocketmq_messages_in_total", topic="Sales") for page in pages} == {10.0}


async def test_a_master_tells_how_far_its_slaves_are(tmp_path: Path) -> None:
    async with measured_broker(tmp_path / "m") as (master, port):
        assert (await scrape(port)).value("rocketeer_slaves") == 0
        await send_ten(master)
        async with slave_at(tmp_path / "s", ha_address(master)):

            async def caught_up() -> bool:
                page = await scrape(port)
                return page.value("rocketeer_slaves") == 1 and page.value("rocketeer_slave_behind_bytes") == 0

            await eventually(caught_up)


async def test_a_page_of_many_megabytes_never_keeps_the_loop_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the processor's time of the loop's thread, so a busy machine does not count."""
    pairs = {f"SELF_TEST_TOPIC@Group{number}": {"0": 0} for number in range(MANY_PAIRS)}
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": pairs}))
    turns_s: list[float] = []
    run = asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        began_s = time.thread_time()
        run(handle)
        turns_s.append(time.thread_time() - began_s)

    async with measured_broker(tmp_path) as (_, port):
        monkeypatch.setattr(asyncio.Handle, "_run", timed)
        for path in ("/metrics", "/metrics/exporter"):
            # What the system itself may do in the midst of a turn, faults of pages for example, is not in each.
            longest_s = []
            for _ in range(TRIES):
                turns_s.clear()
                page = await asyncio.to_thread(get, f"http://127.0.0.1:{port}{path}")
                assert len(page) > 10_000_000
                assert len(turns_s) > 20, "made in many turns"
                longest_s.append(max(turns_s))
            assert min(longest_s) < 0.012, longest_s
