"""A web application that sends and listens, FastAPI's: the listeners start and stop with it.

uvicorn fastapi_app:web serves it; as an example it asks itself for one order. Prints: order 7 was billed
"""

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI
from pydantic import BaseModel

from rocketeer import App, ConsumeFromWhere
from rocketeer.aio import Producer

NAMESERVER = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")


class Order(BaseModel):
    id: int


listeners = App(
    nameserver=NAMESERVER, group="fastapi-billing", consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
)
orders = Producer("fastapi-shop", nameserver=NAMESERVER)
billed: list[int] = []


@listeners.listener("fastapi-orders", rebalance_s=1)
async def bill(order: Order) -> None:
    billed.append(order.id)


@asynccontextmanager
async def lifespan(web: FastAPI) -> AsyncIterator[None]:
    async with orders, listeners:
        yield


web = FastAPI(lifespan=lifespan)


async def producer() -> Producer:
    return orders


@web.post("/orders")
async def place(order: Order, producer: Annotated[Producer, Depends(producer)]) -> str:
    result = await producer.send("fastapi-orders", order)
    return result.message_id


@web.get("/ready")
async def ready() -> bool:
    return listeners.ready


if __name__ == "__main__":
    from fastapi.testclient import TestClient

    with TestClient(web) as browser:
        assert browser.post("/orders", json={"id": 7}).status_code == 200
        while not billed:
            time.sleep(0.05)
        print(f"order {billed[0]} was billed")
