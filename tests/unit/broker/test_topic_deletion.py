"""A topic that was deleted stays deleted, and one created anew under its name keeps what it got: also after a kill."""

import shutil
from pathlib import Path

import pytest

from rocketeer.config import FlushMode
from rocketeer.protocol.codes import RequestCode
from support.broker import BrokerUnderTest, broker_at


async def bodies(broker: BrokerUnderTest, topic: str) -> list[bytes]:
    return [message.body for queue in range(4) for message in await broker.messages(topic, queue)]


@pytest.mark.parametrize("mode", list(FlushMode))
async def test_delete_create_again_kill(tmp_path: Path, mode: FlushMode) -> None:
    store = {"flush_mode": mode}
    async with broker_at(tmp_path / "store", store=store) as broker:
        for number in range(8):
            await broker.send("T", b"old %d" % number, queue_id=number % 4)
        assert (await broker.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"})).code == 0
        for number in range(3):
            assert (await broker.send("T", b"new %d" % number)).code == 0
        assert await bodies(broker, "T") == [b"new 0", b"new 1", b"new 2"]
        shutil.copytree(
            tmp_path / "store", tmp_path / "copy", ignore=shutil.ignore_patterns("*.tmp")
        )  # as a process that dies now leaves it
    for folder in ("copy", "store"):
        async with broker_at(tmp_path / folder, store=store) as broker:
            assert await bodies(broker, "T") == [b"new 0", b"new 1", b"new 2"]


async def test_a_deleted_topic_is_gone_after_a_kill(tmp_path: Path) -> None:
    async with broker_at(tmp_path / "store") as broker:
        await broker.send("T", b"old")
        assert (await broker.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"})).code == 0
        shutil.copytree(tmp_path / "store", tmp_path / "copy", ignore=shutil.ignore_patterns("*.tmp"))
    async with broker_at(tmp_path / "copy") as broker:
        assert b'"T"' not in (await broker.ask(RequestCode.GET_ALL_TOPIC_CONFIG)).body
        await broker.send("T", b"new")
        assert await bodies(broker, "T") == [b"new"]
