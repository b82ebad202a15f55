"""Log records become messages, in batches, without making the program wait and without breeding more records."""

import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rocketeer import ConfigError, LogHandler, PullConsumer, ReceivedMessage
from support.cluster import ServerCluster
from support.consuming import make_topic, until_sync


@contextmanager
def logger_with(handler: LogHandler, name: str) -> Iterator[logging.Logger]:
    logger = logging.getLogger(name)
    logger.setLevel(logging.DEBUG)
    logger.addHandler(handler)
    try:
        yield logger
    finally:
        logger.removeHandler(handler)
        handler.close()


def stored(cluster: ServerCluster, topic: str) -> list[ReceivedMessage]:
    with PullConsumer("readers", nameserver=cluster.namesrv) as reader:
        return [message for queue in reader.queues(topic) for message in reader.read(queue)]


def test_records_are_messages_with_level_and_logger_and_all_are_there_at_the_end(
    cluster: ServerCluster, topic: str
) -> None:
    make_topic(cluster, topic, queues=1)
    handler = LogHandler(topic, nameserver=cluster.namesrv, level=logging.INFO)
    with logger_with(handler, f"shop.{topic}") as logger:
        logger.debug("not this one")
        logger.warning("sold %d", 7)
        try:
            raise ValueError("no")
        except ValueError:
            logger.exception("failed")
        for number in range(1200):
            logger.info("line %d", number)
    until_sync(lambda: len(stored(cluster, topic)) >= 1202)  # Apache's broker shows messages a little later
    found = stored(cluster, topic)
    assert len(found) == 1202
    assert found[0].text.endswith(f"WARNING shop.{topic} sold 7")
    assert (found[0].tags, found[0].properties["logger"]) == ("WARNING", f"shop.{topic}")
    assert "ValueError: no" in found[1].text
    assert [each.text.rpartition(" ")[2] for each in found[2:]] == [str(number) for number in range(1200)]
    assert len({each.store_ms for each in found}) < 600, "they came in batches"


def test_what_the_client_itself_logs_is_not_sent(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic, queues=1)
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.DEBUG)  # everything the client and asyncio say while they send comes by here
    handler = LogHandler(topic, nameserver=cluster.namesrv, flush_interval_s=0.05)
    root.addHandler(handler)
    try:
        logging.getLogger("rocketeer.client").warning("about itself")
        logging.getLogger("shop").warning("the only one")
        handler.flush(20)
        logging.getLogger("shop").warning("and another")
        handler.flush(20)
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
        handler.close()
    until_sync(lambda: any("and another" in each.text for each in stored(cluster, topic)))
    ours = [each for each in stored(cluster, topic) if each.properties["logger"] != "asyncio"]
    assert [each.text.partition("shop ")[2] for each in ours] == ["the only one", "and another"]


def test_without_a_broker_nobody_waits_and_the_oldest_records_go(
    cluster: ServerCluster, topic: str, capfd: pytest.CaptureFixture[str]
) -> None:
    handler = LogHandler(
        topic,
        nameserver="127.0.0.1:1",
        records_max=10,
        flush_interval_s=0.01,
        call_timeout_s=0.2,
        send_timeout_s=0.2,
    )
    with logger_with(handler, f"away.{topic}") as logger:
        began_s = time.monotonic()
        for number in range(1000):
            logger.info("line %d", number)
        assert time.monotonic() - began_s < 5
        until_sync(lambda: handler.dropped >= 985)
        handler.flush(0.1)
        until_sync(lambda: "log records not sent yet" in capfd.readouterr().err)
        began_s = time.monotonic()
    assert time.monotonic() - began_s < 15, "closing has a limit, too"


def test_how_many_were_dropped_is_told_once_they_can_be_sent(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic, queues=1)
    handler = LogHandler(topic, nameserver=cluster.namesrv, records_max=5, flush_interval_s=30)
    with logger_with(handler, f"many.{topic}") as logger:
        for number in range(12):
            logger.info("line %d", number)
    until_sync(lambda: len(stored(cluster, topic)) >= 6)
    texts = [each.text for each in stored(cluster, topic)]
    assert [text.rpartition(" ")[2] for text in texts[:5]] == ["7", "8", "9", "10", "11"]
    assert texts[5:] == ["7 log records were dropped: too many waited"]


def run_program(source: str, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", source, *arguments], capture_output=True, text=True, timeout=90
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_program_that_ends_at_once_has_sent_what_it_logged(
    cluster: ServerCluster, topic: str, host: str
) -> None:
    make_topic(cluster, topic, queues=1)
    source = """
import logging, sys
from rocketeer import LogHandler
logging.getLogger().addHandler(LogHandler(sys.argv[1], nameserver=sys.argv[2]))
for number in range(3):
    logging.warning("last words %d", number)
"""
    run_program(source, topic, cluster.namesrv.replace("127.0.0.1", host))
    until_sync(lambda: len(stored(cluster, topic)) >= 3)
    assert [each.text.partition("root ")[2] for each in stored(cluster, topic)] == [
        f"last words {number}" for number in range(3)
    ]


def test_a_forked_child_sends_its_own_records_and_not_those_of_its_parent_again(
    cluster: ServerCluster, topic: str
) -> None:
    make_topic(cluster, topic, queues=1)
    source = """
import logging, os, sys
from rocketeer import LogHandler
handler = LogHandler(sys.argv[1], nameserver=sys.argv[2], flush_interval_s=60)
logging.getLogger().addHandler(handler)
logging.warning("sent before")
handler.flush(30)
logging.warning("waits while it forks")
child = os.fork()
if child:
    assert os.waitpid(child, 0)[1] == 0
    logging.warning("of the parent")
else:
    logging.warning("of the child")
"""
    run_program(source, topic, cluster.namesrv)
    until_sync(lambda: len(stored(cluster, topic)) >= 4)
    texts = [each.text.partition("root ")[2] for each in stored(cluster, topic)]
    assert sorted(texts) == ["of the child", "of the parent", "sent before", "waits while it forks"]


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match="records_max 0"):
        LogHandler("T", records_max=0)
    with pytest.raises(ConfigError, match="linger= is no option"):
        LogHandler("T", linger=3)  # type: ignore[call-arg]
