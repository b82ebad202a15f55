"""What becomes of a message its listener failed at is said per listener, by what it raised."""

import pytest

import rocketeer
from rocketeer import App, ConfigError, ReceivedMessage, Retry, RetryPolicy
from rocketeer.aio import PullConsumer, PushConsumer
from support.cluster import ServerCluster
from support.consuming import make_topic, options, send, until


class AlreadyDone(Exception):
    pass


def test_errors_decide() -> None:
    policy = RetryPolicy(
        backoff=[1, 10, 60], dead_letter=(ValueError,), ignore=(AlreadyDone, KeyError), tries_max=5
    )
    assert policy.outcome(AlreadyDone(), 1) is None
    assert policy.outcome(UnicodeError(), 1) == Retry(delay_level=-1), "a ValueError too"
    assert [policy.outcome(OSError(), tries) for tries in (1, 2, 3, 4)] == [
        Retry(delay_level=1, suspend_s=1.0, delay_s=1.0),
        Retry(delay_level=3, suspend_s=10.0, delay_s=10.0),
        Retry(delay_level=5, suspend_s=60.0, delay_s=60.0),
        Retry(delay_level=5, suspend_s=60.0, delay_s=60.0),
    ]
    assert policy.outcome(OSError(), 5) == Retry(delay_level=-1)
    assert RetryPolicy(backoff=lambda tries: 2.0**tries).outcome(OSError(), 4) == Retry(4, 16.0, delay_s=16.0)
    assert RetryPolicy().outcome(OSError(), 99) == Retry()
    only = RetryPolicy(retry=(OSError,), ignore=(KeyError,))
    assert only.outcome(TimeoutError(), 1) == Retry(), "an OSError too"
    assert only.outcome(KeyError(), 1) is None
    assert only.outcome(ZeroDivisionError(), 1) == Retry(delay_level=-1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"ignore": (3,)},
        {"dead_letter": ValueError},
        {"tries_max": 0},
        {"backoff": []},
        {"backoff": [-1]},
        {"retry": OSError},
    ],
)
def test_policies_that_cannot_be_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        RetryPolicy(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("orderly", [False, True])
async def test_ignored_dead_and_tried_again(cluster: ServerCluster, topic: str, orderly: bool) -> None:
    make_topic(cluster, topic, queues=1)
    group = f"G-{topic}"
    seen: list[tuple[str, int]] = []
    consumer = PushConsumer(group, orderly=orderly, **options(cluster))
    policy = RetryPolicy(backoff=[0.1], dead_letter=(ValueError,), ignore=(AlreadyDone,))

    @consumer.subscribe(topic, retry=policy)
    def take(message: ReceivedMessage) -> None:
        seen.append((message.text, message.reconsume_times))
        if message.text == "bad":
            raise ValueError("never good")
        if message.text == "done":
            raise AlreadyDone
        if message.text == "again" and message.reconsume_times == 0:
            raise OSError("not now")

    await send(cluster, topic, ["done", "bad", "again", "good"])
    async with consumer, PullConsumer(f"D-{topic}", nameserver=cluster.namesrv) as reader:
        await until(lambda: ("again", 1) in seen and ("good", 0) in seen)
        dead: list[str] = []
        while not dead:
            try:
                queues = await reader.queues(f"%DLQ%{group}")
            except rocketeer.NoRoute:
                continue
            dead = [message.text for queue in queues async for message in reader.read(queue)]
    assert dead == ["bad"]
    assert sorted(seen) == [("again", 0), ("again", 1), ("bad", 0), ("done", 0), ("good", 0)]


async def test_an_app_has_policies_too(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic, queues=1)
    app = App(**options(cluster))
    seen: list[str] = []

    @app.listener(topic=topic, group=f"G-{topic}", retry=RetryPolicy(ignore=(AlreadyDone,)))
    def take(text: str) -> None:
        seen.append(text)
        raise AlreadyDone

    await send(cluster, topic, ["one", "two"])
    async with app:
        await until(lambda: len(seen) == 2)
    assert sorted(seen) == ["one", "two"]
