"""Administration of topics: create or change (17), delete (215), list all (21), the system's own (305)."""

import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from rocketeer.broker.entries_table import list_handler
from rocketeer.broker.topics import TopicTable
from rocketeer.errors import InvalidTopic, RequestRefused, StoreRefused
from rocketeer.model.topic import FILTER_TYPES, QUEUES_MAX, TopicConfig, validate_topic_name
from rocketeer.protocol.bodies.topics import encode_topic_list
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, reply
from rocketeer.protocol.headers.base import decode_header
from rocketeer.protocol.headers.topics import CreateTopicHeader, TopicHeader
from rocketeer.remoting.router import Connection, Handler

log = logging.getLogger(__name__)

UPDATED_REMARK = "not set any response code"
"""What RocketMQ says when 17 succeeded; tools print it."""


class TopicDeletion(Protocol):
    """What deleting asks of the store."""

    def delete_topic(self, topic: str) -> None: ...


def topic_handlers(
    topics: TopicTable,
    store: TopicDeletion,
    announce: Callable[[TopicConfig], Awaitable[None]],
    persist: Callable[[], Awaitable[None]],
) -> dict[int, Handler]:
    """The reply waits until the disk has the change (`persist`) and the name servers know it (`announce`)."""

    def update(command: Command, connection: Connection) -> Awaitable[Command]:
        header = decode_header(CreateTopicHeader, command.ext)
        _check_name(topics, header.topic)
        if not (0 <= header.read_queues <= QUEUES_MAX and 0 <= header.write_queues <= QUEUES_MAX):
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR,
                f"readQueueNums[{header.read_queues}] and writeQueueNums[{header.write_queues}] "
                f"must be between 0 and {QUEUES_MAX}",
            )
        filter_type = header.filter_type or "SINGLE_TAG"
        if filter_type not in FILTER_TYPES:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR,
                f"topicFilterType = [{filter_type[:40]}] value invalid, "
                f"must be one of {', '.join(sorted(FILTER_TYPES))}",
            )
        # The header's `order` is not taken over: a topic is an order topic while the name servers' order
        # configuration names it, and the registration that follows brings that.
        topic = TopicConfig(
            header.topic,
            read_queues=header.read_queues,
            write_queues=header.write_queues,
            perm=header.perm,
            filter_type=filter_type,
            sys_flag=header.sys_flag or 0,
        )
        log.info("topic updated topic=%s remote=%s", topic, connection.remote)
        topics.put(topic)
        return updated(command, topic)

    async def updated(command: Command, topic: TopicConfig) -> Command:
        await persist()
        await announce(topic)
        return reply(command, remark=UPDATED_REMARK)

    def delete(command: Command, connection: Connection) -> Awaitable[Command]:
        name = decode_header(TopicHeader, command.ext).topic
        _check_name(topics, name)
        log.info("topic deleted topic=%s remote=%s", name, connection.remote)
        try:
            store.delete_topic(name)
        except StoreRefused as refusal:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR, f"The topic[{name}] is not deleted: {refusal}"
            ) from None
        topics.delete(name)
        return deleted(command)

    async def deleted(command: Command) -> Command:
        await persist()
        return reply(command)

    def list_system(command: Command, connection: Connection) -> Command:
        return reply(command, body=encode_topic_list(sorted(topics.system_names)))

    return {
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: list_system,
        RequestCode.UPDATE_AND_CREATE_TOPIC: update,
        RequestCode.DELETE_TOPIC_IN_BROKER: delete,
        RequestCode.GET_ALL_TOPIC_CONFIG: list_handler(topics),
    }


def _check_name(topics: TopicTable, name: str) -> None:
    try:
        validate_topic_name(name)
    except InvalidTopic as error:
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, str(error)) from None
    if topics.is_system(name):
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"The topic[{name}] is conflict with system topic.")
