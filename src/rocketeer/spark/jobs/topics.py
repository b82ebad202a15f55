"""What a job could read, asked before it starts: from the name server or a store's files."""

from collections.abc import Mapping
from contextlib import closing

from rocketeer.client.core.nameservers import NameServers
from rocketeer.client.discovery import discover
from rocketeer.client.plans.routes import fetch_topics
from rocketeer.client.sync.driver import BlockingDriver
from rocketeer.model.queue import MessageQueue
from rocketeer.spark.source.options import parse_options
from rocketeer.spark.source.reading import open_view


def all_topics(options: Mapping[str, str]) -> set[str]:
    """Every topic, the system's too; `options` are the source's, without the choice of topics."""
    parsed = parse_options({**options, "subscribePattern": ".*"}, streaming=False)
    if parsed.store_path is not None:
        with closing(open_view(parsed)) as view:
            return {queue.topic for queue in view.queues()}
    with closing(BlockingDriver(parsed.security())) as driver:
        nameservers = NameServers(discover(parsed.nameserver))
        return driver.run(fetch_topics(nameservers, parsed.request_timeout_ms / 1000))


def stream_queues(options: Mapping[str, str]) -> set[MessageQueue]:
    """What a stream with these options would begin to read; raises what it would fail with, but at once."""
    with closing(open_view(parse_options(options, streaming=True))) as view:
        return set(view.queues())
