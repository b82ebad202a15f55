"""The pull consumer for threads, all but its public methods: calls are made on a socket of the calling thread.

Only the heartbeats run on the loop thread.
"""

from typing import TypeVar

from rocketeer.client.aio.pull_consumer import PullConsumer
from rocketeer.client.core.allocate import Strategy
from rocketeer.client.plans.effects import Plan
from rocketeer.client.plans.lookups import Lookups
from rocketeer.client.plans.reading import QueueQueries
from rocketeer.client.sync.driver import BlockingDriver
from rocketeer.client.sync.host import HostedConsumer
from rocketeer.errors import ClientClosed
from rocketeer.model.queue import MessageQueue

T = TypeVar("T")


class PullConsumerBase(HostedConsumer[PullConsumer]):
    """Runs the plans of the asyncio consumer in the calling thread."""

    def _set_up(self, hosted: PullConsumer) -> None:
        super()._set_up(hosted)
        self._driver: BlockingDriver | None = None

    def _start(self) -> None:
        self._host.start(self._hosted.start)
        self._driver = self._driver or BlockingDriver(self._hosted.security, self._hosted.config.rpc_hooks)

    def _close(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.close()
        self._host.close(self._hosted.close, self.config.close_timeout_s)

    def _my_queues(self, topic: str, *, strategy: Strategy) -> list[MessageQueue]:
        self._started()
        return self._call(self._hosted.my_queues(topic, strategy=strategy))

    @property
    def lookups(self) -> Lookups:
        return self._hosted.lookups

    def _started(self) -> QueueQueries:
        if self._driver is None:
            raise ClientClosed(f"consumer {self.config.group!r} is not running: start() it first")
        return self._hosted.reading

    def _run(self, plan: Plan[T]) -> T:
        assert self._driver is not None
        return self._driver.run(plan)

    def _abandon(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.abandon()
        super()._abandon()
