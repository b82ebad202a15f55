"""docs/clients.md: its Python blocks run as they stand, one after the other, with the names its text speaks of."""

import re
from pathlib import Path
from typing import Any

import pytest

import rocketeer
from rocketeer import ConsumeFromWhere, MessageQueue
from support.cluster import ServerCluster, chosen_make
from support.consuming import make_topic, until_sync

pytestmark = pytest.mark.own_cluster

PAGE = (Path(__file__).parents[2] / "docs" / "clients.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.S | re.M)


class Database:
    """Of the chapter on transactions: `check` finds there what `save_order` wrote."""

    def has_order(self, message_id: str) -> bool:
        raise AssertionError(f"the broker was told of {message_id}, and asks nobody")


@pytest.mark.skipif(chosen_make() == "apache", reason="4.9.8 has no idempotent producers and no timers")
def test_every_block_runs(cluster: ServerCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", cluster.namesrv)
    for topic in ("orders", "reminders"):
        make_topic(cluster, topic)
    with rocketeer.Producer("docs") as producer:
        consumer = rocketeer.PushConsumer(
            "docs-billing", consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
        )
        names: dict[str, Any] = {name: getattr(rocketeer, name) for name in rocketeer.__all__}
        names |= {
            "__name__": "clients",
            "dataclass": __import__("dataclasses").dataclass,
            "producer": producer,
            "consumer": consumer,
            "db": Database(),
            "save_order": lambda transaction: rocketeer.COMMIT,
            "AlreadyBilled": type("AlreadyBilled", (Exception,), {}),
        }
        for block in BLOCKS:
            if "RetryPolicy(" in block:
                consumer.unsubscribe("orders")  # the chapter before listens to it, too
            if "recall(" in block:
                names["producer"] = producer  # the chapters before used up theirs
            exec(compile(block, "docs/clients.md", "exec"), names)
        queues: list[MessageQueue] = producer.queues("orders")
        with rocketeer.PullConsumer("docs-reader") as reader:
            until_sync(lambda: sum(reader.max_offset(queue) for queue in queues) == 3)
    policy = names["policy"]
    assert policy.outcome(ValueError(), 1) == rocketeer.Retry(delay_level=-1)
    assert policy.outcome(names["AlreadyBilled"](), 1) is None


def test_there_is_something_to_run() -> None:
    assert len(BLOCKS) >= 5
