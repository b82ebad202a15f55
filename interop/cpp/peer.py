"""The C++ client (PyPI `rocketmq` 0.4.4) as a peer: one verb a run, one JSON line an event.

    send     --namesrv HOST:PORT --topic T --count N [--tags A,B] [--prefix m] [--body-bytes N] [--delay-level L]
             [--batch]
    ordered  --namesrv HOST:PORT --topic T --count N                      (queue = number modulo 2)
    consume  --namesrv HOST:PORT --topic T --group G --expect N [--expression "A || B"] [--fail-first] [--orderly]
             [--seconds S]
    pull     --namesrv HOST:PORT --topic T --group G [--expression "A || B"]

All take --access-key and --secret-key.

A body is the prefix and the number of the message, its key is `key-` and the same. `consume` ends when it has
accepted N different messages or S seconds are over; with --fail-first it refuses each message once.

Ends by os._exit: the library's threads outlive a polite end.
"""

import argparse
import ctypes
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from rocketmq.client import Message, Producer, PullConsumer, PushConsumer, RecvMessage
from rocketmq.exceptions import RocketMQException
from rocketmq.ffi import dll

CONSUME_SUCCESS, RECONSUME_LATER = 0, 1
ROUTE_S = 20.0
_lock = threading.Lock()


def event(name: str, **values: Any) -> None:
    with _lock:
        print(json.dumps({"event": name, **values}), flush=True)


def text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def message_event(name: str, message: RecvMessage) -> None:
    body = message.body
    event(
        name,
        topic=message.topic,
        queue=message.queue_id,
        offset=message.queue_offset,
        id=message.id,
        tags=text(message.tags),
        keys=text(message.keys),
        reconsume_times=message.reconsume_times,
        size=len(body),
        body=body[:64].decode(),
    )


def build(options: argparse.Namespace, number: int) -> Message:
    tags = options.tags.split(",") if options.tags else []
    name = f"{options.prefix}{number}"
    message = Message(options.topic)
    message.set_body((name + " ").ljust(options.body_bytes, "x") if options.body_bytes else name)
    message.set_keys(f"key-{name}")
    if tags:
        message.set_tags(tags[number % len(tags)])
    if options.delay_level:
        message.set_delay_time_level(options.delay_level)
    return message


def producer(options: argparse.Namespace) -> Producer:
    made = Producer("interop_cpp_producer", timeout=10_000)
    made.set_namesrv_addr(options.namesrv)
    sign_in(made, options)
    made.start()
    return made


def sign_in(client: Any, options: argparse.Namespace) -> None:
    if options.access_key:
        client.set_session_credentials(options.access_key, options.secret_key, "")


def send(options: argparse.Namespace) -> None:
    sender = producer(options)
    if options.batch:
        sent = sender.send_batch([build(options, number) for number in range(options.count)])
        event("sent", status=sent.status.name, id=sent.msg_id, offset=sent.offset)
    for number in () if options.batch else range(options.count):
        message = build(options, number)
        sent = _patiently(sender.send_sync, message)
        event("sent", status=sent.status.name, id=sent.msg_id, offset=sent.offset)
    event("done")


def _patiently(send: Callable[[Message], Any], message: Message) -> Any:
    """The library asks once where a topic is, and takes a busy name server's silence for a topic without a route."""
    give_up_s = time.monotonic() + ROUTE_S
    while True:
        try:
            return send(message)
        except RocketMQException as error:
            if "No route info" not in str(error) or time.monotonic() > give_up_s:
                raise
        time.sleep(0.2)


def _by_argument(_queues: int, _message: RecvMessage, argument: int) -> int:
    return ctypes.cast(argument, ctypes.POINTER(ctypes.c_int))[0]


def ordered(options: argparse.Namespace) -> None:
    sender = producer(options)
    for number in range(options.count):
        sent = sender.send_orderly(build(options, number), number % 2, queue_selector=_by_argument)
        event("sent", status=sent.status.name, id=sent.msg_id, offset=sent.offset)
    event("done")


def consume(options: argparse.Namespace) -> None:
    done: set[str] = set()
    failed: set[str] = set()
    finished = threading.Event()

    def on_message(_consumer: object, handle: object) -> int:
        message = RecvMessage(handle)
        name = message.body[:64].decode().split(" ")[0]
        if options.fail_first and name not in failed:
            failed.add(name)
            message_event("refused", message)
            return RECONSUME_LATER
        message_event("message", message)
        done.add(name)
        if options.expect and len(done) >= options.expect:
            finished.set()
        return CONSUME_SUCCESS

    consumer = PushConsumer(options.group, orderly=options.orderly)
    consumer.set_namesrv_addr(options.namesrv)
    sign_in(consumer, options)
    consumer.set_thread_count(2)
    # The package's own subscribe() turns a failing listener into a success, so the callback is registered directly.
    dll.Subscribe(consumer._handle, options.topic.encode(), options.expression.encode())
    consumer._register_callback(on_message)
    consumer.start()
    event("ready")
    finished.wait(options.seconds)
    time.sleep(0.3)  # let the last acknowledgement reach the offset table
    consumer.shutdown()
    event("done", count=len(done))


def pull(options: argparse.Namespace) -> None:
    consumer = PullConsumer(options.group)
    consumer.set_namesrv_addr(options.namesrv)
    sign_in(consumer, options)
    consumer.start()
    event("ready")
    count = 0
    for message in consumer.pull(options.topic, options.expression):
        message_event("message", message)
        count += 1
    event("done", count=count)


def main() -> None:
    parser = argparse.ArgumentParser(description="the C++ client as a peer")
    parser.add_argument("verb", choices=["send", "ordered", "consume", "pull"])
    parser.add_argument("--namesrv", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--group", default="interop_cpp")
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--tags", default="")
    parser.add_argument("--prefix", default="m")
    parser.add_argument("--body-bytes", type=int, default=0)
    parser.add_argument("--delay-level", type=int, default=0)
    parser.add_argument("--batch", action="store_true")
    parser.add_argument("--expression", default="*")
    parser.add_argument("--expect", type=int, default=0)
    parser.add_argument("--fail-first", action="store_true")
    parser.add_argument("--orderly", action="store_true")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--access-key", default="")
    parser.add_argument("--secret-key", default="")
    options = parser.parse_args()
    try:
        globals()[options.verb](options)
    except Exception as why:
        event("error", text=f"{type(why).__name__}: {why}")
        os._exit(1)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
