"""Access control on a broker: the guard in front of every request, the watch over its files, admins' changes (50-53).

Without `aclEnable` nobody has to sign in; the four codes then say so (4.9.8 leaves 52 unanswered).
"""

import asyncio
import json
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from rocketeer.broker.feature import Feature, Periodic
from rocketeer.errors import ConfigError, RequestRefused
from rocketeer.model.offsets import LogOffset
from rocketeer.model.property_names import REAL_TOPIC
from rocketeer.model.topic import TRANS_HALF_TOPIC
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, reply
from rocketeer.protocol.headers.admin import (
    AclVersionReplyHeader,
    DeleteAclConfigHeader,
    UpdateAclConfigHeader,
    UpdateGlobalWhiteAddressesHeader,
)
from rocketeer.protocol.headers.base import decode_header
from rocketeer.record.layout import StoredMessage
from rocketeer.remoting.router import Connection, Handler
from rocketeer.security.access import AccessControl
from rocketeer.security.acl_files import AclFiles, AclVersion


class Messages(Protocol):
    """What rules about messages in the log ask of the store."""

    def named_at(self, log_offset: LogOffset) -> StoredMessage | None: ...


class TopicsInLog:
    """The topic of a message by its place; of a half message, the one it is for."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages

    def topic_at(self, log_offset: LogOffset) -> str | None:
        message = self._messages.named_at(log_offset)
        if message is None:
            return None
        if message.topic == TRANS_HALF_TOPIC:
            return message.properties_dict().get(REAL_TOPIC)
        return message.topic


WATCH_S: Final = 2.0
"""RocketMQ looks every 5 s."""


@dataclass(frozen=True)
class BrokerNames:
    """What the answer to 52 says about the broker."""

    cluster: str
    broker: str
    address: str


class AccessFeature:
    """Accounts of one broker; files are read and written in a thread, one at a time."""

    def __init__(self, control: AccessControl, files: AclFiles, names: BrokerNames) -> None:
        self._control = control
        self._files = files
        self._names = names
        self._busy = asyncio.Lock()

    def load(self) -> None:
        """Before anybody is let in. Raises ConfigError."""
        self._control.accounts = self._files.load()

    def feature(self) -> Feature:
        return Feature(
            "access control",
            guards=(lambda command, connection: self._control.checking(command, connection.remote),),
            send_access=self._control,
            handlers={
                RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: self._put_account,
                RequestCode.DELETE_ACL_CONFIG: self._delete_account,
                RequestCode.GET_BROKER_CLUSTER_ACL_INFO: self._versions,
                RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: self._put_white_list,
            },
            services=(Periodic("watch acl files", WATCH_S, self._watch),),
        )

    async def _watch(self) -> None:
        async with self._busy:
            accounts = await asyncio.to_thread(self._files.refresh)
        if accounts is not None:
            self._control.accounts = accounts

    async def _put_account(self, command: Command, connection: Connection) -> Command:
        header = decode_header(UpdateAclConfigHeader, command.ext)
        try:
            async with self._busy:
                self._control.accounts = await asyncio.to_thread(
                    self._files.put_account, account_entry(header)
                )
        except (ConfigError, OSError) as error:
            return reply(command, ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED, str(error))
        return reply(command)

    async def _delete_account(self, command: Command, connection: Connection) -> Command:
        key = decode_header(DeleteAclConfigHeader, command.ext).access_key
        try:
            async with self._busy:
                accounts = await asyncio.to_thread(self._files.delete_account, key)
        except (ConfigError, OSError) as error:
            return reply(command, ResponseCode.DELETE_ACL_CONFIG_FAILED, str(error))
        if accounts is None:
            remark = f"The accesskey[{key}] corresponding to accessConfig has been deleted failed."
            return reply(command, ResponseCode.DELETE_ACL_CONFIG_FAILED, remark)
        self._control.accounts = accounts
        return reply(command)

    async def _put_white_list(self, command: Command, connection: Connection) -> Command:
        header = decode_header(UpdateGlobalWhiteAddressesHeader, command.ext)
        addresses = [text.strip() for text in header.addresses.split(",") if text.strip()]
        path = Path(header.acl_file) if header.acl_file else None
        try:
            async with self._busy:
                self._control.accounts = await asyncio.to_thread(self._files.put_white_list, addresses, path)
        except (ConfigError, OSError) as error:
            return reply(command, ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED, str(error))
        return reply(command)

    def _versions(self, command: Command, connection: Connection) -> Command:
        versions = self._files.versions
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


def no_access_control() -> Feature:
    """What the codes of access control say where everybody may do everything."""

    def refuse(command: Command, connection: Connection) -> Command | Awaitable[Command | None] | None:
        raise RequestRefused(
            ResponseCode.SYSTEM_ERROR, "access control is off: aclEnable is false on this broker"
        )

    handlers: Mapping[int, Handler] = dict.fromkeys(
        (
            RequestCode.UPDATE_AND_CREATE_ACL_CONFIG,
            RequestCode.DELETE_ACL_CONFIG,
            RequestCode.GET_BROKER_CLUSTER_ACL_INFO,
            RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
        ),
        refuse,
    )
    return Feature("no access control", handlers=handlers)


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


def _version(version: AclVersion) -> dict[str, int]:
    return {"counter": version.counter, "timestamp": version.timestamp_ms}
