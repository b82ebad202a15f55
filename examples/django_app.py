"""Django: a view that sends once the database has committed, and listeners that use the ORM.

rocketeer run django_app:listeners runs the listeners beside the web servers; as an example all is in one process,
with a table in memory. Prints: order 7 is paid
"""

import os
import time
from collections.abc import Iterator
from typing import Annotated

import django
from django.conf import settings
from django.db import close_old_connections, connection, models, transaction
from django.http import HttpRequest, HttpResponse
from django.urls import path

from rocketeer import App, ConsumeFromWhere, Depends

if not settings.configured:
    settings.configure(
        SECRET_KEY="an example",
        ALLOWED_HOSTS=["testserver"],
        ROOT_URLCONF=__name__,
        DATABASES={
            # One table for all threads; a real application names its database here.
            "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "file:shop?mode=memory&cache=shared"}
        },
    )
    django.setup()


class Order(models.Model):
    id = models.IntegerField(primary_key=True)
    paid = models.BooleanField(default=False)

    class Meta:
        app_label = "shop"


listeners = App(
    nameserver=os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876"),
    group="django-billing",
    consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
)


def database() -> Iterator[None]:
    """As Django does around a request: connections too old go, and the message's work is one transaction."""
    close_old_connections()
    with transaction.atomic():
        yield
    close_old_connections()


@listeners.listener("django-orders", rebalance_s=1)
def pay(order: dict[str, int], db: Annotated[None, Depends(database)]) -> None:
    Order.objects.filter(id=order["id"]).update(paid=True)


def place(request: HttpRequest, number: int) -> HttpResponse:
    with transaction.atomic():
        Order.objects.create(id=number)
        transaction.on_commit(lambda: listeners.producer.send("django-orders", {"id": number}))
    return HttpResponse(status=201)


urlpatterns = [path("orders/<int:number>", place)]


if __name__ == "__main__":
    import asyncio
    import threading

    from django.test import Client

    with connection.schema_editor() as editor:
        editor.create_model(Order)
    serving = threading.Thread(target=lambda: asyncio.run(listeners.serve()))
    serving.start()
    while not listeners.ready:
        time.sleep(0.05)
    assert Client().post("/orders/7").status_code == 201
    while not Order.objects.get(id=7).paid:
        time.sleep(0.05)
    print("order 7 is paid")
    listeners.stop()
    serving.join()
