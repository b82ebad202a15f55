"""Every test has topics and groups of its own, under the names the program uses."""

from dataclasses import dataclass
from typing import Annotated

import pytest

from rocketeer import App, Depends, ReceivedMessage, RetryPolicy
from rocketeer.testing import Isolated
from support.consuming import until, until_sync


@dataclass
class Order:
    id: int


def price_of() -> int:
    return 100


app = App(group="billing")
billed: list[tuple[int, int]] = []


@app.listener("orders", publish="receipts", retry=RetryPolicy(tries_max=1))
def bill(order: Order, price: Annotated[int, Depends(price_of)]) -> dict[str, int]:
    if order.id < 0:
        raise ValueError("no such order")
    billed.append((order.id, price))
    return {"id": order.id, "price": price}


@pytest.mark.parametrize("number", [1, 2])
async def test_the_same_app_begins_with_empty_topics_in_each_test(
    rocketeer_isolated: Isolated, number: int
) -> None:
    billed.clear()
    async with rocketeer_isolated.run(app):
        app.producer.send("orders", Order(number))
        await until(lambda: bool(rocketeer_isolated.messages("receipts")))
    assert billed == [(number, 100)]
    (receipt,) = rocketeer_isolated.messages("receipts")
    assert receipt.text == f'{{"id":{number},"price":100}}'
    assert receipt.topic == "receipts"


def test_dependencies_are_replaced_and_dead_letters_read_without_asyncio(
    rocketeer_isolated: Isolated,
) -> None:
    billed.clear()
    app.dependency_overrides[price_of] = lambda: 5
    try:
        with rocketeer_isolated.run_in_thread(app), rocketeer_isolated.producer() as producer:
            producer.send("orders", Order(3))
            producer.send("orders", Order(-1))
            until_sync(lambda: bool(billed) and bool(rocketeer_isolated.dead_letters("billing")))
    finally:
        app.dependency_overrides.clear()
    assert billed == [(3, 5)]
    (dead,) = rocketeer_isolated.dead_letters("billing")
    assert dead.failure is not None
    assert dead.failure.reason == "ValueError: no such order"
    assert rocketeer_isolated.messages("nothing-here") == []


def test_two_never_share_a_namespace(rocketeer_isolated: Isolated, rocketeer_cluster: object) -> None:
    other = Isolated(rocketeer_cluster)  # type: ignore[arg-type]
    assert other.namespace != rocketeer_isolated.namespace
    with rocketeer_isolated.producer() as producer:
        producer.send("orders", "mine")
    until_sync(lambda: bool(rocketeer_isolated.messages("orders")), "the topic's route is known")
    assert [message.text for message in rocketeer_isolated.messages("orders")] == ["mine"]
    assert other.messages("orders") == []


def test_the_names_are_the_programs_own(rocketeer_isolated: Isolated) -> None:
    rocketeer_isolated.create_topic("orders")
    with rocketeer_isolated.producer() as producer:
        producer.send("orders", "x")
    message: ReceivedMessage = rocketeer_isolated.messages("orders")[0]
    assert message.topic == "orders"
    assert message.stored_topic == f"{rocketeer_isolated.namespace}%orders"
