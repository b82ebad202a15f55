"""Request and reply: an answer (324, 325) goes straight to the client that asked (326), and into the reply topic.

The answer says whom it is for (REPLY_TO_CLIENT) and what it answers (CORRELATION_ID). The asking client is found by
its id among the producers that sent heartbeats here. Whoever answers is told whether the answer arrived there.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Mapping
from typing import Final, NamedTuple

from rocketeer.broker.clients import ClientTable
from rocketeer.broker.feature import Feature
from rocketeer.broker.send import Admit, SendHeader, stored_fields
from rocketeer.broker.writer import Writer, WriteResult
from rocketeer.clock import Clock
from rocketeer.errors import RemotingError, RequestRefused, RocketeerError
from rocketeer.model.property_names import PUSH_REPLY_TIME, REPLY_TO_CLIENT
from rocketeer.model.topic import TopicConfig
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, reply, request
from rocketeer.protocol.headers.base import decode_header
from rocketeer.protocol.headers.send import ReplyMessageHeader, SendMessageHeader, SendMessageV2Header
from rocketeer.record.hosts import host_text
from rocketeer.record.layout import PendingMessage
from rocketeer.record.properties import decode_properties, rejoin_properties
from rocketeer.remoting.router import Connection, Handler

log = logging.getLogger(__name__)

PUSH_S: Final = 10.0


class _Push(NamedTuple):
    """An answer on its way to who asked."""

    asked_by: str
    to: Connection
    command: Command


class Replies:
    """Finds who asked among the producers, pushes the answer there and stores it."""

    def __init__(
        self,
        clients: ClientTable[Connection],
        *,
        admit: Admit,
        writer: Writer,
        clock: Clock,
        store_host: bytes,
        reply_ext: Mapping[str, str],
        stored: bool,
    ) -> None:
        self._clients = clients
        self._admit = admit
        self._writer = writer
        self._clock = clock
        self._store_host = store_host
        self._id_start = store_host.hex().upper()
        self._ext = dict(reply_ext)
        self._stored = stored

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.SEND_REPLY_MESSAGE: self.answer,
            RequestCode.SEND_REPLY_MESSAGE_V2: self.answer_v2,
        }

    def answer(self, command: Command, connection: Connection) -> Command | Awaitable[Command]:
        return self._serve(command, connection, SendMessageHeader)

    def answer_v2(self, command: Command, connection: Connection) -> Command | Awaitable[Command]:
        return self._serve(command, connection, SendMessageV2Header)

    def _serve(
        self,
        command: Command,
        connection: Connection,
        kind: type[SendMessageHeader] | type[SendMessageV2Header],
    ) -> Command | Awaitable[Command]:
        """Handle an answer: decode and check it in this turn of the loop, then push it to the client that asked."""
        try:
            header: SendMessageHeader | SendMessageV2Header = decode_header(kind, command.ext)
            topic = self._admit(header, connection.remote)
        except RequestRefused as refusal:
            return reply(command, refusal.code, refusal.remark, self._ext)
        except RocketeerError as error:
            return reply(command, ResponseCode.SYSTEM_ERROR, str(error), self._ext)
        push = self._push_of(header, command.body, connection)
        return self._pushed(command, header, topic, push, connection)

    async def _pushed(
        self,
        command: Command,
        header: SendHeader,
        topic: TopicConfig,
        push: "_Push | str",
        connection: Connection,
    ) -> Command:
        queue_id = header.queue_id
        if queue_id < 0:
            queue_id = random.randrange(max(topic.write_queues, 1))
        failure = push if isinstance(push, str) else await self._taken(push)
        ext = dict(self._ext)
        if failure is None:
            ext |= {"msgId": "0", "queueId": str(queue_id), "queueOffset": "0"}
        if self._stored:
            put = await self._put(header, queue_id, command.body, connection.remote_host)
            if put.stored:
                ext |= stored_fields(self._id_start, queue_id, put.appended)
            else:  # it arrived all the same
                log.warning("answer not stored topic=%s reason=%s", header.topic, put.remark)
        if failure is not None:
            return reply(command, ResponseCode.SYSTEM_ERROR, failure, ext)
        return reply(command, ResponseCode.SUCCESS, None, ext)

    def _push_of(
        self, header: SendMessageHeader | SendMessageV2Header, body: bytes, connection: Connection
    ) -> "_Push | str":
        """The answer as it is brought to who asked, or why it cannot be."""
        properties = decode_properties((header.properties or "").encode("utf-8", "replace"))
        asked_by = properties.get(REPLY_TO_CLIENT)
        if asked_by is None:
            return f"reply message properties[{REPLY_TO_CLIENT}] is null"
        to = self._clients.producer_connection(asked_by)
        if to is None:
            failure = f"push reply message fail, channel of <{asked_by}> not found."
            log.warning("answer not delivered remote=%s reason=%s", connection.remote, failure)
            return failure
        now_ms = self._clock.now_ms()
        properties[PUSH_REPLY_TIME] = str(now_ms)
        pushed = ReplyMessageHeader(
            producer_group=header.producer_group,
            topic=header.topic,
            default_topic=header.default_topic,
            default_topic_queues=header.default_topic_queues,
            queue_id=header.queue_id,
            sys_flag=header.sys_flag,
            born_ms=header.born_ms,
            flag=header.flag,
            born_host=connection.remote,
            store_host=host_text(self._store_host),
            store_ms=now_ms,
            properties=rejoin_properties(properties).decode(),
            reconsume_times=header.reconsume_times,
            unit_mode=header.unit_mode,
        )
        return _Push(asked_by, to, request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, pushed, body))

    async def _taken(self, push: "_Push") -> str | None:
        """Push the answer to the asking client; None when it took it, else the remark that says why not."""
        asked_by = push.asked_by
        try:
            answer = await push.to.call(push.command, PUSH_S)
        except RemotingError as error:
            log.warning("answer not delivered client=%s reason=%s", asked_by, error)
            return f"push reply message to {asked_by}fail."
        if answer.code != ResponseCode.SUCCESS:
            log.warning("answer not taken client=%s code=%d remark=%s", asked_by, answer.code, answer.remark)
            return f"push reply message to {asked_by}fail."
        return None

    async def _put(self, header: SendHeader, queue_id: int, body: bytes, born_host: bytes) -> WriteResult:
        message = PendingMessage(
            topic=header.topic,
            queue_id=queue_id,
            flag=header.flag,
            sys_flag=header.sys_flag,
            born_ms=header.born_ms,
            born_host=born_host,
            body=body,
            properties=(header.properties or "").encode("utf-8", "replace"),
            reconsume_times=header.reconsume_times or 0,
        )
        done: asyncio.Future[WriteResult] = asyncio.get_running_loop().create_future()
        self._writer.put(message, done.set_result)
        return await done


def reply_feature(replies: Replies) -> Feature:
    return Feature("reply", handlers=replies.handlers())
