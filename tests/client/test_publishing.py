"""What listeners return is published: by argument, by decorator, by several of them, and not when it is an outcome."""

from dataclasses import dataclass

import pytest

import rocketeer
from rocketeer import MSGPACK, RETRY, App, Context, Message, Outcome, ReceivedMessage, RetryPolicy
from support.cluster import ServerCluster
from support.consuming import make_topic, options, until


@dataclass
class Parcel:
    order: int


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
async def test_what_a_listener_returns_is_sent_before_its_message_counts(
    cluster: ServerCluster, topic: str, kind: str
) -> None:
    parcels, bills, copies = f"{topic}-p", f"{topic}-b", f"{topic}-c"
    for each in (topic, parcels, bills, copies):
        make_topic(cluster, each, queues=1)
    app = App(codec=MSGPACK, group=f"G-{topic}", **options(cluster))
    tries: list[tuple[int, int]] = []

    def answer(number: int, context: Context) -> Parcel | Message | Outcome:
        tries.append((number, context.tries))
        if number == 1:
            return Parcel(1)
        if number == 2:
            return Message(bills, b"as it is", tags="own")
        if number == 3 and context.tries == 1:
            return RETRY
        return None

    async def answer_async(number: int, context: Context) -> Parcel | Message | Outcome:
        return answer(number, context)

    app.listener(topic, publish=parcels, retry=RetryPolicy(backoff=[0.1]))(
        answer if kind == "plain" else answer_async
    )

    @app.listener(parcels, group=f"C-{topic}")
    @app.publish(copies)
    @app.publish(bills)
    async def bill(parcel: Parcel) -> dict[str, int]:
        return {"bill": parcel.order}

    got: dict[str, list[object]] = {bills: [], copies: []}

    @app.listener(bills, group=f"B-{topic}")
    def billed(message: ReceivedMessage) -> None:
        got[bills].append((message.tags, message.body))

    @app.listener(copies, group=f"B-{topic}")
    def copied(bill: dict[str, int]) -> None:
        got[copies].append(bill)

    async with app:
        for number in (1, 2, 3):
            app.producer.send(topic, number)
        await until(lambda: len(got[bills]) == 2 and bool(got[copies]) and (3, 2) in tries)
    assert (None, MSGPACK.encode({"bill": 1})) in got[bills]
    assert ("own", b"as it is") in got[bills]
    assert got[copies] == [{"bill": 1}]


async def test_a_message_whose_answer_was_not_sent_comes_again(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic, queues=1)
    make_topic(cluster, f"{topic}-p", queues=1)
    tries: list[int] = []

    class Once(rocketeer.Middleware):
        def publish(self, context: rocketeer.PublishContext) -> rocketeer.Publishing:
            if context.message.topic == f"{topic}-p" and len(tries) == 1:
                raise rocketeer.SendFailed(context.message.topic, ())
            return (yield)

    app = App(group=f"G-{topic}", middlewares=[Once()], **options(cluster))

    @app.listener(topic, publish=f"{topic}-p", retry=RetryPolicy(backoff=[0.1]))
    def answer(text: str, context: Context) -> str:
        tries.append(context.tries)
        return text

    async with app:
        app.producer.send(topic, "one")
        await until(lambda: tries == [1, 2])


TYPED = """
from dataclasses import dataclass
from collections.abc import Iterator
from typing import Annotated

from rocketeer import (
    App, Consuming, Context, Depends, LogHandler, Message, Middleware, Producer, PublishContext, Publishing, PushConsumer,
    ReceivedMessage, RetryPolicy,
)
from rocketeer.middlewares import Logging, Timeout

@dataclass
class Order:
    id: int

class Timed(Middleware):
    def consume(self, context: Context) -> Consuming:
        try:
            return (yield)
        finally:
            context.state["done"] = context.message.message_id

    def publish(self, context: PublishContext) -> Publishing:
        context.add_properties({"a": "b"})
        result = yield
        return result

def session() -> Iterator[str]:
    yield "session"

app = App(group="g", middlewares=[Timed(), Logging()], concurrency=3, producer={"retries": 3})

@app.listener("orders", publish="bills", retry=RetryPolicy(backoff=[1, 2], retry=(OSError,)))
def bill(order: Order, db: Annotated[str, Depends(session)], message: ReceivedMessage) -> str:
    return db.upper() + message.topic

@app.listener("others", middlewares=[Timeout(3)])
@app.publish("more")
async def more(order: Order, context: Context, db: str = Depends(session)) -> int:
    return context.tries

@app.dead_letters("orders")
def dead(message: ReceivedMessage) -> None:
    print(message.failure.reason if message.failure else "?")

consumer = PushConsumer("g", middlewares=[Timed()])

@consumer.subscribe("orders")
def take(order: Order, context: Context) -> None: ...

reveal_type(bill)
wrong: int = app.listener("x", tagz="a")
app.listener("y", concurrency="many")
async def awaited() -> int:
    return 1
def misfit(order: Order, number: str = Depends(awaited)) -> None: ...
Producer("g").send("orders", Order(1)).message_id.upper()
LogHandler("logs", send_timeout_s=3)
"""


def test_strict_type_checkers_see_all_of_it(tmp_path: object) -> None:
    from pathlib import Path

    from mypy import api

    path = Path(str(tmp_path)) / "shop.py"
    path.write_text(TYPED)
    said, errors, _ = api.run(["--strict", "--no-incremental", "--follow-imports=silent", str(path)])
    assert errors == ""
    lines = [line.partition(": ")[2] for line in said.splitlines()]
    assert any("def (order: shop.Order, db: str, message:" in line and "-> str" in line for line in lines), (
        said
    )
    wrong = [line for line in lines if line.startswith("error")]
    assert len(wrong) == 4, said
    assert any('(default has type "int", parameter has type "str")' in line for line in wrong)
    assert any('"tagz"' in line for line in wrong)
    assert any('Argument "concurrency" to' in line for line in wrong)
