"""Commands that have brokers tidy up, or hide them from producers."""

from collections.abc import Callable, Mapping
from typing import Annotated

from rocketeer.admin.blocking import Admin
from rocketeer.admin.plans.clusters import choose_brokers
from rocketeer.admin.results import Done
from rocketeer.cli.admin.declare import Option, Subject, command
from rocketeer.cli.admin.options import BrokerAddressOption, ClusterOption
from rocketeer.cli.admin.output import Output, said

BrokerName = Annotated[str, Option("b", "brokerName", "name of the broker")]


def _chore(name: str, summary: str, warning: str, method: Callable[..., Done]) -> None:
    """Declare a command that has one broker, those of a cluster, or all, tidy up."""

    def danger(admin: Admin, broker: str | None, cluster: str | None) -> list[str]:
        brokers = admin.run(choose_brokers(admin.context(), broker=broker, cluster=cluster))
        return [f"{warning} on {', '.join(map(str, brokers))}."]

    @command(name, Subject.CLUSTERS, summary, danger=danger)
    def run(
        admin: Admin, broker: BrokerAddressOption | None = None, cluster: ClusterOption | None = None
    ) -> Output:
        done = method(admin, broker=broker, cluster=cluster)
        addresses = [each.address for each in done.brokers]
        return said("success", data={"done": addresses}, failures=done.failures)


_chore(
    "cleanExpiredCQ",
    "Delete files of consume queues whose messages are gone",
    "Files of consume queues whose messages are gone will be deleted",
    Admin.clean_expired_queues,
)
_chore(
    "deleteExpiredCommitLog",
    "Delete the log's files that are past their time now",
    "Files of the log that are past their time will be deleted now, with every message in them,",
    Admin.delete_expired_log,
)
_chore(
    "cleanUnusedTopic",
    "Delete the queues of topics that are not configured any more",
    "The queues of topics that brokers have no configuration of will be deleted",
    Admin.clean_unused_topics,
)


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
