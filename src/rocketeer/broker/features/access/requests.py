"""Admins' requests about accounts (50-53)."""

import json
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rocketeer.broker.features.access.accounts import AccountsInForce
from rocketeer.errors import ConfigError, RequestRefused
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, reply
from rocketeer.protocol.headers.admin import (
    AclVersionReplyHeader,
    DeleteAclConfigHeader,
    UpdateAclConfigHeader,
    UpdateGlobalWhiteAddressesHeader,
)
from rocketeer.protocol.headers.base import decode_header
from rocketeer.remoting.router import Connection, Handler
from rocketeer.security.acl_files import AclFileVersion


@dataclass(frozen=True)
class BrokerNames:
    """What the answer to 52 says about the broker."""

    cluster: str
    broker: str
    address: str


class AccountRequests:
    """Changes accounts, and says how old they are."""

    def __init__(self, accounts: AccountsInForce, names: BrokerNames) -> None:
        self._accounts = accounts
        self._names = names

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: self._put_account,
            RequestCode.DELETE_ACL_CONFIG: self._delete_account,
            RequestCode.GET_BROKER_CLUSTER_ACL_INFO: self._versions,
            RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: self._put_white_list,
        }

    async def _put_account(self, command: Command, connection: Connection) -> Command:
        header = decode_header(UpdateAclConfigHeader, command.ext)
        try:
            await self._accounts.put_account(account_entry(header))
        except (ConfigError, OSError) as error:
            return reply(command, ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED, str(error))
        return reply(command)

    async def _delete_account(self, command: Command, connection: Connection) -> Command:
        key = decode_header(DeleteAclConfigHeader, command.ext).access_key
        try:
            deleted = await self._accounts.delete_account(key)
        except (ConfigError, OSError) as error:
            return reply(command, ResponseCode.DELETE_ACL_CONFIG_FAILED, str(error))
        if not deleted:
            remark = f"The accesskey[{key}] corresponding to accessConfig has been deleted failed."
            return reply(command, ResponseCode.DELETE_ACL_CONFIG_FAILED, remark)
        return reply(command)

    async def _put_white_list(self, command: Command, connection: Connection) -> Command:
        header = decode_header(UpdateGlobalWhiteAddressesHeader, command.ext)
        addresses = [text.strip() for text in header.addresses.split(",") if text.strip()]
        path = Path(header.acl_file) if header.acl_file else None
        try:
            await self._accounts.put_white_list(addresses, path)
        except (ConfigError, OSError) as error:
            return reply(command, ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED, str(error))
        return reply(command)

    def _versions(self, command: Command, connection: Connection) -> Command:
        versions = self._accounts.versions
        newest = max(versions.values(), key=lambda version: version.timestamp_ms)
        return reply(
            command,
            ext=AclVersionReplyHeader(
                version=_json(_version(newest)),
                broker_name=self._names.broker,
                broker_address=self._names.address,
                cluster_name=self._names.cluster,
                all_files_version=_json({path: _version(version) for path, version in versions.items()}),
            ),
        )


def refusals() -> Mapping[int, Handler]:
    """What the codes of access control say where everybody may do everything."""

    def refuse(command: Command, connection: Connection) -> Command | Awaitable[Command | None] | None:
        raise RequestRefused(
            ResponseCode.SYSTEM_ERROR, "access control is off: aclEnable is false on this broker"
        )

    return dict.fromkeys(
        (
            RequestCode.UPDATE_AND_CREATE_ACL_CONFIG,
            RequestCode.DELETE_ACL_CONFIG,
            RequestCode.GET_BROKER_CLUSTER_ACL_INFO,
            RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
        ),
        refuse,
    )


def account_entry(header: UpdateAclConfigHeader) -> dict[str, Any]:
    """The account as the file has it; what the request does not name stays as it is there."""
    entry: dict[str, Any] = {"accessKey": header.access_key}
    texts = {
        "secretKey": header.secret_key,
        "whiteRemoteAddress": header.white_remote_address,
        "defaultTopicPerm": header.default_topic_perm,
        "defaultGroupPerm": header.default_group_perm,
    }
    entry.update((name, text) for name, text in texts.items() if text is not None)
    entry["admin"] = header.admin
    for name, text in (("topicPerms", header.topic_perms), ("groupPerms", header.group_perms)):
        if text is not None:
            entry[name] = [piece.strip() for piece in text.split(",") if piece.strip()]
    return entry


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _version(version: AclFileVersion) -> dict[str, int]:
    return {"counter": version.counter, "timestamp": version.timestamp_ms}
