"""Sends of one moment share requests: nobody but the network notices."""

import asyncio
import re
import threading
import time
from collections import defaultdict

import pytest

from rocketeer import ClientError
from rocketeer import Producer as SyncProducer
from rocketeer.aio import (
    Message,
    MessageTooLarge,
    Producer,
    PullConsumer,
    ReceivedMessage,
    SendFailed,
    SendTimeout,
)
from rocketeer.client.aio.send_order import RouteSendOrder
from rocketeer.client.core.hooks import SendContext
from rocketeer.client.core.send_result import SendResult, SendStatus, split_result
from rocketeer.model.queue import MessageQueue
from rocketeer.model.route import Route
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import Command, reply
from support.cluster import ServerCluster, chosen_make
from support.consuming import make_topic, until, wait_stored
from support.scripted_broker import ScriptedBroker, scripted_broker, silence
from support.scripted_broker import stored as answer_stored

BATCH, SINGLE = RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGE_V2


async def stored(
    cluster: ServerCluster, topic: str, count: int, queues: int = 4
) -> dict[str, ReceivedMessage]:
    """By message id; waits until the queues show so many."""
    await asyncio.to_thread(wait_stored, cluster, topic, count, queues)
    async with PullConsumer(f"G-{topic}", nameserver=cluster.namesrv) as consumer:
        return {
            message.message_id: message
            for queue in await consumer.queues(topic)
            async for message in consumer.read(queue)
        }


def numbers_by_key(found: dict[str, ReceivedMessage]) -> dict[str, list[int]]:
    """The last six digits of the bodies, as their queues have them."""
    seen: dict[str, list[int]] = defaultdict(list)
    for message in sorted(found.values(), key=lambda each: each.queue_offset):
        seen[message.properties.get("__SHARDINGKEY", "")].append(int(message.body[-6:]))
    return seen


async def test_each_caller_gets_its_own_result_and_consumers_see_no_difference(
    cluster: ServerCluster, topic: str
) -> None:
    make_topic(cluster, topic)
    messages = [
        Message(topic, b"%d" % n, tags=f"t{n % 3}", keys=f"k{n}", flag=n, properties={"number": str(n)})
        for n in range(500)
    ]
    async with Producer("P", nameserver=cluster.namesrv) as producer:
        results = await asyncio.gather(*map(producer.send, messages))
        alone = await producer.send(messages[0])
    async with Producer("P", nameserver=cluster.namesrv, batch_bytes=0) as producer:
        unbatched = await producer.send(messages[0])
    found = await stored(cluster, topic, 502)
    assert len(found) == 502
    for message, result in zip(messages, results, strict=True):
        there = found[result.message_id]
        assert (there.body, there.flag, there.tags, there.keys) == (
            message.body,
            message.flag,
            message.tags,
            [message.keys],
        )
        assert (there.queue_offset, there.offset_message_id) == (
            result.queue_offset,
            result.offset_message_id,
        )
        assert there.queue == result.queue
    kept = [
        {
            name: value
            for name, value in found[result.message_id].properties.items()
            if name not in {"UNIQ_KEY", "MAX_OFFSET"}
        }
        for result in (results[0], alone, unbatched)
    ]
    assert kept[0] == kept[1] == kept[2]


@pytest.mark.parametrize("in_flight_max", [1000, 20])
async def test_messages_of_a_key_stay_in_order_also_with_one_that_goes_alone(
    cluster: ServerCluster, topic: str, in_flight_max: int
) -> None:
    make_topic(cluster, topic)
    large = b"z" * 9000  # is compressed, so it cannot share a request
    async with Producer("P", nameserver=cluster.namesrv, in_flight_max=in_flight_max) as producer:
        sends = [
            producer.send(
                Message(
                    topic,
                    (large if n % 50 == 7 else b"") + b"%06d" % n,
                    sharding_key=f"key-{n % 5}",
                    wait_stored=n % 30 > 4,  # those share no request with others
                )
            )
            for n in range(300)
        ]
        await asyncio.gather(*sends)
    seen = numbers_by_key(await stored(cluster, topic, 300))
    assert len(seen) == 5
    assert all(numbers == sorted(numbers) for numbers in seen.values())


async def test_a_request_for_a_chosen_queue_does_not_overtake_an_unanswered_one() -> None:
    def keyed(body: bytes) -> Message:
        return Message("T", body, sharding_key="k")

    with scripted_broker({BATCH: silence}) as broker:
        async with Producer("P", nameserver=broker.address, close_timeout_s=0.1) as producer:
            began_s = time.monotonic()
            outcomes = await asyncio.gather(
                producer.send(keyed(b"1"), timeout_s=2),
                producer.send(keyed(b"2"), timeout_s=2),
                producer.send(keyed(b"alone" * 1000), timeout_s=0.2),
                producer.send([keyed(b"of"), keyed(b"a list")], timeout_s=0.2),
                producer.send(keyed(b"3"), timeout_s=0.2),
                return_exceptions=True,
            )
        assert time.monotonic() - began_s < 20
        assert [type(outcome) for outcome in outcomes] == [SendTimeout] * 5
        assert all("those before it in" in str(outcome) for outcome in outcomes[2:])
        assert (len(broker.asked(BATCH)), broker.asked(SINGLE)) == (1, [])


def test_a_request_of_a_thread_for_a_chosen_queue_does_not_overtake_an_unanswered_one() -> None:
    def keyed(body: bytes) -> Message:
        return Message("T", body, sharding_key="k")

    with scripted_broker({BATCH: silence}) as broker:
        config = {"nameserver": broker.address, "close_timeout_s": 0.1, "linger_ms": 500, "async_retries": 0}
        with SyncProducer("P", **config) as producer:  # type: ignore[arg-type]
            first = [producer.send_async(keyed(b"x"), timeout_s=2) for _ in range(2)]
            behind = [
                producer.send_async(keyed(b"alone" * 1000), timeout_s=0.2),
                producer.send_async([keyed(b"of"), keyed(b"a list")], timeout_s=0.2),
                producer.send_async(keyed(b"3"), timeout_s=0.2),
            ]
            errors = [future.exception(20) for future in (*first, *behind)]
        assert [type(error) for error in errors] == [SendTimeout] * 5
        assert all("those before it in" in str(error) for error in errors[2:])
        assert (len(broker.asked(BATCH)), broker.asked(SINGLE)) == (1, [])


def bodies(broker: ScriptedBroker) -> list[bytes]:
    """Of the messages as they came, alone or together: the digits that follow each `body-`."""
    sent = sorted((*broker.asked(SINGLE), *broker.asked(BATCH)), key=lambda command: command.opaque)
    return [body for command in sent for body in re.findall(rb"body-(\d+)", command.body)]


@pytest.mark.parametrize("later", ["sharding key", "named queue", "too large for a batch"])
async def test_a_send_in_the_moment_the_route_comes_does_not_overtake_those_that_wait_for_it(
    later: str,
) -> None:
    with scripted_broker() as broker:
        sizes = {"batch_bytes": 4000, "compress_over_bytes": 1 << 20}
        async with Producer("P", nameserver=broker.address, **sizes) as producer:  # type: ignore[arg-type]
            sent: list[asyncio.Task[SendResult]] = []

            def send(number: int, body: bytes = b"", **target: MessageQueue) -> None:
                key = None if target else "k"
                message = Message("T", b"body-%d;" % number + body, sharding_key=key)
                sent.append(asyncio.create_task(producer.send(message, **target)))

            def now_it_is_known(topic: str, route: Route) -> None:
                """Nobody who waits for it has heard of it yet."""
                if later == "named queue":
                    send(3, queue=of_key)
                else:
                    send(3, b"z" * 9000 if later == "too large for a batch" else b"")

            of_key = (await producer.send(Message("other", b"x", sharding_key="k"))).queue
            of_key = MessageQueue("T", of_key.broker_name, of_key.queue_id)
            producer.working.instance.routes.on_change.append(now_it_is_known)
            for number in range(3):
                send(number)
            await until(lambda: len(sent) == 4)
            send(4)
            results = await asyncio.gather(*sent)
        assert {result.queue for result in results} == {of_key}
        assert len(broker.asked(RequestCode.GET_ROUTEINFO_BY_TOPIC)) >= 2
        assert bodies(broker) == [b"0", b"1", b"2", b"3", b"4"]


async def test_who_gives_up_waiting_for_a_route_lets_nobody_pass_those_before_it() -> None:
    lines = RouteSendOrder()
    found: list[int] = []

    async def wait(number: int, known: asyncio.Event) -> None:
        async def find() -> MessageQueue:
            await known.wait()
            return MessageQueue("T", "b", number)

        found.append((await lines.wait("T", find(), 60)).queue_id)

    events = [asyncio.Event() for _ in range(3)]
    tasks = [asyncio.create_task(wait(number, event)) for number, event in enumerate(events)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    events[2].set()
    for _ in range(20):
        await asyncio.sleep(0)
    assert found == []
    assert "T" in lines
    events[0].set()
    await asyncio.gather(tasks[0], tasks[2])
    assert found == [0, 2]
    assert "T" not in lines
    with pytest.raises(asyncio.CancelledError):
        await tasks[1]


async def test_who_waits_behind_others_for_a_route_does_so_within_its_own_time() -> None:
    lines = RouteSendOrder()

    async def found_at_once() -> MessageQueue:
        return MessageQueue("T", "b", 0)

    never: asyncio.Future[MessageQueue] = asyncio.get_running_loop().create_future()
    first = asyncio.create_task(lines.wait("T", never, 60))
    await asyncio.sleep(0)
    with pytest.raises(SendTimeout, match="those before it still wait"):
        await lines.wait("T", found_at_once(), 0.05)
    first.cancel()
    await asyncio.wait((first,))
    await asyncio.sleep(0)
    assert "T" not in lines


async def test_sends_gather_in_one_request_while_the_one_before_is_unanswered() -> None:
    go_on = threading.Event()

    def answer_later(command: Command) -> Command:
        go_on.wait(10)
        return answer_stored(command)

    with scripted_broker({SINGLE: answer_later, BATCH: answer_later}) as broker:
        async with Producer("P", nameserver=broker.address) as producer:
            tasks = []
            for number in range(20):
                tasks.append(
                    asyncio.create_task(producer.send(Message("T", b"%d" % number, sharding_key="k")))
                )
                await asyncio.sleep(0)
                if not number:
                    await asyncio.to_thread(broker.wait_for, SINGLE)
            await asyncio.sleep(0)
            tasks[5].cancel()
            go_on.set()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            assert [n for n, each in enumerate(outcomes) if not isinstance(each, SendResult)] == [5]
            await producer.send(Message("T", b"the queue is free again", sharding_key="k"))
        assert (len(broker.asked(BATCH)), len(broker.asked(SINGLE))) == (1, 2)


async def test_one_that_is_wrong_harms_no_other(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic)
    wrong = Message(topic, b"x", properties={"long": "x" * 40_000})
    async with Producer("P", nameserver=cluster.namesrv) as producer:
        outcomes = await asyncio.gather(
            *(producer.send(wrong if n == 5 else Message(topic, b"%d" % n)) for n in range(10)),
            return_exceptions=True,
        )
    assert isinstance(outcomes.pop(5), MessageTooLarge)
    assert all(isinstance(outcome, SendResult) for outcome in outcomes)
    assert len(await stored(cluster, topic, 9)) == 9


async def test_what_cannot_be_in_a_batch_goes_alone() -> None:
    with scripted_broker() as broker:
        async with Producer("P", nameserver=broker.address) as producer:
            await asyncio.gather(
                *(producer.send(Message("T", b"x", delay_level=1)) for _ in range(3)),
                *(producer.send(Message("T", b"x", delay=5)) for _ in range(3)),
                *(producer.send(Message("T", b"x" * 5000)) for _ in range(3)),
            )
        assert (len(broker.asked(SINGLE)), broker.asked(BATCH)) == (9, [])
        async with Producer("P", nameserver=broker.address, batch_bytes=0) as producer:
            await asyncio.gather(*(producer.send(Message("T", b"x")) for _ in range(5)))
        assert (len(broker.asked(SINGLE)), broker.asked(BATCH)) == (14, [])


async def test_sends_that_come_within_the_linger_share_a_request() -> None:
    with scripted_broker() as broker:
        async with Producer("P", nameserver=broker.address, linger_ms=300) as producer:
            tasks = []
            for _ in range(5):
                tasks.append(asyncio.create_task(producer.send(Message("T", b"x"))))
                for _ in range(10):  # turns of the loop: time would pass more quickly on a busy machine
                    await asyncio.sleep(0)
            await asyncio.gather(*tasks)
        assert (len(broker.asked(BATCH)), broker.asked(SINGLE)) == (1, [])


async def test_a_batch_that_fails_fails_each_of_its_sends() -> None:
    with scripted_broker({BATCH: lambda command: None}) as broker:
        async with Producer(
            "P", nameserver=broker.address, send_timeout_s=0.3, close_timeout_s=0.2
        ) as producer:
            outcomes = await asyncio.gather(
                *(producer.send(Message("T", b"x")) for _ in range(5)), return_exceptions=True
            )
    assert all(isinstance(outcome, SendFailed) for outcome in outcomes)
    assert len({id(outcome) for outcome in outcomes}) == 5


async def test_a_batch_that_is_refused_is_sent_one_by_one() -> None:
    def refuse(command: Command) -> Command:
        return reply(command, 13, "not as a batch")

    with scripted_broker({BATCH: refuse}) as broker:
        async with Producer("P", nameserver=broker.address) as producer:
            results = await asyncio.gather(*(producer.send(Message("T", b"%d" % n)) for n in range(5)))
        assert len({result.message_id for result in results}) == 5
        assert [command.body for command in broker.asked(SINGLE)] == [b"%d" % n for n in range(5)]


@pytest.mark.parametrize("places", ["a,b,c", "a"])
def test_a_result_is_split_by_ids_and_offsets(places: str) -> None:
    queue = MessageQueue("T", "b", 1)
    whole = SendResult(SendStatus.SEND_OK, "1,2,3", places, queue, 7)
    each = split_result(whole, 3)
    assert [(one.message_id, one.queue_offset, one.queue) for one in each] == [
        ("1", 7, queue),
        ("2", 8, queue),
        ("3", 9, queue),
    ]
    assert [one.offset_message_id for one in each] == (["a", "b", "c"] if len(places) > 1 else ["a"] * 3)


class Notes:
    """A hook that writes down what it sees, adds a property, and forbids what it is told to."""

    def __init__(self, forbidden: bytes = b"") -> None:
        self.forbidden = forbidden
        self.seen: list[tuple[str, bytes]] = []
        self.results: dict[bytes, SendResult | None] = {}

    def before_send(self, context: SendContext) -> None:
        if context.outgoing.body == self.forbidden:
            raise ValueError("not this one")
        self.seen.append(("before", context.outgoing.body))
        context.outgoing.properties["seen"] = context.outgoing.body.decode()

    def after_send(self, context: SendContext) -> None:
        self.seen.append(("after", context.outgoing.body))
        self.results[context.outgoing.body] = context.result


async def test_hooks_see_each_message_of_a_shared_request_by_itself(
    cluster: ServerCluster, topic: str
) -> None:
    make_topic(cluster, topic)
    notes = Notes()
    async with Producer("P", nameserver=cluster.namesrv, hooks=[notes]) as producer:
        results = await asyncio.gather(*(producer.send(Message(topic, b"%d" % n)) for n in range(20)))
    assert {result.queue for result in results} == {results[0].queue}, "they share one request"
    assert notes.seen == [(when, b"%d" % n) for when in ("before", "after") for n in range(20)]
    assert [notes.results[b"%d" % n] for n in range(20)] == results
    found = await stored(cluster, topic, 20)
    for result in results:
        assert found[result.message_id].properties["seen"] == found[result.message_id].text


async def test_a_hook_that_forbids_one_message_forbids_no_other(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic)
    async with Producer("P", nameserver=cluster.namesrv, hooks=[Notes(forbidden=b"3")]) as producer:
        outcomes = await asyncio.gather(
            *(producer.send(Message(topic, b"%d" % n)) for n in range(6)), return_exceptions=True
        )
    refused = outcomes.pop(3)
    assert isinstance(refused, ValueError)
    assert str(refused) == "not this one"
    assert all(isinstance(outcome, SendResult) for outcome in outcomes)
    assert {message.body for message in (await stored(cluster, topic, 5)).values()} == {
        b"%d" % n for n in range(6) if n != 3
    }


@pytest.mark.skipif(chosen_make() == "apache", reason="idempotent producers are ours")
@pytest.mark.parametrize("hooked", [False, True])
async def test_idempotent_sends_of_one_moment_share_requests_and_keep_their_numbers(
    cluster: ServerCluster, topic: str, hooked: bool
) -> None:
    make_topic(cluster, topic, queues=2)
    hooks = [Notes(forbidden=b"7")] if hooked else []
    async with Producer("P", nameserver=cluster.namesrv, idempotent=True, hooks=hooks) as producer:
        outcomes = await asyncio.gather(
            *(producer.send(Message(topic, b"%d" % n, sharding_key=f"k{n % 2}")) for n in range(200)),
            return_exceptions=True,
        )
    wrong = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    assert [str(error) for error in wrong] == (["not this one"] if hooked else [])
    by_queue: dict[int, list[ReceivedMessage]] = defaultdict(list)
    for message in (await stored(cluster, topic, 200 - len(wrong), queues=2)).values():
        by_queue[message.queue_id].append(message)
    assert sum(map(len, by_queue.values())) == 200 - len(wrong)
    for messages in by_queue.values():
        messages.sort(key=lambda message: message.queue_offset)
        numbers = [int(message.properties["PRODUCER_SEQ"]) for message in messages]
        assert numbers == list(range(len(messages)))
        bodies = [int(message.body) for message in messages]
        assert hooked or bodies == sorted(bodies)


def test_async_sends_of_threads_share_requests_too() -> None:
    with scripted_broker() as broker:
        with SyncProducer("P", nameserver=broker.address, linger_ms=100) as producer:
            futures = [producer.send_async(Message("T", b"%d" % n)) for n in range(50)]
            results = [future.result(10) for future in futures]
        assert (len(broker.asked(BATCH)), broker.asked(SINGLE)) == (1, [])
        assert len({result.message_id for result in results}) == 50


def test_async_sends_of_threads_are_stored_each_with_its_result_and_in_the_order_of_their_keys(
    cluster: ServerCluster, topic: str
) -> None:
    make_topic(cluster, topic)
    large = b"z" * 9000  # is compressed, so it cannot share a request
    with SyncProducer("P", nameserver=cluster.namesrv) as producer:
        producer.send(Message(topic, b"000000"))
        futures = [
            producer.send_async(
                Message(topic, (large if n % 50 == 7 else b"") + b"%06d" % n, sharding_key=f"key-{n % 5}")
            )
            for n in range(1, 300)
        ]
        results = [future.result(10) for future in futures]
    found = asyncio.run(stored(cluster, topic, 300))
    assert {result.message_id for result in results} < set(found)
    for number, result in enumerate(results, 1):
        assert found[result.message_id].body.endswith(b"%06d" % number)
    assert all(numbers == sorted(numbers) for numbers in numbers_by_key(found).values())


def test_an_async_send_of_a_thread_that_is_wrong_raises_at_once_or_harms_no_other(
    cluster: ServerCluster, topic: str
) -> None:
    make_topic(cluster, topic)
    wrong = Message(topic, b"x", properties={"long": "x" * 40_000})
    with SyncProducer("P", nameserver=cluster.namesrv, message_bytes_max=1000, linger_ms=50) as producer:
        with pytest.raises(MessageTooLarge):
            producer.send_async(Message(topic, b"x" * 1001))
        futures = [producer.send_async(wrong if n == 5 else Message(topic, b"%d" % n)) for n in range(10)]
        errors = [future.exception(10) for future in futures]
    assert isinstance(errors.pop(5), MessageTooLarge)
    assert errors == [None] * 9


def test_closing_ends_async_sends_of_threads_that_nobody_answers() -> None:
    with scripted_broker({BATCH: lambda command: None, SINGLE: lambda command: None}) as broker:
        producer = SyncProducer(
            "P", nameserver=broker.address, send_timeout_s=30, close_timeout_s=0.2, linger_ms=50
        )
        futures = [producer.send_async(Message("T", b"x")) for _ in range(5)]
        broker.wait_for(BATCH)
        producer.close()
        assert all(isinstance(future.exception(10), ClientError) for future in futures)
