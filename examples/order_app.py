"""An application of listeners: rocketeer run order_app:app

It stops with Ctrl-C; as an example it also stops by itself when the order is through. Prints: order 7 was shipped
"""

import os
import signal

from rocketeer import App, Message, ReceivedMessage

app = App(nameserver=os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876"), producer_group="order-app")


@app.on_startup
def place_an_order() -> None:
    app.producer.send(Message("app-orders", b"7", tags="placed"))


@app.listener(topic="app-orders", group="warehouse", tags="placed", concurrency=4)
def pick(message: ReceivedMessage) -> None:
    app.producer.send(Message("app-parcels", message.body))


@app.listener(topic="app-parcels", group="carrier", orderly=True)
async def ship(message: ReceivedMessage) -> None:
    print(f"order {message.text} was shipped")
    os.kill(os.getpid(), signal.SIGTERM)  # what `kill`, systemd or Kubernetes would do


if __name__ == "__main__":
    app.run()
