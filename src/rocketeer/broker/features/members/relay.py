"""Requests that go on to a member as they came: what it is doing (307), one message consumed here and now (309)."""

from collections.abc import Awaitable
from typing import Final

from rocketeer.broker.clients import ClientTable
from rocketeer.errors import BadMessageId, CallTimeout, RemotingError, RequestRefused
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, reply, request
from rocketeer.protocol.headers.base import decode_header
from rocketeer.protocol.headers.clients import ConsumeMessageDirectlyHeader, GetConsumerRunningInfoHeader
from rocketeer.protocol.versions import V3_1_8_SNAPSHOT, version_name
from rocketeer.record.ids import parse_offset_msg_id
from rocketeer.record.layout import encode_record
from rocketeer.remoting.router import Connection, Handler
from rocketeer.store.message_store import MessageStore

RELAY_S: Final = 10.0


class MemberRelay:
    """Passes requests on to members, and their answers back."""

    def __init__(
        self,
        clients: ClientTable[Connection],
        store: MessageStore,
        *,
        broker_name: str,
        relay_s: float = RELAY_S,
    ) -> None:
        self._clients = clients
        self._store = store
        self._broker_name = broker_name
        self._relay_s = relay_s

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.GET_CONSUMER_RUNNING_INFO: self.running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self.consume_directly,
        }

    def running_info(self, command: Command, connection: Connection) -> Awaitable[Command]:
        header = decode_header(GetConsumerRunningInfoHeader, command.ext)
        return self._relay(command, header.consumer_group, header.client_id, command.body)

    def consume_directly(self, command: Command, connection: Connection) -> Awaitable[Command]:
        """Handle CONSUME_MESSAGE_DIRECTLY: read the message now, then ask the member to consume it."""
        header = decode_header(ConsumeMessageDirectlyHeader, command.ext)
        try:
            log_offset = parse_offset_msg_id(header.msg_id or "")[1]
        except BadMessageId as error:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, str(error)) from None
        message = self._store.named_at(log_offset)
        if message is None:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {log_offset}"
            )
        command.ext["brokerName"] = self._broker_name
        return self._relay(command, header.consumer_group, header.client_id or "", encode_record(message))

    def _relay(self, command: Command, group: str, client_id: str, body: bytes) -> Awaitable[Command]:
        known = self._clients.consumer(group)
        connection = None if known is None else known.connection_of(client_id)
        if known is None or connection is None:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online"
            )
        version = known.members[connection].identity.version
        if version < V3_1_8_SNAPSHOT:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR,
                f"The Consumer <{client_id}> Version <{version_name(version)}> too low to finish, "
                "please upgrade it to V3_1_8_SNAPSHOT",
            )
        answered = connection.call(request(command.code, command.ext, body), self._relay_s)
        return self._answer_of(answered, command, group, client_id)

    async def _answer_of(
        self, answered: Awaitable[Command], command: Command, group: str, client_id: str
    ) -> Command:
        try:
            answer = await answered
        except CallTimeout as error:
            raise RequestRefused(
                ResponseCode.CONSUME_MSG_TIMEOUT, f"consumer <{group}> <{client_id}> Timeout: {error}"
            ) from None
        except RemotingError as error:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR, f"invoke consumer <{group}> <{client_id}> Exception: {error}"
            ) from None
        return reply(command, answer.code, answer.remark, answer.ext, answer.body)
