"""The locks of ordered queues: a member that goes, at whatever moment, leaves none behind."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

from rocketeer.aio import PushConsumer, RpcContext
from rocketeer.client.aio.instance import ClientInstance
from rocketeer.client.aio.queue_locks import QueueLocks
from rocketeer.client.core.config import ConsumerConfig
from rocketeer.client.plans.brokers import ClusterRoutes
from rocketeer.errors import ConnectionLost
from rocketeer.protocol.codes import RequestCode
from support.cluster import ServerCluster
from support.consuming import make_topic, options, send, until

STEPS_MAX = 40
"""So many steps of the event loop are more than a question needs where the broker is not busy."""
LOCK_S = 60
"""What is not given back is kept from the others for so long."""


@contextlib.asynccontextmanager
async def locks_of(cluster: ServerCluster, group: str, name: str) -> AsyncIterator[QueueLocks]:
    config = ConsumerConfig(group, nameserver=cluster.namesrv, instance_name=name)
    instance = await ClientInstance.acquire(config)
    try:
        yield QueueLocks(config, instance, ClusterRoutes(instance.routes, instance.nameservers, 3.0))
    finally:
        await instance.release()


async def test_a_question_broken_off_at_any_step_leaves_no_lock_behind(
    cluster: ServerCluster, topic: str
) -> None:
    queues = make_topic(cluster, topic)
    broken_off = 0
    async with locks_of(cluster, f"G-{topic}", "a") as first, locks_of(cluster, f"G-{topic}", "b") as second:
        assert all((await first.take(queues)).values())
        await first.give_back(queues)
        for steps in range(STEPS_MAX + 1):
            asking = asyncio.create_task(first.take(queues))
            for _ in range(steps):
                await asyncio.sleep(0)
            if steps == STEPS_MAX:  # a busy broker may answer none of those before
                await asyncio.wait([asking])
            broken_off += asking.cancel()
            await first.give_back_all(but=())
            answers = await second.take(queues)
            assert [bool(answers[queue]) for queue in queues] == [True] * 4, f"locked after {steps} steps"
            await second.give_back_all(but=())
    assert 2 < broken_off <= STEPS_MAX, "both kinds were tried"


async def test_what_is_let_go_while_others_ask_is_not_asked_for(cluster: ServerCluster, topic: str) -> None:
    queues = make_topic(cluster, topic)
    kept, gone = queues[:2], set(queues[2:])
    async with locks_of(cluster, f"G-{topic}", "a") as first, locks_of(cluster, f"G-{topic}", "b") as second:
        held = set(queues)
        assert all((await first.take(queues)).values())
        giving = asyncio.create_task(first.give_back(gone))
        renewing = asyncio.create_task(first.take(queue for queue in queues if queue in held))
        await asyncio.sleep(0)  # the renewal waits for its turn with the list it was made of
        held -= gone
        await asyncio.gather(giving, renewing)
        answers = await second.take(queues)
        assert {queue for queue, until_s in answers.items() if until_s} == gone
        await first.give_back_all(but=kept[:1])
        answers = await second.take(kept)
        assert [bool(answers[queue]) for queue in kept] == [False, True]


class Refusing:
    """Fails the next questions for locks, so many; `asked_s` tells when each was asked since then."""

    def __init__(self) -> None:
        self.failures = 0
        self.asked_s: list[float] = []

    def before_request(self, context: RpcContext) -> None:
        if context.code != RequestCode.LOCK_BATCH_MQ or not self.failures:
            return
        self.asked_s.append(time.monotonic())
        if len(self.asked_s) <= self.failures:
            raise ConnectionLost(context.address, "as the test wants it")

    def after_reply(self, context: RpcContext) -> None:
        pass


async def test_a_lock_that_was_not_renewed_is_asked_for_again_soon(
    cluster: ServerCluster, topic: str
) -> None:
    """It would run out before the next renewal is due, and the queue stand still until then."""
    make_topic(cluster, topic, queues=1)
    hook = Refusing()
    got: list[str] = []
    assigned: set[str] = set()
    config = options(
        cluster,
        lock_renew_s=5.0,
        lock_expire_s=6.0,
        rpc_hooks=(hook,),
        queue_listener=lambda topic, queues, mine: assigned.add(topic) if mine else None,
    )
    consumer = PushConsumer(f"G-{topic}", orderly=True, **config)
    consumer.subscribe(topic, lambda message: got.append(message.text))
    async with consumer:
        await until(lambda: len(assigned) == 2, "its own topic and its retry topic are locked")
        hook.failures = 2
        await until(lambda: len(hook.asked_s) == 3, "two that fail, and the next")
        await send(cluster, topic, ["behind it"])
        await until(lambda: got == ["behind it"])
    first, second, third = hook.asked_s[:3]
    assert max(second - first, third - second) < 4.0


async def test_members_that_come_and_go_at_once_hand_their_queues_over(
    cluster: ServerCluster, topic: str
) -> None:
    make_topic(cluster, topic)

    def member() -> PushConsumer:
        consumer = PushConsumer(f"G-{topic}", orderly=True, **options(cluster, rebalance_s=0.5))
        consumer.subscribe(topic, lambda message: None)
        return consumer

    async with member() as stays:
        for round_number in range(20):
            guests = [member(), member()]
            await asyncio.gather(*(guest.start() for guest in guests))
            for _ in range(round_number):
                await asyncio.sleep(0.002)  # so that each round breaks off something else
            await asyncio.gather(*(guest.close() for guest in guests))
        took_s = await until(lambda: sum(queue.topic == topic for queue in stays.queues) == 4, "all are back")
    assert took_s < LOCK_S / 2
