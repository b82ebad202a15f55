"""Which brokers a stream is waiting for: those that did not answer are asked again after pauses that grow."""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rocketeer.client.core.transient import passes
from rocketeer.errors import ClientError, RemotingError
from rocketeer.model.queue import MessageQueue
from rocketeer.spark.outages import Outage
from rocketeer.spark.source.offsets import QueueOffsets

log = logging.getLogger(__name__)


@dataclass
class _Unreachable:
    outage: Outage
    next_s: float


class UnreachableBrokers:
    """Asks each broker about its queues, and leaves those alone that are away."""

    def __init__(self, first_pause_s: float, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._first_pause_s = first_pause_s
        self._clock_s = clock_s
        self._away: dict[str, _Unreachable] = {}
        self.failures = 0
        """Questions that brought no answer, since the query began."""

    def __contains__(self, broker: object) -> bool:
        return broker in self._away

    def seconds(self) -> dict[str, float]:
        """How long which broker has been away."""
        return {name: away.outage.seconds for name, away in sorted(self._away.items())}

    def ask(
        self, question: Callable[[list[MessageQueue]], QueueOffsets], queues: Iterable[MessageQueue]
    ) -> QueueOffsets:
        """What the brokers say of their queues, without those that are away; raises what waiting does not mend."""
        by_broker: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            by_broker.setdefault(queue.broker_name, []).append(queue)
        found: QueueOffsets = {}
        for name, some in sorted(by_broker.items()):
            away = self._away.get(name)
            if away is not None and self._clock_s() < away.next_s:
                continue
            try:
                found |= question(some)
            except (RemotingError, ClientError) as error:
                if not passes(error):
                    raise  # denied, say: waiting for ever would hide it
                self._failed(name, error)
            else:
                if self._away.pop(name, None) is not None:
                    log.warning("broker is back broker=%s", name)
        return found

    def _failed(self, name: str, error: Exception) -> None:
        away = self._away.setdefault(
            name, _Unreachable(Outage(float("inf"), self._first_pause_s, self._clock_s), 0)
        )
        pause_s = away.outage.pause_s()
        assert pause_s is not None, "a stream waits for ever: others go on"
        away.next_s = self._clock_s() + pause_s
        self.failures += 1
        log.warning(
            "stream waits for broker=%s away_s=%.1f next_s=%.1f error=%s",
            name,
            away.outage.seconds,
            pause_s,
            error,
        )
