"""Broadcasting: every member gets every message, and keeps its own offsets in a file."""

from pathlib import Path

import pytest

from rocketeer.client.aio.push_consumer import PushConsumer
from rocketeer.client.core.outcome import RETRY, Retry
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.model.subscription import MessageModel
from support.cluster import ServerCluster
from support.consuming import make_topic, names, options, send, until


def member(cluster: ServerCluster, topic: str, folder: Path | str, name: str, got: list[str]) -> PushConsumer:
    consumer = PushConsumer(
        f"G-{topic}",
        message_model=MessageModel.BROADCASTING,
        instance_name=name,
        offset_folder=folder,
        **options(cluster),
    )
    consumer.subscribe(topic, lambda message: got.append(message.text))
    return consumer


async def test_every_member_gets_every_message(cluster: ServerCluster, topic: str, tmp_path: Path) -> None:
    make_topic(cluster, topic)
    await send(cluster, topic, names(20))
    one: list[str] = []
    two: list[str] = []
    async with member(cluster, topic, tmp_path, "one", one), member(cluster, topic, tmp_path, "two", two):
        await until(lambda: len(one) == len(two) == 20)
    assert sorted(one) == sorted(two) == sorted(names(20))


@pytest.mark.parametrize("kind", [Path, str])
async def test_each_goes_on_where_its_own_file_says(
    cluster: ServerCluster, topic: str, tmp_path: Path, kind: type
) -> None:
    folder = kind(tmp_path)
    make_topic(cluster, topic)
    got: list[str] = []
    await send(cluster, topic, names(8))
    async with member(cluster, topic, folder, "one", got) as consumer:
        await until(lambda: len(got) == 8)
        client_id = consumer.client_id
    assert client_id.endswith("@one")
    file = tmp_path / client_id / f"G-{topic}" / "offsets.json"
    assert f'"topic":"{topic}"' in file.read_text().replace('\\\\"', '"')

    await send(cluster, topic, names(8, "new"))
    async with member(cluster, topic, folder, "one", got):
        await until(lambda: len(got) == 16)
    assert sorted(got) == sorted(names(8) + names(8, "new"))


async def test_the_default_name_keeps_its_file_from_start_to_start(
    cluster: ServerCluster, topic: str, tmp_path: Path
) -> None:
    make_topic(cluster, topic, queues=1)
    await send(cluster, topic, names(2))
    got: list[str] = []
    async with member(cluster, topic, tmp_path, "DEFAULT", got) as consumer:
        assert consumer.client_id.endswith("@DEFAULT")
        await until(lambda: len(got) == 2)
    async with member(cluster, topic, tmp_path, "DEFAULT", got):
        await send(cluster, topic, ["third"])
        await until(lambda: len(got) == 3)
    assert sorted(got) == ["m0", "m1", "third"]


async def test_a_message_that_fails_is_not_sent_back(
    cluster: ServerCluster, topic: str, tmp_path: Path
) -> None:
    make_topic(cluster, topic, queues=1)
    await send(cluster, topic, names(3))
    tries: list[str] = []
    consumer = member(cluster, topic, tmp_path, "one", [])

    @consumer.subscribe(topic, replace=True)
    async def take(message: ReceivedMessage) -> Retry:
        tries.append(message.text)
        return RETRY

    async with consumer:
        await until(lambda: len(tries) == 3)
        assert {queue.topic for queue in consumer.queues} == {topic}, "no retry topic"
        held = consumer._running.assigned.held()  # type: ignore[union-attr]
        await until(lambda: held[0].commit_offset == 3)


async def test_ordered_broadcasting_needs_no_locks(
    cluster: ServerCluster, topic: str, tmp_path: Path
) -> None:
    make_topic(cluster, topic, queues=1)
    await send(cluster, topic, names(30))
    seen: dict[str, list[str]] = {"one": [], "two": []}
    consumers = [
        PushConsumer(
            f"G-{topic}",
            orderly=True,
            message_model=MessageModel.BROADCASTING,
            instance_name=name,
            offset_folder=tmp_path,
            **options(cluster),
        )
        for name in seen
    ]
    for name, consumer in zip(seen, consumers, strict=True):
        consumer.subscribe(topic, lambda message, name=name: seen[name].append(message.text))
        await consumer.start()
    await until(lambda: len(seen["one"]) == len(seen["two"]) == 30)
    for consumer in consumers:
        await consumer.close()
    assert seen == {"one": names(30), "two": names(30)}
