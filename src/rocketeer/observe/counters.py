"""What the paths of messages and requests count while they work: plain additions, read by whoever reports.

Messages that come in are not counted here: the ends of the queues say how many there were (`stored.py`).
"""

from bisect import bisect_left
from collections.abc import Callable
from typing import Final

from rocketeer.model.offsets import QueueOffset
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.steps import Steps

GROUPS_MAX: Final = 50_000
"""Pairs of topic and group that are told apart; what further ones consume counts for the broker only."""
QUEUES_MAX: Final = 500_000
"""Queues of all pairs that are told apart; further ones count for their topic and group only."""

CREATE_BUCKETS_MS: Final = (10, 100, 1000, 3000, 5000)
RPC_BUCKETS_MS: Final = (1, 3, 5, 7, 10, 100, 1000, 2000, 3000)
FINISH_BUCKETS_MS: Final = (5_000, 60_000, 600_000, 3_600_000, 43_200_000, 86_400_000)
PUT_BUCKETS_MS: Final = (0, 10, 50, 100, 200, 500, 1_000, 2_000, 3_000, 4_000, 5_000, 10_000)
"""RocketMQ's: up to so many milliseconds each; what is slower than the last is in one more."""


_PULL: Final = 11
_KNOWN: Final = frozenset(int(code) for code in RequestCode)
_KNOWN_ANSWERS: Final = frozenset(int(code) for code in ResponseCode)
UNKNOWN_CODE: Final = -1
_US_PLACES: Final = 40
_US_MAX: Final = 1 << (_US_PLACES - 1)


class Histogram:
    """Counts of values by bucket; `counts[i]` are those up to `bounds[i]` and above the bucket before."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[int, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    @property
    def count(self) -> int:
        return sum(self.counts)


class QueueGets:
    """What one group got of one queue."""

    __slots__ = ("ms", "pulled_to", "pulls")

    def __init__(self) -> None:
        self.pulled_to = 0
        """The offset behind the last message it got."""
        self.pulls = 0
        """Pulls that were answered at once with messages."""
        self.ms = 0.0
        """Milliseconds that these pulls took."""


class GroupGets:
    """What one group got of one topic."""

    __slots__ = ("bytes", "disk_bytes", "disk_messages", "messages", "pulls", "queues")

    def __init__(self) -> None:
        self.messages = 0
        self.bytes = 0
        self.pulls = 0
        self.disk_messages = 0
        self.disk_bytes = 0
        self.queues: dict[int, QueueGets] = {}


class Counters:
    """One of them for a broker; everybody who counts is given it. Belongs to the loop thread."""

    def __init__(self) -> None:
        self.gets: dict[tuple[str, str], GroupGets] = {}
        """What each group got, by topic and group."""
        self._other_gets = GroupGets()
        self._queues = 0
        """Number of queues of all pairs in `gets`."""
        self._other_queue = QueueGets()
        self.pulls_found = 0
        self.pulls_missed = 0
        self.messages_out = 0
        self.get_ms_max = 0
        self.puts_failed = 0
        self.put_ms_max = 0
        self.puts = 0
        self.put_times = [0] * (len(PUT_BUCKETS_MS) + 1)
        """Messages by how long they took to be copied into the log and dispatched, in PUT_BUCKETS_MS."""
        self.put_us = [0] * _US_PLACES
        """The same by powers of two: place n has those of less than 2^n microseconds and no place before."""
        self.sent_back: dict[tuple[str, str], int] = {}
        self.dead: dict[tuple[str, str], int] = {}
        """Dead letters by the topic they came from and group."""
        self.create_ms = {17: Histogram(CREATE_BUCKETS_MS), 200: Histogram(CREATE_BUCKETS_MS)}
        """How long changes of topics (17) and groups (200) took."""
        self.commits: dict[str, int] = {}
        self.rollbacks: dict[str, int] = {}
        self.finish_ms: dict[str, Histogram] = {}
        """From a transaction's half message to its end, by topic."""
        self.rpc: dict[tuple[int, int, bool], Histogram] = {}
        """Milliseconds from a request to its reply, by request code, response code and whether it was held."""

    def pull_answered(
        self,
        pair: tuple[str, str],
        queue_id: int,
        next_offset: QueueOffset,
        messages: int,
        size: int,
        from_disk: bool,
        code: int,
        took_ms: float,
        held: bool,
    ) -> None:
        """A pull of (topic, group) was answered with `code`; the next one asks for `next_offset`."""
        rpc = self.rpc.get((_PULL, code, held)) or self._new_rpc(_PULL, code, held)
        rpc.sum += took_ms
        if took_ms <= 1:  # nearly always
            rpc.counts[0] += 1
        else:
            rpc.counts[bisect_left(RPC_BUCKETS_MS, took_ms)] += 1
            if not held and took_ms > self.get_ms_max:
                self.get_ms_max = int(took_ms)
        if not messages:
            self.pulls_missed += 1
            return
        gets = self.gets.get(pair) or self._new_gets(pair)
        gets.pulls += 1
        gets.messages += messages
        gets.bytes += size
        queue = gets.queues.get(queue_id)
        if queue is None:
            queue = self._new_queue(gets, queue_id)
        queue.pulled_to = next_offset
        if not held:
            queue.pulls += 1
            queue.ms += took_ms
        if from_disk:
            gets.disk_messages += messages
            gets.disk_bytes += size
        self.pulls_found += 1
        self.messages_out += messages

    def put(self, messages: int, took_s: float) -> None:
        """Count messages that were stored together."""
        self.puts += messages
        took_us = int(took_s * 1_000_000)
        self.put_us[took_us.bit_length() if took_us < _US_MAX else -1] += messages
        if took_us < 1_000:  # nearly always
            self.put_times[0] += messages
            return
        took_ms = took_us // 1_000
        self.put_times[bisect_left(PUT_BUCKETS_MS, took_ms)] += messages
        if took_ms > self.put_ms_max:
            self.put_ms_max = took_ms

    def answered(
        self, request_code: int, response_code: int, held: bool, took_ms: float, times: int = 1
    ) -> None:
        histogram = self.rpc.get((request_code, response_code, held))
        if histogram is None:
            histogram = self._new_rpc(request_code, response_code, held)
        histogram.sum += took_ms * times
        if took_ms <= 1:  # nearly always
            histogram.counts[0] += times
        else:
            histogram.counts[bisect_left(RPC_BUCKETS_MS, took_ms)] += times

    def _new_rpc(self, request_code: int, response_code: int, held: bool) -> Histogram:
        """Codes that nobody knows are one: whoever sends them must not fill our memory, nor Prometheus'.

        Members of groups say what is answered to 307 and 309.
        """
        request_code = request_code if request_code in _KNOWN else UNKNOWN_CODE
        key = (request_code, response_code if response_code in _KNOWN_ANSWERS else UNKNOWN_CODE, held)
        if key not in self.rpc:
            self.rpc[key] = Histogram(RPC_BUCKETS_MS)
        return self.rpc[key]

    def answered_by_router(self, request_code: int, response_code: int, took_s: float) -> None:
        self.answered(request_code, response_code, False, took_s * 1000)
        if request_code in self.create_ms:
            self.create_ms[request_code].add(took_s * 1000)

    def went_back(self, topic: str, group: str, *, dead: bool) -> None:
        """A consumer sent a message back: to be tried again later, or it is a dead letter now."""
        table = self.dead if dead else self.sent_back
        if (topic, group) in table or len(table) < GROUPS_MAX:
            table[topic, group] = table.get((topic, group), 0) + 1

    def ended(self, topic: str, committed: bool, open_ms: int) -> None:
        """A transaction ended, so long after its half message was stored."""
        table = self.commits if committed else self.rollbacks
        table[topic] = table.get(topic, 0) + 1
        if committed:
            if topic not in self.finish_ms:
                self.finish_ms[topic] = Histogram(FINISH_BUCKETS_MS)
            self.finish_ms[topic].add(open_ms)

    def forget(self, is_gone: Callable[[str, str], bool]) -> Steps[None]:
        """Drop what was counted for topics and groups that are gone: `is_gone(topic, group)`; group "" is none."""
        for pair in list(self.gets):
            if is_gone(*pair):
                gets = self.gets.pop(pair, None)
                self._queues -= 0 if gets is None else len(gets.queues)
            yield
        for pairs in (self.sent_back, self.dead):
            for pair in list(pairs):
                if is_gone(*pair):
                    pairs.pop(pair, None)
                yield
        for topics in (self.commits, self.rollbacks, self.finish_ms):
            for topic in list(topics):
                if is_gone(topic, ""):
                    topics.pop(topic, None)
                yield

    def _new_gets(self, pair: tuple[str, str]) -> GroupGets:
        if len(self.gets) >= GROUPS_MAX:
            return self._other_gets
        gets = self.gets[pair] = GroupGets()
        return gets

    def _new_queue(self, gets: GroupGets, queue_id: int) -> QueueGets:
        if self._queues >= QUEUES_MAX:
            return self._other_queue
        self._queues += 1
        queue = gets.queues[queue_id] = QueueGets()
        return queue
