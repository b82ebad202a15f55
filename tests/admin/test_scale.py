"""A thousand topics and 2,500 groups on two brokers: lists come in seconds and in bounded memory.

`pytest -s tests/admin/test_scale.py` prints how long each took.
"""

import json
import resource
import time
from collections.abc import Callable, Iterator, Sized
from pathlib import Path

import pytest

from rocketeer import Admin, SubscriptionGroup, TopicConfig
from rocketeer.model.data_version import DataVersion
from support.tables import encode_group_table, encode_topic_table
from support.two_brokers import TwoBrokers, two_brokers

TOPICS, GROUPS, QUEUES = 1000, 2500, 4
VERSION = DataVersion(1, 1)


def place_tables(store: Path) -> None:
    """What the brokers would have after a while of all these topics and groups."""
    config = store / "config"
    config.mkdir(parents=True)
    topics = {name: TopicConfig(name, QUEUES, QUEUES) for name in (f"topic-{n}" for n in range(TOPICS))}
    topics |= {name: TopicConfig(name, 1, 1) for name in (f"%RETRY%group-{n}" for n in range(GROUPS))}
    groups = {name: SubscriptionGroup(name) for name in (f"group-{n}" for n in range(GROUPS))}
    offsets = {f"topic-{n % TOPICS}@group-{n}": {str(q): 0 for q in range(QUEUES)} for n in range(GROUPS)}
    (config / "topics.json").write_bytes(encode_topic_table(topics, VERSION))
    (config / "subscriptionGroup.json").write_bytes(encode_group_table(groups, VERSION))
    (config / "consumerOffset.json").write_text(json.dumps({"offsetTable": offsets}))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoBrokers]:
    folder = tmp_path_factory.mktemp("large")
    for store in ("store", "store-b"):
        place_tables(folder / store)
    with two_brokers(folder) as running:
        yield running


def timed(what: str, task: Callable[[], Sized]) -> Sized:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started_s = time.monotonic()
    found = task()
    took_s = time.monotonic() - started_s
    grown_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"{what}: {len(found)} in {took_s:.2f} s, {grown_mib:.0f} MiB more at most")
    assert took_s < 60, "seconds on a machine that has nothing else to do"
    assert grown_mib < 100
    return found


def test_lists_of_a_thousand_topics_and_2500_groups_come_whole(large: TwoBrokers) -> None:
    with Admin(large.namesrv, timeout_s=20) as admin:
        topics = timed("topics", admin.topics)
        assert {f"topic-{n}" for n in range(TOPICS)} <= set(topics)  # type: ignore[call-overload]
        groups = timed("groups", admin.groups)
        assert len(groups) == GROUPS
        assert not any(each.failures for each in groups)  # type: ignore[attr-defined]
        assert {each.members for each in groups} == {0}  # type: ignore[attr-defined]
        found = timed("topics with their groups", admin.all_topic_groups)
        assert sum(len(each.groups) for each in found) >= GROUPS  # type: ignore[attr-defined]
