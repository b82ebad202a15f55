"""Real masters and slaves: clients read from a slave when the master says so, and when it is gone."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from rocketeer import Message, Producer, PushConsumer
from rocketeer.bench.control import Control
from rocketeer.protocol.codes import RequestCode, ResponseCode
from support.consuming import FIRST, until_sync
from support.pairs import eventually, pair_at
from support.replicas import Replicas


@pytest.fixture
def replicas(tmp_path: Path) -> Iterator[Replicas]:
    made = Replicas(tmp_path, "ours", "ours", sync=True)
    made.master.start()
    made.slave.start()
    made.wait_until_followed()
    yield made
    made.kill()


def test_with_the_master_gone_consumers_go_on_at_the_slave(replicas: Replicas) -> None:
    nameserver = replicas.master.namesrv
    with Producer("shop", nameserver=nameserver) as producer:
        for number in range(40):
            producer.send(Message("orders", b"%d" % number))
    replicas.wait_until_equal()
    with Control(nameserver) as names:
        ask = partial(names.call, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"})
        until_sync(lambda: ask().code == ResponseCode.SUCCESS, "a route to the new topic")
    replicas.lose_masters_disk()
    seen: set[bytes] = set()
    consumer = PushConsumer("late", nameserver=nameserver, consume_from=FIRST)

    @consumer.subscribe("orders")
    def take(message):  # type: ignore[no-untyped-def]
        seen.add(message.body)

    with consumer:
        until_sync(lambda: len(seen) == 40, timeout_s=60)


@pytest.mark.parametrize("enabled", [True, False])
async def test_a_reader_far_behind_is_sent_to_the_slave_and_back(tmp_path: Path, enabled: bool) -> None:
    far = {"memory_ratio": 0}  # nothing is in memory: whoever is not at the end is far behind
    async with pair_at(
        tmp_path, master=far, slave={"memory_ratio": 100}, broker={"slave_read_enable": enabled}
    ) as (master, slave):
        for number in range(10):
            await master.send("T", b"%d" % number)

        async def served() -> bool:
            return (await slave.pull("T")).code == ResponseCode.SUCCESS

        await eventually(served)
        answer = await master.pull("T", maxMsgNums=2)
        assert answer.ext["suggestWhichBrokerId"] == ("1" if enabled else "0")
        answer = await slave.pull("T", maxMsgNums=2)
        assert answer.ext["suggestWhichBrokerId"] == "0", "near enough for the master"
