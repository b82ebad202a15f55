"""Flow control: requests that waited too long before they are served are turned away, until they wait no more.

RocketMQ looks how long a send stood in its thread pool's queue. Here one loop serves everything, and what waits,
waits for its turn of the loop: in the sockets' buffers, where nobody can ask it since when. So a probe waits among
them: it is due every 20 ms, and by how much it comes late is how long requests wait now. A single late turn (a
collection, a slow disk, a busy machine) is over when it is noticed, and turning away what it held up would help
nobody; when the next turn is late as well there is a queue, and whatever has waited longer than its kind may (sends
200 ms, ends of transactions 3 s, pulls 5 s, heartbeats 31 s) gets SYSTEM_BUSY until a turn is in time again. Other
requests have no limit, as in RocketMQ.

A stall in the middle of storing (the system writes its page cache back, and the copy into the log waits) is seen as
soon as it is over: the log says how long its slowest append took. The sends that queued up behind it are turned away
as RocketMQ does it. (Its other answers to a busy page cache, [PC_SYNCHRONIZED] and [REJECTREQUEST], are for threads
that come while another one hangs in an append. Here there is one thread, so nobody can.)
"""

import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from rocketeer.broker.feature import ConfigChange, Feature, Periodic, SetTemporaryGuard
from rocketeer.config import BrokerConfig, StoreConfig
from rocketeer.errors import RequestRefused
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command
from rocketeer.remoting.router import Connection, TemporaryGuard

log = logging.getLogger(__name__)

PROBE_S: Final = 0.02
_STALLED: Final = "PCBUSY_CLEAN_QUEUE"
SENDS: Final[Collection[int]] = frozenset(
    {
        RequestCode.SEND_MESSAGE,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.CONSUMER_SEND_MSG_BACK,
    }
)


@dataclass(frozen=True)
class WaitLimits:
    """How long requests of a kind may have waited; those of each kind are the ones RocketMQ queues together."""

    send_ms: int
    pull_ms: int
    heartbeat_ms: int
    transaction_ms: int

    @classmethod
    def of(cls, config: BrokerConfig) -> "WaitLimits":
        return cls(
            send_ms=config.send_wait_ms_max,
            pull_ms=config.pull_wait_ms_max,
            heartbeat_ms=config.heartbeat_wait_ms_max,
            transaction_ms=config.transaction_wait_ms_max,
        )

    def by_code(self) -> dict[int, int]:
        return {
            **dict.fromkeys(SENDS, self.send_ms),
            RequestCode.PULL_MESSAGE: self.pull_ms,
            RequestCode.HEART_BEAT: self.heartbeat_ms,
            RequestCode.END_TRANSACTION: self.transaction_ms,
        }


class FlowControl:
    """Decides from how late the probe comes; `beat` is called on the loop."""

    def __init__(
        self,
        limits: WaitLimits,
        *,
        page_cache_busy_ms: int,
        longest_append_s: Callable[[], float] = lambda: 0.0,
        now_s: Callable[[], float] = time.monotonic,
        probe_s: float = PROBE_S,
    ) -> None:
        """`longest_append_s`: how long the log's slowest append took since this was last asked."""
        self.set_limits(limits, page_cache_busy_ms)
        self.on_limiting: list[SetTemporaryGuard] = []
        self._longest_append_s = longest_append_s
        self._now_s = now_s
        self._probe_s = probe_s
        self._due_s: float | None = None
        self._late_before = False
        self._waited_ms = 0
        self._reason = ""
        self._turned_away = 0

    def set_limits(self, limits: WaitLimits, page_cache_busy_ms: int) -> None:
        """Replace the limits at run time."""
        self._limits_ms = limits.by_code()
        self._least_ms = min(self._limits_ms.values())
        self.page_cache_busy_ms = page_cache_busy_ms

    @property
    def is_limiting(self) -> bool:
        return bool(self._reason)

    def beat(self) -> None:
        """The probe: due `probe_s` after the last one."""
        now_s = self._now_s()
        waited_ms = 0 if self._due_s is None else max(0, int((now_s - self._due_s) * 1000))
        self._due_s = now_s + self._probe_s
        stalled_ms = int(self._longest_append_s() * 1000)
        late = waited_ms >= self._least_ms
        if stalled_ms >= self.page_cache_busy_ms > 0:
            self._begin(_STALLED, max(stalled_ms, waited_ms))
        elif late and (self._late_before or self.is_limiting):
            self._begin("TIMEOUT_CLEAN_QUEUE", waited_ms)
        elif self.is_limiting:
            self._end()
        self._late_before = late

    def guard(self, command: Command, connection: Connection) -> None:
        """Turns away what has waited longer than its kind may; behind a stall, every send."""
        limit_ms = self._limits_ms.get(command.code)
        if limit_ms is None:
            return
        if self._waited_ms < limit_ms and not (self._reason == _STALLED and command.code in SENDS):
            return
        self._turned_away += 1
        raise RequestRefused(
            ResponseCode.SYSTEM_BUSY,
            f"[{self._reason}]broker busy, start flow control for a while, period in queue: "
            f"{self._waited_ms}ms, size of queue: {self._turned_away}",
        )

    def _begin(self, reason: str, waited_ms: int) -> None:
        if not self.is_limiting:
            log.warning("flow control begins reason=%s waited_ms=%d", reason, waited_ms)
            self._turned_away = 0
        self._reason, self._waited_ms = reason, waited_ms
        self._set_guard(self.guard)

    def _end(self) -> None:
        log.warning("flow control ends reason=%s refused=%d", self._reason, self._turned_away)
        self._reason = ""
        self._set_guard(None)

    def _set_guard(self, guard: TemporaryGuard | None) -> None:
        for set_guard in self.on_limiting:
            set_guard(guard)


def flow_feature(control: FlowControl) -> Feature:
    keys = (
        "waitTimeMillsInSendQueue",
        "waitTimeMillsInPullQueue",
        "waitTimeMillsInHeartbeatQueue",
        "waitTimeMillsInTransactionQueue",
        "osPageCacheBusyTimeOutMills",
    )

    def follow(broker: BrokerConfig, store: StoreConfig) -> None:
        control.set_limits(WaitLimits.of(broker), store.os_page_cache_busy_ms)

    return Feature(
        "flow control",
        temporary_guards=(control.on_limiting.append,),
        services=(Periodic("flow probe", PROBE_S, control.beat),),
        changes=(ConfigChange(keys, follow),),
    )
