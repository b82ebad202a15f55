"""Sends that share a request: whatever becomes of them, each has its own outcome, and its place is free again.

Compiled and plain by the same laws.
"""

import asyncio
import contextvars
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

from rocketeer.client.aio import shared_send_plain
from rocketeer.client.aio.send_limit import AsyncSendLimit
from rocketeer.client.core import in_flight_plain
from rocketeer.client.core.hooks import SendMode
from rocketeer.client.core.send_result import SendResult, SendStatus
from rocketeer.compiled import COMPILED
from rocketeer.errors import ClientError, SendFailed, TooManyInFlight
from rocketeer.model.message import Message
from rocketeer.model.property_names import DEDUP_ID
from rocketeer.model.queue import MessageQueue

QUEUE = MessageQueue("T", "broker-a", 3)
MODULES: list[tuple[ModuleType, ModuleType]] = [(shared_send_plain, in_flight_plain)]
if COMPILED:
    MODULES.append(
        (
            import_module("rocketeer.client.aio._shared_send"),
            import_module("rocketeer.client.core._in_flight"),
        )
    )


def message(number: int = 0, **fields: Any) -> Message:
    return Message("T", b"%d" % number, **fields)


class HeldSends:
    """A producer's sends without a broker: batches are kept until the test answers them."""

    def __init__(
        self, modules: tuple[ModuleType, ModuleType], places: int = 100, stalled_s: float = 5
    ) -> None:
        self.module, in_flight = modules
        self.limit = AsyncSendLimit(in_flight.InFlight(places, 1 << 20), stalled_s)
        self.sends = self.module.SharedSends(asyncio.get_running_loop(), self.limit, self)
        self.batches: list[Any] = []
        self.left: list[Any] = []

    def add(self, sent: Message, queue: MessageQueue | None, timeout_s: float | None, waiter: Any) -> Any:
        batch = self.module.Batch(len(self.batches), sent, queue, timeout_s, SendMode.SYNC, 1 << 20)
        self.batches.append(batch)
        batch.join(sent, waiter)
        return batch

    def full(self, batch: Any) -> None:
        batch.shut = True
        self.left.append(batch)

    def begin(self, count: int = 1, timeout_s: float | None = None) -> list[asyncio.Task[SendResult]]:
        async def send(number: int) -> SendResult:
            result: SendResult = await self.sends.share(message(number), None, timeout_s)
            return result

        return [asyncio.create_task(send(number)) for number in range(count)]

    def answer(self, batch: Any) -> None:
        batch.shut = True
        count = len(batch.waiters)
        joined = [",".join(f"{kind}{at}" for at in range(count)) for kind in ("id", "place")]
        self.module.finish(batch.waiters, SendResult(SendStatus.SEND_OK, joined[0], joined[1], QUEUE, 70))


@pytest.fixture(params=MODULES, ids=["plain", "compiled"][: len(MODULES)])
def modules(request: pytest.FixtureRequest) -> tuple[ModuleType, ModuleType]:
    chosen: tuple[ModuleType, ModuleType] = request.param
    return chosen


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_each_gets_its_part_of_the_batch(modules: Any) -> None:
    held = HeldSends(modules)
    tasks = held.begin(3)
    await turns()
    assert [len(batch.messages) for batch in held.batches] == [3], "the second and third join the first"
    assert held.limit.in_flight.count == 3
    held.answer(held.batches[0])
    results = await asyncio.gather(*tasks)
    assert [(each.message_id, each.offset_message_id, each.queue_offset) for each in results] == [
        ("id0", "place0", 70),
        ("id1", "place1", 71),
        ("id2", "place2", 72),
    ]
    assert held.limit.in_flight.count == 0


async def test_a_batch_of_one_has_its_result_as_it_is(modules: Any) -> None:
    held = HeldSends(modules)
    (task,) = held.begin()
    await turns()
    result = SendResult(SendStatus.FLUSH_DISK_TIMEOUT, "a", "b", QUEUE, 1, recall_handle="r")
    held.module.finish(held.batches[0].waiters, result)
    assert await task is result
    assert held.limit.in_flight.count == 0


async def test_one_place_in_the_log_may_stand_for_all(modules: Any) -> None:
    held = HeldSends(modules)
    tasks = held.begin(2)
    await turns()
    held.module.finish(held.batches[0].waiters, SendResult(SendStatus.SEND_OK, "x,y", "first", QUEUE, 5))
    assert [each.offset_message_id for each in await asyncio.gather(*tasks)] == ["first", "first"]


async def test_ids_of_another_number_than_messages_are_nobodys(modules: Any) -> None:
    held = HeldSends(modules)
    tasks = held.begin(2)
    await turns()
    for ids in ("x", "x,y,z"):
        with pytest.raises(ValueError, match="ids for 2 messages"):
            held.module.finish(held.batches[0].waiters, SendResult(SendStatus.SEND_OK, ids, "p", QUEUE, 5))
    assert held.limit.in_flight.count == 2
    held.answer(held.batches[0])
    await asyncio.gather(*tasks)


@pytest.mark.skipif(not COMPILED, reason="the compiled modules are not in use")
def test_compiled_and_plain_have_the_same_names() -> None:
    plain, compiled = (pair[0] for pair in MODULES)
    for name in ("Batch", "JoinRule", "SharedSends"):
        assert names_of(getattr(plain, name)) == names_of(getattr(compiled, name))
    of_future = names_of(asyncio.Future)
    assert names_of(compiled.SharedSend) | of_future == names_of(plain.SharedSend)


def names_of(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


async def test_other_terms_are_another_batch(modules: Any) -> None:
    held = HeldSends(modules)
    asked: list[tuple[Message, MessageQueue | None, float | None]] = [
        (message(), None, None),
        (message(), None, 3.0),
        (message(wait_stored=False), None, 3.0),
        (message(), QUEUE, 3.0),
        (Message("U", b"x"), None, None),
        (message(), None, None),
        (message(), None, None),
    ]
    for sent, queue, timeout_s in asked:
        held.sends.share(sent, queue, timeout_s)
    assert [len(batch.messages) for batch in held.batches] == [1, 1, 1, 1, 1, 2]


async def test_a_full_batch_leaves_and_the_next_one_begins(modules: Any) -> None:
    held = HeldSends(modules, places=5000)
    for _ in range(1030):
        held.sends.share(message(), None, None)
    assert [len(batch.messages) for batch in held.left] == [1024]
    assert [len(batch.messages) for batch in held.batches] == [1024, 6]


async def test_who_has_no_place_yet_enters_in_the_order_they_came(modules: Any) -> None:
    held = HeldSends(modules, places=2)
    tasks = held.begin(5)
    await turns()
    assert len(held.batches[0].messages) == 2
    assert len(held.limit.in_flight.waiting) == 3
    tasks[3].cancel()
    await turns()
    for _ in range(2):
        held.answer(held.batches[-1])
        await turns()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in outcomes] == [
        SendResult, SendResult, SendResult, asyncio.CancelledError, SendResult,
    ]  # fmt: skip
    assert [[each.body for each in batch.messages] for batch in held.batches] == [[b"0", b"1"], [b"2", b"4"]]
    assert held.limit.in_flight.count == 0


async def test_a_sender_that_is_cancelled_gives_its_place_back_and_the_others_are_answered(
    modules: Any,
) -> None:
    held = HeldSends(modules)
    tasks = held.begin(3)
    await turns()
    assert not held.module.any_done(held.batches[0].waiters)
    tasks[1].cancel("enough")
    await turns()
    assert held.module.any_done(held.batches[0].waiters)
    assert held.limit.in_flight.count == 2
    held.answer(held.batches[0])
    first, given_up, last = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(first, SendResult)
    assert isinstance(last, SendResult)
    assert isinstance(given_up, asyncio.CancelledError)
    assert held.limit.in_flight.count == 0


async def test_a_time_limit_around_a_send_ends_it(modules: Any) -> None:
    held = HeldSends(modules)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await held.sends.share(message(), None, None)
    assert held.limit.in_flight.count == 0


async def test_cancelled_in_the_moment_of_the_answer_the_place_is_free_once(modules: Any) -> None:
    held = HeldSends(modules)
    (task,) = held.begin()
    await turns()
    held.answer(held.batches[0])
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert held.limit.in_flight.count == 0


@pytest.mark.parametrize("error", [ClientError("no"), SendFailed("T", ())])
async def test_each_gets_its_own_error(modules: Any, error: Exception) -> None:
    held = HeldSends(modules)
    (task,) = held.begin()
    await turns()
    held.batches[0].waiters[0].set_exception(error)
    with pytest.raises(type(error)) as caught:
        await task
    assert caught.value is error
    assert held.limit.in_flight.count == 0


async def test_an_answer_that_came_before_it_was_awaited_is_there(modules: Any) -> None:
    held = HeldSends(modules)
    sent = held.sends.share(message(), None, None)
    held.answer(held.batches[0])
    assert (await sent).queue_offset == 70


async def test_nobody_answered_for_long_sends_those_away_who_wait(modules: Any) -> None:
    held = HeldSends(modules, places=1, stalled_s=0.01)
    tasks = held.begin(2)
    with pytest.raises(TooManyInFlight, match="1 sends are unanswered"):
        await tasks[1]
    assert not tasks[0].done()
    held.answer(held.batches[0])
    await tasks[0]


async def test_each_task_goes_on_in_its_own_context(modules: Any) -> None:
    held = HeldSends(modules)
    number: contextvars.ContextVar[int] = contextvars.ContextVar("number")

    async def send(value: int) -> int:
        number.set(value)
        await held.sends.share(message(value), None, None)
        return number.get()

    tasks = [asyncio.create_task(send(value)) for value in range(4)]
    await turns()
    held.answer(held.batches[0])
    assert await asyncio.gather(*tasks) == [0, 1, 2, 3]


async def test_the_tasks_of_one_batch_go_on_in_their_order(modules: Any) -> None:
    held = HeldSends(modules)
    order: list[int] = []

    async def send(value: int) -> None:
        await held.sends.share(message(value), None, None)
        order.append(value)

    tasks = [asyncio.create_task(send(value)) for value in range(20)]
    await turns()
    held.answer(held.batches[0])
    await asyncio.gather(*tasks)
    assert order == list(range(20))


def test_what_ends_the_loop_keeps_nobody_from_going_on(modules: Any) -> None:
    async def interrupt(held: HeldSends) -> None:
        await held.sends.share(message(), None, None)
        raise KeyboardInterrupt

    loop = asyncio.new_event_loop()
    desk_of: list[HeldSends] = []
    tasks: list[asyncio.Task[Any]] = []

    async def begin() -> None:
        held = HeldSends(modules)
        desk_of.append(held)
        tasks.append(asyncio.create_task(interrupt(held)))
        tasks.extend(held.begin(2))
        await turns()

    try:
        loop.run_until_complete(begin())
        loop.call_soon(lambda: desk_of[0].answer(desk_of[0].batches[0]))
        with pytest.raises(KeyboardInterrupt):
            loop.run_forever()
        results = loop.run_until_complete(asyncio.gather(*tasks[1:]))
        assert [each.message_id for each in results] == ["id1", "id2"]
    finally:
        with pytest.raises(KeyboardInterrupt):
            tasks[0].result()
        loop.close()


@pytest.mark.parametrize(
    ("sent", "taken"),
    [
        (message(), True),
        (message(tags="a", keys="b", properties={"c": "d"}), True),
        (message(delay_level=3), False),
        (message(delay=3), False),
        (message(properties={"__STARTDELIVERTIME": "1"}), False),
        (Message("%RETRY%G", b"x"), False),
        (Message("T", b"x" * 101), False),
        (Message("T", b"x" * 100), True),
        (Message("T", b""), False),
        ([message()], False),
        ("text", False),
    ],
)
def test_only_what_looks_the_same_in_a_batch_joins_one(modules: Any, sent: object, taken: bool) -> None:
    module, _ = modules
    assert module.JoinRule(100, idempotent=False).takes(sent) is taken


def test_a_message_with_an_id_of_its_own_goes_alone_where_that_counts(modules: Any) -> None:
    module, _ = modules
    own = message(properties={DEDUP_ID: "7"})
    assert module.JoinRule(100, idempotent=False).takes(own)
    assert not module.JoinRule(100, idempotent=True).takes(own)


def test_places_and_bytes_are_limited_but_one_always_passes(modules: Any) -> None:
    flight = modules[1].InFlight(2, 100)
    assert flight.try_enter(500), "alone, anything passes"
    assert not flight.try_enter(1)
    flight.leave(500)
    assert flight.try_enter(60)
    assert not flight.try_enter(60)
    assert flight.try_enter(40)
    assert not flight.try_enter(0)
    assert str(flight) == "2 sends are unanswered"
    flight.leave(100, 2)
    assert flight.count == 0
    with pytest.raises(AssertionError):
        flight.leave(1)
