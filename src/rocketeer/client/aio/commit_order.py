"""Which requests that carry a group's offset may be under way together, so that the newest is the one a broker keeps.

A broker may work on several requests of a connection at a time, and what it keeps is the offset it came to last, not
the one that was sent last. Apache's has threads for pulls and others for commits: a pull that carries an offset often
ends behind a commit sent after it, and the group consumes again what lies between the two. So of one queue one such
request, pull or commit, is unanswered at a time.

A group's first offset of a topic goes alone. Apache's broker makes a table when it comes, without a lock: of two
first ones each makes its own, and one table is lost with the offset in it, though both requests were answered.
"""

import asyncio

from rocketeer.model.queue import MessageQueue


class CommitOrder:
    """Every `begin` or `turn` that is True is followed by an `end`, when the request is answered or given up."""

    def __init__(self) -> None:
        self._under_way: set[MessageQueue] = set()
        self._known: set[tuple[str, str]] = set()
        """Topics and brokers that have an offset of the group."""
        self._first: set[tuple[str, str]] = set()
        """Topics and brokers that are being told their first offset."""
        self._wanted: list[MessageQueue] = []
        """Queues for which somebody waits for a turn."""
        self._waiting: list[asyncio.Future[None]] = []

    def known(self, queue: MessageQueue) -> None:
        """The queue's broker has an offset of the group for this topic."""
        self._known.add((queue.topic, queue.broker_name))

    def begin(self, queue: MessageQueue) -> bool:
        """True when a request with an offset of the queue may be sent now, and none waits for that."""
        return queue not in self._wanted and self._begin(queue)

    def _begin(self, queue: MessageQueue) -> bool:
        if queue in self._under_way:
            return False
        place = queue.topic, queue.broker_name
        if place not in self._known:
            if place in self._first:
                return False
            self._first.add(place)
        self._under_way.add(queue)
        return True

    def end(self, queue: MessageQueue, *, answered: bool) -> None:
        """The request was answered, or will not be any more."""
        self._under_way.remove(queue)
        place = queue.topic, queue.broker_name
        self._first.discard(place)
        if answered:
            self._known.add(place)
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for each in waiting:
                if not each.done():
                    each.set_result(None)

    async def turn(self, queue: MessageQueue, timeout_s: float) -> bool:
        """`begin`, waiting for its turn; False when that takes too long."""
        if self._begin(queue):
            return True
        # Or pulls, each of which tells something, would follow one another without end.
        self._wanted.append(queue)
        try:
            async with asyncio.timeout(timeout_s):
                while not self._begin(queue):
                    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    self._waiting.append(ended)
                    await ended
        except TimeoutError:
            return False
        finally:
            self._wanted.remove(queue)
        return True
