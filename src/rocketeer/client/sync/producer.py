# Written by tools/make_sync.py from client/aio/producer.py: change that, then `make sync`.
"""The producer for threads.

with Producer("shop", nameserver="127.0.0.1:9876") as producer:
    print(producer.send(Message("orders", b"...", tags="created", keys="42")))
"""

from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Unpack

from rocketeer.client.aio import producer as aio
from rocketeer.client.core.codecs import JSON, NOTHING, Codec
from rocketeer.client.core.config import ProducerOptions
from rocketeer.client.core.hooks import SendHook
from rocketeer.client.core.middleware import Middleware
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.core.selectors import Selector
from rocketeer.client.core.send_result import SendResult
from rocketeer.client.plans.lookups import COUNT_MAX
from rocketeer.client.plans.queries import FOREVER_MS
from rocketeer.client.sync.producer_base import ProducerBase
from rocketeer.clock import Clock
from rocketeer.model.message import Message
from rocketeer.model.queue import MessageQueue


class Producer(ProducerBase):
    """Sends messages; one is enough for a whole application.

    Options are the fields of `ProducerConfig`. Sends may run side by side: those of one moment share their
    writes, and above `in_flight_max` unanswered ones the next waits for its turn. `hooks` see every attempt,
    `middlewares` are around every send, the first one outermost.
    """

    def __init__(
        self,
        group: str,
        *,
        hooks: Sequence[SendHook] = (),
        middlewares: Sequence[Middleware] = (),
        codec: Codec = JSON,
        clock: Clock | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        self._set_up(
            partial(
                aio.Producer, group, hooks=hooks, middlewares=middlewares, codec=codec, clock=clock, **options
            )
        )

    def start(self) -> None:
        """Get ready to send; raises NoNameServer when no address is known. The first send does it too."""
        return self._start()

    def close(self) -> None:
        """Let unanswered sends finish, leave the group, close; returns within `close_timeout_s` and a second."""
        return self._close()

    def send(
        self,
        message: Message | Sequence[Message] | str,
        value: Any = NOTHING,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
        timeout_s: float | None = None,
    ) -> SendResult:
        """Send and wait for the broker's answer; a list of messages is one batch.

        `send("orders", order)` sends a value: text, bytes, or what the producer's `codec` encodes (JSON).

        `queue` names the queue, `selector` chooses one from (queues, message, arg); otherwise they take turns.
        With `in_flight_max` sends unanswered this first waits for a place (TooManyInFlight: see `place_timeout_s`);
        then `timeout_s` counts (`send_timeout_s` unless given), which all attempts share.
        Raises BrokerRefused, SendTimeout, SendFailed, NoRoute, NoBroker, NoNameServer.
        """
        return self._send(message, value, queue=queue, selector=selector, arg=arg, timeout_s=timeout_s)

    def send_async(
        self,
        message: Message | Sequence[Message] | str,
        value: Any = NOTHING,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
        timeout_s: float | None = None,
    ) -> Future[SendResult]:
        """Send and go on; the future brings what `send` returns or raises.

        A message that no broker would take raises here. With `in_flight_max` sends unanswered
        this waits for a place, and raises TooManyInFlight when none gets free in time.
        """
        return self._send_async(message, value, queue=queue, selector=selector, arg=arg, timeout_s=timeout_s)

    def send_oneway(
        self,
        message: Message | Sequence[Message] | str,
        value: Any = NOTHING,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
    ) -> None:
        """Send without an answer: the quickest way, and a message may get lost. Waits for a slow broker only.

        Raises SendTimeout when the broker does not read, TooManyInFlight when too many sends wait for that.
        """
        return self._send_oneway(message, value, queue=queue, selector=selector, arg=arg)

    def request(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
        timeout_s: float | None = None,
    ) -> ReceivedMessage:
        """Send a question and wait for its answer, which a consumer of the topic gives with `reply`.

        Raises RequestTimeout when none came in `timeout_s` (`send_timeout_s` unless given), or what `send` does.
        """
        return self._call(
            self._hosted.request(message, queue=queue, selector=selector, arg=arg, timeout_s=timeout_s)
        )

    def request_async(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
        timeout_s: float | None = None,
    ) -> Future[ReceivedMessage]:
        """Send a question and go on; the future brings what `request` returns or raises."""
        return self._request_async(message, queue=queue, selector=selector, arg=arg, timeout_s=timeout_s)

    def reply(self, request: ReceivedMessage, body: bytes, *, timeout_s: float | None = None) -> SendResult:
        """Answer a message that was sent with `request`; returns when who asked has the answer.

        Raises ClientError for a message nobody waits for an answer to, BrokerRefused when who asked has gone.
        """
        return self._call(self._hosted.reply(request, body, timeout_s=timeout_s))

    def view_message(self, message_id: str, topic: str | None = None) -> ReceivedMessage:
        """The message of an id: the broker's (`offset_message_id`), or with `topic` also the sender's (`message_id`).

        Raises MessageNotFound.
        """
        return self._call(self._hosted.view_message(message_id, topic))

    def query_messages(
        self,
        topic: str,
        key: str,
        *,
        begin_ms: int = 0,
        end_ms: int = FOREVER_MS,
        max_count: int = COUNT_MAX,
    ) -> list[ReceivedMessage]:
        """The messages with this key stored between the two times, oldest first; at most `max_count` per broker."""
        return self._call(
            self._hosted.query_messages(topic, key, begin_ms=begin_ms, end_ms=end_ms, max_count=max_count)
        )

    def recall(self, handle: str, *, timeout_s: float | None = None) -> str:
        """Take a timed message back before it is delivered, with the `recall_handle` of its `SendResult`.

        Returns its message id. Raises BadRecallHandle for a text that is none, and BrokerRefused when the message
        does not wait any more: it was delivered, or taken back already.
        """
        return self._call(self._hosted.recall(handle, timeout_s=timeout_s))

    def create_topic(self, topic: str, *, queues: int | None = None) -> list[MessageQueue]:
        """Make a topic with so many queues (`default_topic_queues`) on every broker; its queues.

        On brokers that have it already it gets this number. `Admin.update_topic` has more to say.
        Raises InvalidTopic, BrokerRefused.
        """
        return self._call(self._hosted.create_topic(topic, queues=queues))

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues a topic can be written to, as selectors get them."""
        return self._call(self._hosted.queues(topic))

    def next_sequence(self, queue: MessageQueue) -> int:
        """How many messages of this idempotent producer the queue has.

        One that starts again with its old `producer_id` learns so which of its messages are stored: the queue's
        first ones, so many.
        """
        return self._call(self._hosted.next_sequence(queue))
