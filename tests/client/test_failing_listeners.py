"""However a listener or its policy fails, its message comes again, and its worker goes on with the others."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from rocketeer import ConsumeContext, ConsumeHook, ReceivedMessage, RetryPolicy
from rocketeer.aio import PushConsumer
from support.cluster import ServerCluster
from support.consuming import make_topic, names, options, send, until


class Ended(BaseException):
    """As what threads and test runners raise to end somebody."""


async def await_what_was_cancelled() -> None:
    other = asyncio.ensure_future(asyncio.sleep(60))
    other.cancel()
    await other


def cancelled() -> None:
    raise asyncio.CancelledError


def ended() -> None:
    raise Ended


def failed() -> None:
    raise OSError("the bank is away")


def no_pause(tries: int) -> float:
    raise ZeroDivisionError(f"after {tries} tries")


class Told(ConsumeHook):
    def __init__(self) -> None:
        self.errors: list[BaseException] = []

    def after_consume(self, context: ConsumeContext) -> None:
        if context.error is not None:
            self.errors.append(context.error)


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "ordered"])
@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "task"])
@pytest.mark.parametrize(
    ("how", "backoff"),
    [
        (cancelled, [0.1]),
        (ended, [0.1]),
        (lambda: False, [0.1]),
        (failed, no_pause),
        (failed, lambda tries: float("nan")),
        (failed, lambda tries: -1),
    ],
    ids=["cancelled", "ended", "returned-false", "backoff-raises", "backoff-nan", "backoff-negative"],
)
async def test_a_message_comes_again_and_the_others_come_too(
    cluster: ServerCluster, topic: str, how: Callable[[], Any], backoff: Any, is_async: bool, orderly: bool
) -> None:
    make_topic(cluster, topic, queues=1)
    seen: list[tuple[str, int]] = []
    consumer = PushConsumer(
        f"G-{topic}", orderly=orderly, suspend_s=0.1, concurrency=1, **options(cluster, rebalance_s=0.5)
    )

    def take(message: ReceivedMessage) -> Any:
        seen.append((message.text, message.reconsume_times))
        return how() if len(seen) == 1 else None

    async def take_async(message: ReceivedMessage) -> Any:
        return take(message)

    consumer.subscribe(topic, take_async if is_async else take, retry=RetryPolicy(backoff=backoff))
    await send(cluster, topic, names(3))
    async with consumer:
        await until(lambda: len(seen) == 4)
    first = seen[0][0]
    assert sorted(seen) == sorted([(name, 0) for name in names(3)] + [(first, 1)])


async def test_a_hook_is_told_of_a_listener_whose_own_await_was_cancelled(
    cluster: ServerCluster, topic: str
) -> None:
    make_topic(cluster, topic, queues=1)
    told = Told()
    consumer = PushConsumer(f"G-{topic}", hooks=[told], **options(cluster))

    @consumer.subscribe(topic, retry=RetryPolicy(ignore=(asyncio.CancelledError,)))
    async def take(message: ReceivedMessage) -> None:
        await await_what_was_cancelled()

    await send(cluster, topic, names(1))
    async with consumer:
        await until(lambda: bool(told.errors))
    assert isinstance(told.errors[0], asyncio.CancelledError)


async def test_closing_ends_a_listener_that_hangs_and_its_message_comes_again(
    cluster: ServerCluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    make_topic(cluster, topic, queues=1)
    seen: list[int] = []
    ends: list[BaseException] = []

    async def hang(message: ReceivedMessage) -> None:
        seen.append(message.reconsume_times)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError as error:
            ends.append(error)
            raise

    await send(cluster, topic, names(1))
    before = asyncio.all_tasks()
    first = PushConsumer(f"G-{topic}", close_timeout_s=0.1, **options(cluster))
    first.subscribe(topic, hang)
    with caplog.at_level(logging.WARNING):
        async with first:
            await until(lambda: len(seen) == 1)
    await until(lambda: asyncio.all_tasks() == before)
    assert len(ends) == 1
    assert "listener failed" not in caplog.text, "it was ended, and has not failed"
    again = PushConsumer(f"G-{topic}", **options(cluster))
    again.subscribe(topic, lambda message: seen.append(message.reconsume_times))
    async with again:
        await until(lambda: len(seen) == 2)
    assert seen == [0, 0]
