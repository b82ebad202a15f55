"""docs/migrating.md: its programs run as they stand, and its words exist."""

import asyncio
import inspect
import logging
import re
import time
from pathlib import Path
from typing import Any

import pytest

import rocketeer
from rocketeer.client.apps.settings import read_file
from support.cluster import ServerCluster
from support.consuming import make_topic, until

pytestmark = pytest.mark.own_cluster

PAGE = (Path(__file__).parents[2] / "docs" / "migrating.md").read_text()
CHAPTERS = dict(
    zip(
        re.findall(r"^## From (\S+)", PAGE, re.M), re.findall(r"```python\n(.*?)```", PAGE, re.S), strict=True
    )
)


def ran(cluster: ServerCluster, chapter: str, *topics: str) -> dict[str, Any]:
    for topic in topics:
        make_topic(cluster, topic)
    names: dict[str, Any] = {"nameserver": cluster.namesrv, "time": time, "__name__": "migrating"}
    exec(compile(CHAPTERS[chapter], f"migrating.md: {chapter}", "exec"), names)
    return names


def test_every_chapter_has_its_program() -> None:
    assert list(CHAPTERS) == ["kafka-python", "aiokafka", "Celery", "rocketmq-client-python"]


def test_kafka_python(cluster: ServerCluster) -> None:
    names = ran(cluster, "kafka-python", "kafka-orders")
    assert sorted(message.text for message in names["found"]) == ['{"id":7}', '{"id":8}']


def test_aiokafka(cluster: ServerCluster) -> None:
    names = ran(cluster, "aiokafka", "aio-orders")
    assert sorted(order["id"] for order in names["orders"]) == list(range(100))


def test_celery(cluster: ServerCluster) -> None:
    names = ran(cluster, "Celery", "celery-bill")
    app: rocketeer.App = names["app"]

    async def main() -> None:
        async with app:
            await until(lambda: len(names["billed"]) >= 2)

    asyncio.run(main())
    assert names["billed"] == [7, 7]


def test_rocketmq_client_python(cluster: ServerCluster) -> None:
    names = ran(cluster, "rocketmq-client-python", "py-orders")
    assert (names["result"].message_id, "created", ["42"], b"7") in names["seen"]
    assert sorted(body for *_, body in names["seen"]) == [b"7", b"8", b"9"]


@pytest.mark.parametrize("word", sorted(set(re.findall(r"`(\w+)=", PAGE.partition("## From")[0]))))
def test_options_in_the_table_exist_somewhere(word: str) -> None:
    theirs = {"value_serializer", "auto_offset_reset", "countdown", "eta", "headers", "key"}
    known = {
        *rocketeer.ProducerOptions.__annotations__,
        *rocketeer.ConsumerOptions.__annotations__,
        *inspect.signature(rocketeer.Message).parameters,
        "codec",
    }
    assert word in known | theirs


def test_the_blocks_of_the_page_on_apps_run_too(cluster: ServerCluster) -> None:
    page = (Path(__file__).parents[2] / "docs" / "apps.md").read_text()
    session = type("Session", (), {"__enter__": lambda self: self, "__exit__": lambda self, *error: None})
    names: dict[str, Any] = {"Session": session, "Payment": dict, "asyncio": asyncio, "__name__": "apps"}
    handlers = list(logging.getLogger().handlers)
    try:
        for block in re.findall(r"```python\n(.*?)```", page, re.S):
            exec(compile(block.replace("127.0.0.1:9876", cluster.namesrv), "apps.md", "exec"), names)
    finally:
        for handler in set(logging.getLogger().handlers) - set(handlers):
            logging.getLogger().removeHandler(handler)
            handler.close()
    assert names["app"].topics == (), "the last app of the page has middlewares, and no listener yet"


def test_the_file_on_the_page_is_one_that_apps_take(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "apps.md").read_text()
    (block,) = re.findall(r"```yaml\n(.*?)```", page, re.S)
    (tmp_path / "app.yml").write_text(block)
    settings = read_file(tmp_path / "app.yml", ("prod",))
    assert (settings.options["nameserver"], settings.options["concurrency"]) == ("mq-1:9876;mq-2:9876", 8)
    assert settings.groups == {"billing": {"concurrency": 2}}
