"""Commands about accounts in brokers' ACL files; what a broker answers is reported as it is."""

import sys
from typing import Annotated

from rocketeer.admin.blocking import Admin
from rocketeer.cli.admin.declare import Option, Subject, command
from rocketeer.cli.admin.options import BrokerAddressOption, ClusterName
from rocketeer.cli.admin.output import Output, OutputLines, OutputTable, columns, row_object, said, when
from rocketeer.errors import ConfigError
from rocketeer.protocol.headers.admin import UpdateAclConfigHeader

AccessKey = Annotated[str, Option("a", "accessKey", "the account's name")]
WHERE = (("broker", "cluster"),)


@command("updateAclConfig", Subject.ACCESS, "Make an account or change it", one_of=WHERE)
def update_acl_config(
    admin: Admin,
    access_key: AccessKey,
    secret_key: Annotated[
        str,
        Option(
            "s", "secretKey", "its secret; - reads it from standard input, where no process list shows it"
        ),
    ],
    broker: BrokerAddressOption | None = None,
    cluster: ClusterName | None = None,
    white_address: Annotated[str, Option("w", "whiteRemoteAddress", "from where it may come")] | None = None,
    default_topic_perm: Annotated[
        str, Option("i", "defaultTopicPerm", "DENY, PUB, SUB or PUB|SUB for topics not named")
    ]
    | None = None,
    default_group_perm: Annotated[
        str, Option("u", "defaultGroupPerm", "DENY, PUB, SUB or PUB|SUB for groups not named")
    ]
    | None = None,
    topic_perms: Annotated[str, Option("t", "topicPerms", "topicA=DENY,topicD=SUB")] | None = None,
    group_perms: Annotated[str, Option("g", "groupPerms", "groupA=DENY,groupD=SUB")] | None = None,
    is_admin: Annotated[bool, Option("m", "admin", "whether it may administer: true or false")] = False,
) -> Output:
    account = UpdateAclConfigHeader(
        access_key,
        _from_input() if secret_key == "-" else secret_key,
        white_address,
        is_admin,
        default_topic_perm,
        default_group_perm,
        topic_perms,
        group_perms,
    )
    done = admin.update_acl_account(account, broker=broker, cluster=cluster)
    lines = [f"create or update plain access config to {each.address} success." for each in done.brokers]
    return said(*lines, failures=done.failures)


def _from_input() -> str:
    secret = sys.stdin.readline().strip()
    if not secret:
        raise ConfigError("no secret on standard input: write it there, as one line")
    return secret


def _delete_danger(admin: Admin, access_key: str, broker: str | None, cluster: str | None) -> list[str]:
    return [f"Account {access_key} will be deleted on {broker or 'every broker of ' + str(cluster)}."]


@command(
    "deleteAclConfig",
    Subject.ACCESS,
    "Delete an account",
    aliases=("deleteAccessConfig",),
    danger=_delete_danger,
    one_of=WHERE,
)
def delete_acl_config(
    admin: Admin,
    access_key: AccessKey,
    broker: BrokerAddressOption | None = None,
    cluster: ClusterName | None = None,
) -> Output:
    done = admin.delete_acl_account(access_key, broker=broker, cluster=cluster)
    lines = [f"delete plain access config account from {each.address} success." for each in done.brokers]
    return said(*lines, f"account's accesskey is:{access_key}", failures=done.failures)


@command("clusterAclConfigVersion", Subject.ACCESS, "The versions of brokers' ACL files", one_of=WHERE)
def cluster_acl_config_version(
    admin: Admin, broker: BrokerAddressOption | None = None, cluster: ClusterName | None = None
) -> Output:
    found = admin.acl_versions(broker=broker, cluster=cluster)
    rows = [
        (each.cluster, each.broker_name, each.address, path, version.counter, when(version.timestamp))
        for _, each in found
        for path, version in each.files.items()
    ]
    table = OutputTable(
        "%-16s  %-22s  %-22s  %-20s  %-22s  %-20s  ",
        columns(
            "cluster", "#Cluster Name", "broker", "#Broker Name", "address", "#Broker Addr", "file",
            "#AclFilePath", "version", "#AclConfigVersionNum", "updated", "#AclLastUpdateTime",
        ),
        rows,
        heading=broker is None,
    )  # fmt: skip
    what = "broker" if broker else "cluster"
    last = OutputLines([f"get {what}'s plain access config version success."] if found.answers else [])
    return Output([table, last], [row_object(table, row) for row in rows], found.failures)


@command("updateGlobalWhiteAddr", Subject.ACCESS, "From which addresses everything is let in", one_of=WHERE)
def update_global_white_addr(
    admin: Admin,
    addresses: Annotated[str, Option("g", "globalWhiteRemoteAddresses", "10.10.103.*,192.168.0.*")],
    broker: BrokerAddressOption | None = None,
    cluster: ClusterName | None = None,
    acl_file: Annotated[str, Option("p", "aclFileFullPath", "the ACL file to change")] | None = None,
) -> Output:
    done = admin.update_white_addresses(addresses, acl_file=acl_file, broker=broker, cluster=cluster)
    lines = [f"update global white remote addresses to {each.address} success." for each in done.brokers]
    return said(*lines, failures=done.failures)
