"""Members that are killed under load: what `rocketeer bench failover` measures, and what it looks for afterwards.

load: plain and idempotent sends, each acknowledged one noted with its place
[kill -9 the leader -> the first acknowledged send begun since -> start it again -> all in sync] x kills
the same with a follower, three times
read everything: is each acknowledged message where it was acknowledged, is any idempotent one there twice?
"""

import asyncio
import itertools
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from rocketeer.bench.bar_result import BarResult
from rocketeer.bench.control import Control
from rocketeer.bench.groups import GroupCluster
from rocketeer.client.aio.producer import Producer
from rocketeer.errors import RocketeerError
from rocketeer.model.message import Message
from rocketeer.model.offsets import QueueOffset

PLAIN: Final = "FailoverPlain"
ONCE: Final = "FailoverOnce"
QUEUES: Final = 4
SEND_TIMEOUT_S: Final = 60.0
"""Longer than any failover: a send that is in flight when the leader dies is answered by the next one."""
BETWEEN_S: Final = 1.0
"""Pause between two kills, in which the load runs on a whole group."""
FOLLOWER_KILLS: Final = 3
PAUSE_S_MAX: Final = 5.0


class Acked(NamedTuple):
    topic: str
    body: bytes
    queue_id: int
    offset: QueueOffset


@dataclass
class AckedMessages:
    """What was acknowledged, and where; written by the load's thread."""

    acked: list[Acked] = field(default_factory=list)
    times: list[tuple[float, float]] = field(default_factory=list)
    """When each send was begun, and when it was acknowledged."""
    refused: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, kw_only=True)
class Failover:
    """Result of the measurement."""

    seconds: tuple[float, ...]
    """From each kill of a leader to the first acknowledged send that was begun after it."""
    follower_seconds: tuple[float, ...]
    """The same of a follower: its leader takes it out of the in-sync set first."""
    acknowledged: int
    lost: int
    doubled: int
    refused: Mapping[str, int]

    @property
    def median_s(self) -> float:
        return statistics.median(self.seconds)


class FailoverLoad(threading.Thread):
    """Two of our producers in a loop of their own, `in_flight` sends of each under way all the time."""

    def __init__(self, namesrv: str, *, in_flight: int, body_bytes: int) -> None:
        super().__init__(name="failover load", daemon=True)
        self.ledger = AckedMessages()
        self._namesrv = namesrv
        self._in_flight = in_flight
        self._padding = b"." * max(0, body_bytes - 24)
        self._numbers = itertools.count()
        self._loop: asyncio.AbstractEventLoop
        self._ending: asyncio.Event
        self._plain: Producer
        self._began = threading.Event()
        self._failure: BaseException | None = None

    def __enter__(self) -> "FailoverLoad":
        self.start()
        self._began.wait(SEND_TIMEOUT_S)
        self._check()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ending.set)
        self.join(2 * SEND_TIMEOUT_S)

    def _check(self) -> None:
        if self._failure is not None or not self.is_alive():
            raise RocketeerError(f"the load ended by itself: {self._failure!r}")

    def run(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as error:
            self._failure = error
        finally:
            self._began.set()

    async def _run(self) -> None:
        self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
        async with (
            Producer("bench-plain", nameserver=self._namesrv, send_timeout_s=SEND_TIMEOUT_S) as plain,
            Producer(
                "bench-once", nameserver=self._namesrv, send_timeout_s=SEND_TIMEOUT_S, idempotent=True
            ) as once,
        ):
            self._plain = plain
            async with asyncio.TaskGroup() as tasks:
                for _ in range(self._in_flight):
                    tasks.create_task(self._send_on(plain, PLAIN))
                    tasks.create_task(self._send_on(once, ONCE))
                self._began.set()

    async def _send_on(self, producer: Producer, topic: str) -> None:
        while not self._ending.is_set():
            await self._send(producer, topic)

    async def _send(self, producer: Producer, topic: str) -> float:
        """When it was acknowledged; sent as a new message until it is."""
        while True:
            body = b"%d " % next(self._numbers) + self._padding
            began_s = time.monotonic()
            try:
                result = await producer.send(Message(topic, body))
            except RocketeerError as error:
                self.ledger.refused[f"{topic}: {type(error).__name__}"] += 1
                continue
            now_s = time.monotonic()
            self.ledger.acked.append(Acked(topic, body, result.queue.queue_id, result.queue_offset))
            self.ledger.times.append((began_s, now_s))
            return now_s

    def begin_send(self) -> "Future[float]":
        """One more send by the plain producer, begun now."""
        return asyncio.run_coroutine_threadsafe(self._send(self._plain, PLAIN), self._loop)

    def first_acked_since(self, when_s: float) -> float:
        """When the first send was acknowledged that was begun after `when_s`."""
        self._check()
        self.begin_send().result(2 * SEND_TIMEOUT_S)
        return min(acked_s for began_s, acked_s in list(self.ledger.times) if began_s >= when_s)


# --- the runs --------------------------------------------------------------------------------


def failover(
    folder: Path,
    *,
    kills: int,
    in_flight: int,
    body_bytes: int,
    lease_s: int,
    say: Callable[[str], None],
) -> Failover:
    """Kill one leader after the other; raises when the group does not become whole again."""
    seconds: list[float] = []
    follower_seconds: list[float] = []
    conf = {"groupLeaseSeconds": lease_s, "waitTimeMillsInSendQueue": 10_000}
    with GroupCluster(folder, conf=conf) as group:
        group.wait_until_in_sync()
        with Control(group.wait_for_leader().address) as broker:
            for topic in (PLAIN, ONCE):
                broker.create_topic(topic, queues=QUEUES)
        with FailoverLoad(group.namesrv, in_flight=in_flight, body_bytes=body_bytes) as load:
            for number in range(1, kills + 1):
                seconds.append(_pause(group, load, leads=True))
                acknowledged = len(load.ledger.acked)
                say(f"kill {number}/{kills}: {seconds[-1]:.2f} s; {acknowledged:,} acknowledged so far")
            for number in range(1, FOLLOWER_KILLS + 1):
                follower_seconds.append(_pause(group, load, leads=False))
                say(f"kill of a follower {number}/{FOLLOWER_KILLS}: {follower_seconds[-1]:.2f} s")
            group.wait_until_in_sync()
        leader = group.wait_for_leader()
        lost, doubled = examine(load.ledger.acked, stored(leader.address))
    return Failover(
        seconds=tuple(round(each, 3) for each in seconds),
        follower_seconds=tuple(round(each, 3) for each in follower_seconds),
        acknowledged=len(load.ledger.acked),
        lost=lost,
        doubled=doubled,
        refused=dict(load.ledger.refused),
    )


def _pause(group: GroupCluster, load: FailoverLoad, *, leads: bool) -> float:
    """How long a send begun after the death of the leader, or of a follower, waits; the dead one is started again."""
    group.wait_until_in_sync()
    time.sleep(BETWEEN_S)
    leader = group.wait_for_leader()
    victim = leader if leads else next(each for each in group.members if each is not leader)
    victim.kill()
    killed_s = time.monotonic()
    waited_s = load.first_acked_since(killed_s) - killed_s
    victim.start()
    return waited_s


def stored(address: str) -> list[Acked]:
    """Every message that can be read, with its place."""
    with Control(address, timeout_s=SEND_TIMEOUT_S) as broker:
        return [
            Acked(topic, message.body, queue_id, message.queue_offset)
            for topic in (PLAIN, ONCE)
            for queue_id in range(QUEUES)
            for message in broker.messages(topic, queue_id)
        ]


def examine(acked: Iterable[Acked], found: Iterable[Acked]) -> tuple[int, int]:
    """(acknowledged messages that are not where they were acknowledged, idempotent ones that are there again)."""
    there = set(found)
    lost = sum(each not in there for each in acked)
    copies = Counter(each.body for each in there if each.topic == ONCE)
    return lost, sum(count - 1 for count in copies.values())


def failover_bars(result: Failover) -> list[BarResult]:
    """What is wanted: a pause of seconds, and nothing lost or doubled."""
    return [
        BarResult.limit(
            "median from kill -9 of the leader to the next acknowledged send",
            result.median_s,
            PAUSE_S_MAX,
            "s",
        ),
        BarResult.limit(
            "longest from kill -9 of a follower to the next acknowledged send",
            max(result.follower_seconds),
            PAUSE_S_MAX,
            "s",
        ),
        BarResult.limit("acknowledged messages lost", result.lost, 0, ""),
        BarResult.limit("messages of an idempotent producer stored twice", result.doubled, 0, ""),
    ]
