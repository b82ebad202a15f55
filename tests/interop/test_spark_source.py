"""The Spark source's pulls against Apache's broker: it knows nothing of our larger replies, so 32 at a time."""

from pathlib import Path

import pytest

from rocketeer import Message, Producer
from rocketeer.spark.source.brokers import BrokersView
from rocketeer.spark.source.fetch import fetch_range
from rocketeer.spark.source.options import parse_options
from rocketeer.spark.source.planning import QueueRange
from rocketeer.spark.source.pulls import PullTerms
from support.cluster import chosen_make, running_cluster
from support.records import split_records

pytestmark = pytest.mark.interop

COUNT = 1000


def test_every_message_comes_once_and_in_order(tmp_path: Path) -> None:
    with running_cluster(tmp_path, peer=chosen_make()) as cluster:
        with Producer("P", nameserver=cluster.namesrv) as producer:
            queue = producer.send(Message("Capped", b"0")).queue
            for number in range(1, COUNT):
                body = b"%d " % number + b"x" * (20_000 if number % 50 == 0 else 10)
                producer.send(Message("Capped", body, tags="even" if number % 2 == 0 else "odd"), queue=queue)
        for given, wanted in (({}, list(range(COUNT))), ({"tags": "even"}, list(range(2, COUNT, 2)))):
            options = parse_options(
                {"nameserver": cluster.namesrv, "subscribe": "Capped", **given}, streaming=False
            )
            view = BrokersView(options)
            assert queue in view.queues()
            assert view.highs([queue]) == {queue: COUNT}
            whole = QueueRange(queue, 0, COUNT)
            found = [
                record.queue_offset
                for body in fetch_range(PullTerms.of(options), whole, view.place(whole))
                for record in split_records(bytes(body))
            ]
            assert found == wanted
            view.close()
