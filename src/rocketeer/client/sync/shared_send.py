"""One send of a thread that the loop does: its place in flight, and the future its sender waits for."""

from concurrent.futures import Future

from rocketeer.client.core.send_result import SendResult
from rocketeer.client.sync.send_limit import ThreadSendLimit
from rocketeer.errors import SendFailed


class ThreadSharedSend:
    """A `batching.Waiter`. Whoever made it has entered the limit; the outcome leaves it."""

    __slots__ = ("_limit", "future", "size")

    def __init__(self, limit: ThreadSendLimit, size: int) -> None:
        self._limit = limit
        self.size = size
        self.future: Future[SendResult] = Future()

    def begins(self) -> bool:
        """False when its sender has cancelled it; from now on that cannot be."""
        if self.future.set_running_or_notify_cancel():
            return True
        self._limit.leave(self.size)
        return False

    def done(self) -> bool:
        return self.future.done()

    def set_result(self, result: SendResult, /) -> None:
        self._limit.leave(self.size)
        self.future.set_result(result)

    def set_exception(self, error: Exception, /) -> None:
        self._limit.leave(self.size, answered=not isinstance(error, SendFailed))
        self.future.set_exception(error)
