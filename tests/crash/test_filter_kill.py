"""kill -9 of a broker that filters: units and the table of filters are readable, and nobody misses a message for it."""

import asyncio
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketeer.aio import Message, Producer, PullConsumer, PushConsumer
from rocketeer.errors import RocketeerError
from rocketeer.store.consume_queue_ext import ConsumeQueueExt, is_address
from rocketeer.store.file_cache import FileCache
from support.cluster import ServerCluster, running_cluster
from support.consuming import make_topic, options, until

ROUNDS = int(os.environ.get("ROUNDS", "3"))
SEED = int(os.environ.get("SEED", "1"))
TOPIC, GROUP = "Filtered", "CG"
WANTED = "number > 10 AND color = 'red'"
UNIT_FILE_BYTES = 8192

CONF = {
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 500 * 20,
    "flushConsumeQueueThoroughInterval": 700,
    "flushConsumerOffsetInterval": 200,
    "enableConsumeQueueExt": "true",
    "enableCalcFilterBitMap": "true",
    "mappedFileSizeConsumeQueueExt": UNIT_FILE_BYTES,
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ServerCluster]:
    with running_cluster(tmp_path, conf=CONF) as running:
        yield running


async def _send_until(stop: asyncio.Event, cluster: ServerCluster, acked: list[int], sent: list[int]) -> None:
    async with Producer("PG", nameserver=cluster.namesrv, send_timeout_s=2.0) as producer:
        while not stop.is_set():
            number = len(sent)
            sent.append(number)
            properties = {"number": str(number), "color": "red" if number % 3 == 0 else "blue"}
            try:
                await producer.send(Message(TOPIC, b"%d" % number, properties=properties))
            except RocketeerError:
                await asyncio.sleep(0.05)
                continue
            acked.append(number)


async def _more(acked: list[int], count: int) -> None:
    enough = len(acked) + count
    await until(lambda: len(acked) >= enough)


@pytest.mark.timeout(180)
async def test_filters_survive_kill_9(cluster: ServerCluster) -> None:
    chance = random.Random(SEED)
    (queue, other) = make_topic(cluster, TOPIC, queues=2)
    got: set[int] = set()
    consumer = PushConsumer(GROUP, **options(cluster))
    consumer.subscribe(TOPIC, lambda message: got.add(int(message.text)), sql=WANTED)
    acked: list[int] = []
    sent: list[int] = []
    stop = asyncio.Event()
    seen = 0
    async with consumer:
        sending = asyncio.create_task(_send_until(stop, cluster, acked, sent))
        for _ in range(ROUNDS):
            await _more(acked, 200)
            await asyncio.sleep(chance.random() * 0.5)
            await asyncio.to_thread(cluster.kill_broker)
            seen += _readable_units(cluster.store)
            await asyncio.to_thread(cluster.start_broker)
        await _more(acked, 200)
        stop.set()
        await sending
        wanted = {number for number in acked if number > 10 and number % 3 == 0}
        await until(lambda: wanted <= got, "every acknowledged message that matches")
    assert all(number > 10 and number % 3 == 0 for number in got)
    async with PullConsumer("reader", nameserver=cluster.namesrv) as reader:
        read = {int(m.text) for q in (queue, other) async for m in reader.read(q, sql=WANTED)}
    assert wanted <= read <= set(sent)
    assert seen


def _readable_units(store: Path) -> int:
    """What a dead broker left: whole JSON, and a unit for every address that the queues hold; how many."""
    table = store / "config" / "consumerFilter.json"
    if table.exists():
        groups = json.loads(table.read_text())["filterDataByTopic"][TOPIC]["groupFilterData"]
        assert groups[GROUP]["expression"] == WANTED
    files = FileCache()
    seen = 0
    for folder in (store / "consumequeue").glob(f"{TOPIC}/*"):  # none, if it died before the first write-out
        units = ConsumeQueueExt(store / "consumequeue_ext" / TOPIC / folder.name, UNIT_FILE_BYTES, files)
        for path in sorted(folder.iterdir()):
            raw = path.read_bytes()
            for at in range(0, len(raw), 20):
                code = int.from_bytes(raw[at + 12 : at + 20], "big", signed=True)
                if is_address(code):
                    assert units.read(code) is not None
                    seen += 1
    files.close()
    return seen
