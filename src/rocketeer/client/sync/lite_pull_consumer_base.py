"""The lite pull consumer for threads, all but its public methods; it hosts the consumer of `rocketeer.aio`."""

from collections.abc import Collection, Iterator
from types import TracebackType

from rocketeer.client.aio.lite_pull_consumer import POLL_S, LitePullConsumer
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.sync.host import SPARE_S, HostedConsumer
from rocketeer.errors import ClientClosed
from rocketeer.model.queue import MessageQueue
from rocketeer.model.subscription import SUB_ALL


class LitePullConsumerBase(HostedConsumer[LitePullConsumer]):
    """Starts, reads and closes the hosted consumer."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # An error in a loop means that its message was not consumed.
        self._close(consumed=kind is None)

    def _start(self) -> None:
        self._host.start(self._hosted.start, self.config.start_timeout_s)

    def _close(self, *, consumed: bool = True) -> None:
        self._host.close(lambda: self._hosted.close(consumed=consumed), self.config.close_timeout_s)

    def _assign(
        self, queues: Collection[MessageQueue], *, tags: str = SUB_ALL, sql: str | None = None
    ) -> None:
        if self._host.running:
            self._call(self._hosted.assign(queues, tags=tags, sql=sql))
        else:
            self._hosted.assign_first(queues, tags=tags, sql=sql)

    def _poll(self, timeout_s: float, *, max_count: int | None) -> list[ReceivedMessage]:
        return self._host.call(self._hosted.poll(timeout_s, max_count=max_count), timeout_s + SPARE_S)

    def __iter__(self) -> Iterator[ReceivedMessage]:
        return self

    def __next__(self) -> ReceivedMessage:
        work = self._hosted.working
        # Fetched in bulk, so that not every message is a trip to the loop thread and back.
        while (message := work.iteration.next()) is None:
            try:
                deliveries = self._host.call(work.take_next(POLL_S, self.config.pull_batch), POLL_S + SPARE_S)
            except ClientClosed:
                raise StopIteration from None
            work.iteration.add(deliveries)
        return message
