"""Headers of admin requests: figures (315, 317), config (26), ACL files (50-53), replica groups (ours)."""

from msgspec import field

from rocketeer.protocol.headers.base import I32, Header


class ViewBrokerStatsHeader(Header):
    """315 VIEW_BROKER_STATS_DATA."""

    stats_name: str
    stats_key: str


class GetBrokerConsumeStatsHeader(Header):
    """317 GET_BROKER_CONSUME_STATS."""

    order: bool = field(default=False, name="isOrder")


class GetBrokerConfigReplyHeader(Header):
    """The reply to 26: the config's data version as JSON."""

    version: str


class UpdateAclConfigHeader(Header):
    """50 UPDATE_AND_CREATE_ACL_CONFIG; permissions as `topic=PUB|SUB,topic=DENY`."""

    access_key: str
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    group_perms: str | None = None


class DeleteAclConfigHeader(Header):
    """51 DELETE_ACL_CONFIG."""

    access_key: str


class AclVersionReplyHeader(Header):
    """The reply to 52 GET_BROKER_CLUSTER_ACL_INFO; versions as JSON."""

    version: str
    broker_name: str
    broker_address: str = field(name="brokerAddr")
    cluster_name: str
    all_files_version: str | None = field(default=None, name="allAclFileVersion")


class UpdateGlobalWhiteAddressesHeader(Header):
    """53 UPDATE_GLOBAL_WHITE_ADDRS_CONFIG; comma separated."""

    addresses: str = field(name="globalWhiteAddrs")
    acl_file: str | None = field(default=None, name="aclFileFullPath")


class SwitchLeaderHeader(Header):
    """300004 SWITCH_LEADER (ours): the member of the replica group that shall lead."""

    member: I32
