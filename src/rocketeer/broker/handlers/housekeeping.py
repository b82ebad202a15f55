"""Cleaning up on request: queues without messages (306), topics nobody has (316), expired log files (329)."""

import logging
from collections.abc import Callable
from typing import Final, Protocol

from rocketeer.broker.topics import TopicTable
from rocketeer.model.topic import SCHEDULE_TOPIC, TIMER_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import Command, reply
from rocketeer.remoting.server import Connection, Handler

log = logging.getLogger(__name__)

INTERNAL: Final = frozenset({SCHEDULE_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC, TIMER_TOPIC})
"""Topics the broker itself lives by, whether or not the table has them yet."""


class Storage(Protocol):
    """What cleaning up asks of the store."""

    def queues(self) -> list[tuple[str, int]]: ...

    def remove_expired_queues(self) -> list[tuple[str, int]]: ...

    def delete_topic(self, topic: str) -> None: ...

    def delete_expired(self) -> None: ...


def housekeeping_handlers(
    store: Storage, topics: TopicTable, queues_gone: Callable[[], None]
) -> dict[int, Handler]:
    """`queues_gone` is called when queues are about to go: whoever holds on to them lets go."""

    def expired_queues(command: Command, connection: Connection) -> Command:
        queues_gone()
        removed = store.remove_expired_queues()
        log.info("expired queues removed count=%d remote=%s", len(removed), connection.remote)
        return reply(command)

    def unused_topics(command: Command, connection: Connection) -> Command:
        stored = {topic for topic, _ in store.queues()}
        unused = sorted(topic for topic in stored - INTERNAL if topics.get(topic) is None)
        if unused:
            queues_gone()
        for topic in unused:
            store.delete_topic(topic)
            log.info("unused topic removed topic=%s remote=%s", topic, connection.remote)
        return reply(command)

    def expired_files(command: Command, connection: Connection) -> Command:
        store.delete_expired()
        log.info("expired log files are deleted now remote=%s", connection.remote)
        return reply(command)

    return {
        RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: expired_queues,
        RequestCode.CLEAN_UNUSED_TOPIC: unused_topics,
        RequestCode.DELETE_EXPIRED_COMMITLOG: expired_files,
    }
