"""Cleaning up on request: queues without messages (306), topics nobody has (316), expired log files (329)."""

import logging
from collections.abc import Awaitable, Callable, Collection

from rocketeer.broker.topics import TopicTable
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import Command, reply
from rocketeer.remoting.router import Connection, Handler
from rocketeer.remoting.slices import run_sliced
from rocketeer.steps import Steps
from rocketeer.store.message_store import MessageStore

log = logging.getLogger(__name__)


def housekeeping_handlers(
    store: MessageStore,
    topics: TopicTable,
    internal_topics: Collection[str],
    queues_gone: Callable[[], None],
) -> dict[int, Handler]:
    """`internal_topics` stay whether or not the table has them yet. `queues_gone` is called when queues are about to
    go: whoever holds on to them lets go.
    """

    def expired_queues(command: Command, connection: Connection) -> Command | Awaitable[Command]:
        def steps() -> Steps[Command]:
            removed = yield from store.remove_expired_queues(queues_gone)
            log.info("expired queues removed count=%d remote=%s", len(removed), connection.remote)
            return reply(command)

        return run_sliced(steps())

    def unused_topics(command: Command, connection: Connection) -> Command | Awaitable[Command]:
        def steps() -> Steps[Command]:
            for topic in store.queue_table.topics():
                if topic not in internal_topics and topics.get(topic) is None:
                    queues_gone()
                    store.delete_topic(topic)
                    log.info("unused topic removed topic=%s remote=%s", topic, connection.remote)
                yield
            return reply(command)

        return run_sliced(steps())

    def expired_files(command: Command, connection: Connection) -> Command:
        store.delete_expired()
        log.info("expired log files are deleted now remote=%s", connection.remote)
        return reply(command)

    return {
        RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: expired_queues,
        RequestCode.CLEAN_UNUSED_TOPIC: unused_topics,
        RequestCode.DELETE_EXPIRED_COMMITLOG: expired_files,
    }
