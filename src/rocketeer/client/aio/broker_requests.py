"""What brokers ask a push consumer on an operator's behalf: other offsets (220), its state (221, 307), one message
consumed here and now (309)."""

import asyncio
import logging
import time

from rocketeer.client.aio import consumer_info
from rocketeer.client.aio.assigned_queues import AssignedQueues
from rocketeer.client.aio.consuming import ConsumerState, DirectConsumer
from rocketeer.client.aio.instance import ClientInstance
from rocketeer.client.aio.subscriptions import Subscriptions
from rocketeer.client.core.config import ConsumerConfig
from rocketeer.client.core.received import split_messages
from rocketeer.errors import RequestRefused
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.model.subscription import ConsumeType
from rocketeer.protocol.bodies.offsets import decode_queue_offsets, encode_member_status
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, reply
from rocketeer.protocol.headers.base import decode_header
from rocketeer.protocol.headers.clients import ConsumeMessageDirectlyHeader, GetConsumerRunningInfoHeader
from rocketeer.protocol.headers.offsets import GetConsumerStatusHeader, ResetOffsetHeader
from rocketeer.remoting.client import PushHandler

log = logging.getLogger(__name__)


class BrokerRequests:
    """The handlers of these requests; registered between `open` and `close`."""

    def __init__(
        self,
        config: ConsumerConfig,
        instance: ClientInstance,
        subscriptions: Subscriptions,
        state: ConsumerState,
        assigned: AssignedQueues,
        service: DirectConsumer,
        *,
        orderly: bool,
        auto_commit: bool,
    ) -> None:
        self._config = config
        self._instance = instance
        self._subscriptions = subscriptions
        self._state = state
        self._assigned = assigned
        self._service = service
        self._orderly = orderly
        self._auto_commit = auto_commit
        self._started_ms = instance.clock.now_ms()
        self._handlers: dict[int, PushHandler] = {
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: self._reset,
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: self._status,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self._info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self._direct,
        }

    def open(self) -> None:
        for code, handler in self._handlers.items():
            self._instance.handle_push(code, handler, group=self._config.full_group)

    def close(self) -> None:
        for code in self._handlers:
            self._instance.drop_push(code, group=self._config.full_group)

    async def _reset(self, command: Command, address: str) -> None:
        """220: an operator set offsets; consume from there."""
        header = decode_header(ResetOffsetHeader, command.ext)
        wanted = decode_queue_offsets(command.body)
        log.info("offsets reset group=%s topic=%s queues=%d", header.group, header.topic, len(wanted))
        await asyncio.gather(
            *(
                self._assigned.restart_at(held, QueueOffset(wanted[held.queue]))
                for held in self._assigned.held()
                if held.queue.topic == header.topic and held.queue in wanted
            )
        )

    def _status(self, command: Command, address: str) -> Command:
        """221: the offsets of a topic's queues."""
        header = decode_header(GetConsumerStatusHeader, command.ext)
        return reply(command, body=encode_member_status(self._state.offsets.table.of_topic(header.topic)))

    def _info(self, command: Command, address: str) -> Command:
        """307: the running state of this consumer."""
        header = decode_header(GetConsumerRunningInfoHeader, command.ext)
        body = consumer_info.running_info(
            self._config,
            consume_type=ConsumeType.CONSUME_PASSIVELY,
            orderly=self._orderly,
            nameservers=self._instance.nameservers.addresses,
            started_ms=self._started_ms,
            subscriptions=self._subscriptions.by_topic.values(),
            held=self._assigned.held(),
            offsets=self._state.offsets.table,
            consumed=self._state.consumed,
            failed=self._state.failed,
            stacks=header.jstack_enable,
        )
        return reply(command, body=body)

    async def _direct(self, command: Command, address: str) -> Command:
        """309: consume this one message."""
        header = decode_header(ConsumeMessageDirectlyHeader, command.ext)
        broker = header.broker_name or ""
        messages = split_messages(command.body, MessageQueue("", broker, 0), namespace=self._config.namespace)
        if len(messages) != 1:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"{len(messages)} messages in the request, not 1")
        message = messages[0]
        message.queue = MessageQueue(message.stored_topic, broker, message.stored_queue_id)
        began_s = time.monotonic()
        job = await self._service.direct(message)
        body = consumer_info.direct_result(
            job,
            orderly=self._orderly,
            auto_commit=self._auto_commit,
            spent_ms=int((time.monotonic() - began_s) * 1000),
        )
        return reply(command, body=body)
