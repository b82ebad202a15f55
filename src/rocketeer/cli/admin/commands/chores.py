"""Commands that have brokers tidy up, or hide them from producers."""

from collections.abc import Mapping
from typing import Annotated

from rocketeer.admin.blocking import Admin
from rocketeer.admin.plans.clusters import choose_brokers
from rocketeer.admin.results import Done
from rocketeer.cli.admin.declare import Option, Subject, command
from rocketeer.cli.admin.options import BrokerAddress, Cluster
from rocketeer.cli.admin.output import Output, said

BrokerName = Annotated[str, Option("b", "brokerName", "name of the broker")]


def _where(admin: Admin, broker: str | None, cluster: str | None) -> str:
    brokers = admin.run(choose_brokers(admin.context(), broker=broker, cluster=cluster))
    return ", ".join(map(str, brokers))


def _done(done: Done) -> Output:
    addresses = [each.address for each in done.brokers]
    return said("success", data={"done": addresses}, failures=done.failures)


def _clean_queues_danger(admin: Admin, broker: str | None, cluster: str | None) -> list[str]:
    return [
        f"Files of consume queues whose messages are gone will be deleted on {_where(admin, broker, cluster)}."
    ]


@command(
    "cleanExpiredCQ",
    Subject.CLUSTERS,
    "Delete files of consume queues whose messages are gone",
    danger=_clean_queues_danger,
)
def clean_expired_cq(
    admin: Admin, broker: BrokerAddress | None = None, cluster: Cluster | None = None
) -> Output:
    return _done(admin.clean_expired_queues(broker=broker, cluster=None if broker else cluster))


def _delete_log_danger(admin: Admin, broker: str | None, cluster: str | None) -> list[str]:
    return [
        "Files of the log that are past their time will be deleted now, with every message in them, on "
        f"{_where(admin, broker, cluster)}."
    ]


@command(
    "deleteExpiredCommitLog",
    Subject.CLUSTERS,
    "Delete the log's files that are past their time now",
    danger=_delete_log_danger,
)
def delete_expired_commit_log(
    admin: Admin, broker: BrokerAddress | None = None, cluster: Cluster | None = None
) -> Output:
    return _done(admin.delete_expired_log(broker=broker, cluster=None if broker else cluster))


def _clean_topics_danger(admin: Admin, broker: str | None, cluster: str | None) -> list[str]:
    return [
        "The queues of topics that brokers have no configuration of will be deleted on "
        f"{_where(admin, broker, cluster)}."
    ]


@command(
    "cleanUnusedTopic",
    Subject.CLUSTERS,
    "Delete the queues of topics that are not configured any more",
    danger=_clean_topics_danger,
)
def clean_unused_topic(
    admin: Admin, broker: BrokerAddress | None = None, cluster: Cluster | None = None
) -> Output:
    return _done(admin.clean_unused_topics(broker=broker, cluster=None if broker else cluster))


def _wipe_danger(admin: Admin, broker_name: str) -> list[str]:
    return [f"Producers will no longer send to {broker_name}, on any of its topics, until addWritePerm."]


@command(
    "wipeWritePerm",
    Subject.CLUSTERS,
    "Hide a broker from producers, at every name server",
    danger=_wipe_danger,
)
def wipe_write_perm(admin: Admin, broker_name: BrokerName) -> Output:
    return _changed("wipe", broker_name, admin.wipe_write_perm(broker_name))


@command("addWritePerm", Subject.CLUSTERS, "Show a hidden broker to producers again")
def add_write_perm(admin: Admin, broker_name: BrokerName) -> Output:
    return _changed("add", broker_name, admin.add_write_perm(broker_name))


def _changed(verb: str, broker_name: str, topics: Mapping[str, int]) -> Output:
    lines = [
        f"{verb} write perm of broker[{broker_name}] in name server[{address}] OK, {count}"
        for address, count in topics.items()
    ]
    return said(*lines, data={"broker": broker_name, "topics": dict(topics)})
