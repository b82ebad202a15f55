"""Lets requests for a queue that somebody chose leave one after the other: its messages are stored as they were sent.

A broker may work on several requests of one connection at a time (Apache's does, with several threads), so the next
one leaves when the one before it has its answer. Which request that is the batcher says. While a topic's route is not
known yet nobody can choose: those who wait for it stand in a line as well.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol

from rocketeer.errors import SendTimeout
from rocketeer.model.queue import MessageQueue

BeginSend = Callable[[], bool]
"""Called when it is one's turn; False when there is nothing to send any more. Otherwise `leave` has to follow."""


class QueueSendOrder:
    """Orders requests per queue: first come, first sent."""

    def __init__(self) -> None:
        self._waiting: dict[MessageQueue, deque[BeginSend]] = {}

    def join(self, queue: MessageQueue, begin: BeginSend) -> None:
        """Call `begin` once all requests that joined before have left: at once if there are none."""
        waiting = self._waiting.get(queue)
        if waiting is not None:
            waiting.append(begin)
            return
        self._waiting[queue] = deque()
        if not begin():
            self.leave(queue)

    def leave(self, queue: MessageQueue) -> None:
        """Let the next request begin; called when the current one was answered or given up."""
        waiting = self._waiting[queue]
        while waiting:
            if waiting.popleft()():
                return
        del self._waiting[queue]


class RouteSendOrder:
    """One line per topic whose route is waited for: each has its queue before those behind it, whoever hears of the
    route first."""

    def __init__(self) -> None:
        self._last: dict[str, asyncio.Future[None]] = {}
        """The last of those who wait; done when it and all before it have their queues, or have given up."""

    def __contains__(self, topic: str) -> bool:
        return topic in self._last

    async def wait(self, topic: str, find: Awaitable[MessageQueue], limit_s: float) -> MessageQueue:
        """What `find` returns, not before those who came earlier have theirs.

        The caller goes on without awaiting anything else before its message is in its queue's line.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + limit_s
        before = self._last.get(topic)
        place = self._last[topic] = loop.create_future()

        def leave(_: object = None) -> None:
            place.set_result(None)
            if self._last.get(topic) is place:
                del self._last[topic]

        try:
            queue = await find
            if before is not None and not before.done():
                await asyncio.wait((before,), timeout=max(deadline_s - loop.time(), 0))
                if not before.done():
                    raise SendTimeout(topic, (), "those before it still wait for the topic's route")
            return queue
        finally:
            if before is None or before.done():
                leave()
            else:  # it gives up; those behind it still come behind those before it
                before.add_done_callback(leave)


class Batches(Protocol):
    """What waits to be sent together (`batching.Batcher`)."""

    def close_open(self, queue: MessageQueue) -> None: ...

    def limit_s(self, timeout_s: float | None) -> float: ...


class SendTurn:
    """The turn of a request that goes alone: `enqueue()`, `await begin()`, send, `end()`."""

    def __init__(self, batches: Batches, lines: QueueSendOrder | None, queue: MessageQueue) -> None:
        self._batches = batches
        self._lines = lines
        self.queue = queue
        self._came: asyncio.Future[None] | None = None
        self._ended = False

    def enqueue(self) -> None:
        """Join the line, behind everything sent to the queue until now."""
        self._batches.close_open(self.queue)
        self._came = asyncio.get_running_loop().create_future()
        if self._lines is not None:
            self._lines.join(self.queue, self._come)

    def _come(self) -> bool:
        assert self._came is not None, "it has lined up"
        if self._ended:
            return False
        if not self._came.done():
            self._came.set_result(None)
        return True

    async def begin(self, timeout_s: float | None) -> float | None:
        """Wait for the turn; what is left of the time."""
        assert self._came is not None, "it has lined up"
        if self._lines is None:
            await asyncio.sleep(0)  # the batch before it has its number first
            return timeout_s
        limit_s = self._batches.limit_s(timeout_s)
        if self._came.done() or limit_s <= 0:
            return timeout_s
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        try:
            async with asyncio.timeout(limit_s):
                await asyncio.shield(self._came)
        except TimeoutError:
            raise late(self.queue) from None
        return max(limit_s - (loop.time() - began_s), 0.001)

    def end(self) -> None:
        """End the turn: the request was answered or given up."""
        if self._ended or self._came is None:
            return
        self._ended = True
        if self._lines is not None and self._came.done():
            self._lines.leave(self.queue)


def late(queue: MessageQueue) -> SendTimeout:
    return SendTimeout(queue.topic, (), f"those before it in {queue} are unanswered")
