"""What users may put into a consumer: a filter of pulled messages, a listener for its queues, a place for offsets."""

import logging
from collections.abc import Awaitable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from rocketeer.client.core.received import ReceivedMessage
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue

log = logging.getLogger(__name__)


@runtime_checkable
class FilterMessageHook(Protocol):
    """Given to a consumer as `filter_hooks=[...]`: decides which of the messages of a pull are consumed at all."""

    def filter_messages(
        self, group: str, queue: MessageQueue, messages: Sequence[ReceivedMessage]
    ) -> Sequence[ReceivedMessage]:
        """The messages to go on with, in order; others count as consumed. What it raises is logged: all go on."""
        ...


@runtime_checkable
class QueueListener(Protocol):
    """Given to a consumer as `queue_listener=`; called on the loop after a rebalance that changed something."""

    def __call__(self, topic: str, all_queues: Sequence[MessageQueue], mine: Sequence[MessageQueue]) -> None:
        """All queues of the topic, and those that are this member's from now on. What it raises is logged."""
        ...


@runtime_checkable
class OffsetStore(Protocol):
    """Given to a consumer as `offset_store=`: where a group's offsets are kept instead of on the broker.

    Plain functions are called in a thread, coroutine functions on the loop. The broker still hears how far the
    group is, with each pull, so that `mqadmin consumerProgress` tells it.
    """

    def load(self, queue: MessageQueue) -> int | Awaitable[int | None] | None:
        """Where to begin with a queue; None: it was never consumed. What it raises keeps the queue from us."""
        ...

    def store(self, offsets: Mapping[MessageQueue, QueueOffset]) -> Awaitable[None] | None:
        """Messages before these offsets are consumed: every few seconds, and when queues are let go.

        Nothing to do for who stores them elsewhere, with what each message did. What it raises is logged, and the
        offsets come again.
        """
        ...


def filtered(
    hooks: Sequence[FilterMessageHook], group: str, queue: MessageQueue, messages: Sequence[ReceivedMessage]
) -> Sequence[ReceivedMessage]:
    """What every hook lets pass, each in its turn; a hook that fails lets all pass."""
    for hook in hooks:
        try:
            kept = {id(message) for message in hook.filter_messages(group, queue, messages)}
        except Exception:
            log.exception("hook failed hook=%r group=%s queue=%s", hook, group, queue)
            continue
        messages = [message for message in messages if id(message) in kept]
    return messages
