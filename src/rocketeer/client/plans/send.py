"""Sending: choose a queue, ask its broker, try others by RocketMQ's rules, all within one time limit.

The rules (4.9.8): a sync send makes 1 + `retries` attempts, each on another broker if there is one, after a
call without answer or a refusal that another broker may not share. An async send makes 1 + `async_retries`
after calls without answer only. Who names the queue gets that queue: sync once, async with the retries. Beyond them:
where no connection came about, or the named queue's broker is away, it is tried again until the time is over
(`core.attempts`), unless `retries` is 0.
"""

import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypedDict

import msgspec

from rocketeer.client.core.attempts import PAUSE_S, PAUSE_S_MAX, Attempts, check_timeout
from rocketeer.client.core.config import ProducerConfig
from rocketeer.client.core.encoding import Outgoing, joined_body, properties_text
from rocketeer.client.core.fault import FaultTable
from rocketeer.client.core.hooks import SendContext, SendHook, SendMode
from rocketeer.client.core.nameservers import NameServers
from rocketeer.client.core.routes import RouteCache, TopicRoutes, awaits_master, vip_address
from rocketeer.client.core.selectors import Selector, hash_index, next_queue
from rocketeer.client.core.send_result import SendResult, SendStatus, split_result
from rocketeer.client.core.transient import another_may_take_it, backoffs, is_route_in_doubt, stored_nothing
from rocketeer.client.plans.effects import Call, Oneway, Plan, Shared, Sleep
from rocketeer.client.plans.replies import refused
from rocketeer.client.plans.routes import find_route_or_default, refresh_route
from rocketeer.clock import Clock
from rocketeer.errors import (
    AccessDenied,
    BrokerRefused,
    ClientError,
    NoBroker,
    NoNameServer,
    RemotingClosed,
    RemotingError,
)
from rocketeer.model.message import InvalidMessage, Message
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.model.topic import AUTO_CREATE_TOPIC, without_namespace
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command
from rocketeer.protocol.headers.base import decode_header
from rocketeer.protocol.headers.send import SendMessageReplyHeader

log = logging.getLogger(__name__)

Choose = Callable[[Sequence[MessageQueue]], MessageQueue]
"""Picks the queue from all that can be written to (named without their namespace)."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """Chooses one given queue, whatever the route: none is needed."""

    queue: MessageQueue

    def __call__(self, queues: Sequence[MessageQueue]) -> MessageQueue:
        return self.queue


class Target(TypedDict, total=False):
    """What a caller may say about the queue: its name, or what chooses one."""

    queue: MessageQueue | None
    selector: Selector | None
    arg: Any


STORED: Final = {
    int(ResponseCode.SUCCESS): SendStatus.SEND_OK,
    int(ResponseCode.FLUSH_DISK_TIMEOUT): SendStatus.FLUSH_DISK_TIMEOUT,
    int(ResponseCode.FLUSH_SLAVE_TIMEOUT): SendStatus.FLUSH_SLAVE_TIMEOUT,
    int(ResponseCode.SLAVE_NOT_AVAILABLE): SendStatus.SLAVE_NOT_AVAILABLE,
}
_SEND: Final = int(RequestCode.SEND_MESSAGE_V2)
_SEND_BATCH: Final = int(RequestCode.SEND_BATCH_MESSAGE)
_SEND_REPLY: Final = int(RequestCode.SEND_REPLY_MESSAGE_V2)


class SendApart(ClientError):
    """Raised when a hook forbids one message of a shared request: each is then sent by itself."""


class SendTerms(NamedTuple):
    """What all send requests of a producer have in common, as texts."""

    group: str
    create_topic_key: str = AUTO_CREATE_TOPIC
    default_queues: str = "4"
    unit_mode: str = "false"


def send_request(
    terms: SendTerms,
    queue: MessageQueue,
    body: bytes,
    properties: str,
    now_ms: int,
    sys_flag: int = 0,
    batch: bool = False,
) -> Command:
    """SEND_MESSAGE_V2 or SEND_BATCH_MESSAGE: `SendMessageV2Header` written out, since this is the hot path."""
    ext = {
        "a": terms.group,
        "b": queue.topic,
        "c": terms.create_topic_key,
        "d": terms.default_queues,
        "e": str(queue.queue_id),
        "f": str(sys_flag),
        "g": str(now_ms),
        "h": "0",
        "i": properties,
        "j": "0",
        "k": terms.unit_mode,
        "m": "true" if batch else "false",
        "n": queue.broker_name,
    }
    return Command(code=_SEND_BATCH if batch else _SEND, ext=ext, body=body)


class Sender:
    """What all sends of one producer share."""

    def __init__(
        self,
        config: ProducerConfig,
        routes: RouteCache,
        nameservers: NameServers,
        clock: Clock,
        hooks: Sequence[SendHook] = (),
    ) -> None:
        self.config = config
        self.routes = routes
        self.nameservers = nameservers
        self.clock = clock
        self.hooks = tuple(hooks)
        self.faults = FaultTable(clock) if config.latency_faults else None
        self._group = config.full_group
        self._terms = SendTerms(
            config.full_group,
            config.create_topic_key,
            str(config.default_topic_queues),
            "true" if config.unit_mode else "false",
        )

    def publish_route(self, topic: str, timeout_s: float) -> Plan[TopicRoutes]:
        """Where the (full) topic can be written to; raises NoRoute, NoNameServer or NoBroker."""
        config = self.config
        known = yield from find_route_or_default(
            topic,
            self.routes,
            self.nameservers,
            timeout_s,
            default_topic=config.create_topic_key,
            default_queues=config.default_topic_queues,
        )
        if not known.publish:
            raise NoBroker(topic, None, "has no queue that can be written to and whose master is up")
        return known

    def route_for_send(
        self, topic: str, mode: SendMode, timeout_s: float, deadline_s: float
    ) -> Plan[TopicRoutes]:
        """As `publish_route`; while a group elects its leader, that is waited for."""
        pauses_s = backoffs(PAUSE_S, PAUSE_S_MAX)
        while True:
            left_s = deadline_s - self.clock.monotonic_s()
            try:
                return (yield from self.publish_route(topic, min(timeout_s, max(left_s, 0.1))))
            except NoBroker:
                known = self.routes.get(topic)
                pause_s = next(pauses_s)
                patient = self.config.retries > 0 and mode is not SendMode.ONEWAY and left_s > pause_s
                if known is None or not awaits_master(known.route) or not patient:
                    raise
                # One pause for all who wait: they go on in the order they came.
                yield Shared(("election", topic), self._pause(topic, pause_s))

    def _pause(self, topic: str, pause_s: float) -> Plan[None]:
        yield Sleep(pause_s)
        self.routes.drop(topic)

    def send(
        self,
        outgoing: Outgoing,
        mode: SendMode = SendMode.SYNC,
        *,
        choose: Choose | None = None,
        timeout_s: float | None = None,
    ) -> Plan[SendResult | None]:
        """The send as a plan; it returns None when oneway, a SendResult otherwise."""
        config = self.config
        topic = outgoing.topic
        monotonic_s = self.clock.monotonic_s
        timeout_s = config.send_timeout_s if timeout_s is None else timeout_s
        check_timeout(timeout_s)
        deadline_s = monotonic_s() + timeout_s
        known = self.routes.get(topic)
        if known is None or not known.publish:
            known = yield from self.route_for_send(
                topic, mode, min(timeout_s, config.call_timeout_s), deadline_s
            )
        chosen = self.chosen(topic, known, choose) if choose is not None else None
        if chosen is not None:
            self.check_broker(chosen, known)
        attempts = self._attempts(topic, mode, chosen is not None, timeout_s, deadline_s)
        result: SendResult | None = None
        queue: MessageQueue | None = None
        before_s = monotonic_s()
        while before_s < deadline_s:
            if chosen is not None:
                queue = chosen
            else:
                fresh = self.routes.get(topic)
                known = fresh if fresh is not None and fresh.publish else known
                queue = next_queue(known, queue.broker_name if queue else None, self.faults)
            try:
                address = self.address_of(queue)
                ask = self._ask if not self.hooks else self._ask_with_hooks
                result = yield from ask(outgoing, mode, queue, address, deadline_s - before_s)
            except AccessDenied:
                raise  # one account for all brokers: none would take it
            except (RemotingError, NoBroker, BrokerRefused) as error:
                self._report(queue, before_s, failed=True)
                guess_refused = known.guessed and isinstance(error, BrokerRefused)
                if guess_refused or is_route_in_doubt(error):
                    self.routes.suspect(topic)
                another_may = not isinstance(error, BrokerRefused) or (
                    mode is SendMode.SYNC and another_may_take_it(error)
                )
                brokers = 1 if chosen is not None else len(known.write_queues)
                pause_s = attempts.failed(queue, error, monotonic_s(), brokers, another_may=another_may)
                if pause_s is None or isinstance(error, RemotingClosed):
                    break
                if pause_s:
                    yield Sleep(pause_s)
                if guess_refused and not stored_nothing(error):
                    yield Shared(("guess refused", topic), self._look_again(topic, deadline_s))
            else:
                if self.faults is not None:
                    self._report(queue, before_s, failed=False)
                again = config.retry_not_stored and mode is SendMode.SYNC
                if result is None or result.ok or not again or not attempts.not_safe(monotonic_s()):
                    return result
            before_s = monotonic_s()
        if result is not None:
            return result
        raise attempts.error(monotonic_s())

    def _look_again(self, topic: str, deadline_s: float) -> Plan[None]:
        """Ask for the route after a broker refused a queue that was guessed: the topic may be there, with fewer
        queues, and its broker about to tell the name servers. While they say nothing the guess stays."""
        left_s = deadline_s - self.clock.monotonic_s()
        if left_s > 0:
            yield Sleep(min(PAUSE_S, left_s))
            with contextlib.suppress(NoNameServer, BrokerRefused):
                timeout_s = min(self.config.call_timeout_s, left_s)
                yield from refresh_route(topic, self.routes, self.nameservers, timeout_s)

    def check_broker(self, queue: MessageQueue, known: TopicRoutes) -> None:
        """Raise NoBroker for a queue whose broker no route ever named: waiting for it would not help."""
        if queue.broker_name not in known.write_queues and not self.routes.has_seen(queue.broker_name):
            self.address_of(queue)

    # --- one attempt -------------------------------------------------------------------------

    def attempt(
        self, outgoing: Outgoing, mode: SendMode, queue: MessageQueue, left_s: float
    ) -> Plan[SendResult | None]:
        """Ask the queue's broker once; raises NoBroker, BrokerRefused or what kept the answer away."""
        address = self.address_of(queue)
        ask = self._ask if not self.hooks else self._ask_with_hooks
        return (yield from ask(outgoing, mode, queue, address, left_s))

    def address_of(self, queue: MessageQueue) -> str:
        address = self.routes.master_for(queue.topic, queue.broker_name)
        return vip_address(address) if self.config.vip_channel else address

    def _ask_with_hooks(
        self, outgoing: Outgoing, mode: SendMode, queue: MessageQueue, address: str, left_s: float
    ) -> Plan[SendResult | None]:
        """Hooks see messages that share a request one by one, as if each had its own."""
        contexts = [
            SendContext(self._group, mode, part, queue, address) for part in outgoing.parts or (outgoing,)
        ]
        ready: list[SendContext] = []
        try:
            for context in contexts:
                self._before(context, alone=len(contexts) == 1)
                ready.append(context)
            if outgoing.parts:
                outgoing = msgspec.structs.replace(outgoing, body=joined_body(outgoing.parts))
            result = yield from self._ask(outgoing, mode, queue, address, left_s)
        except Exception as error:
            for context in ready:
                context.error = error
            raise
        else:
            results = [result] if result is None else split_result(result, len(contexts))
            for context, each in zip(contexts, results, strict=True):
                context.result = each
            return result
        finally:
            for context in ready:
                for hook in self.hooks:
                    _after(hook, context)

    def _before(self, context: SendContext, *, alone: bool) -> None:
        for hook in self.hooks:
            try:
                hook.before_send(context)
            except Exception as error:
                if alone:
                    raise
                raise SendApart(str(error)) from error

    def _ask(
        self, outgoing: Outgoing, mode: SendMode, queue: MessageQueue, address: str, left_s: float
    ) -> Plan[SendResult | None]:
        command = self.request(outgoing, queue)
        if mode is SendMode.ONEWAY:
            yield Oneway(address, command, left_s)
            return None
        reply: Command = yield Call(address, command, left_s)
        status = STORED.get(reply.code)
        if status is None:
            raise refused(reply, f"{queue.broker_name} ({address})", queue)
        return self._result(status, reply, outgoing, queue)

    def request(self, outgoing: Outgoing, queue: MessageQueue) -> Command:
        """The command for one attempt."""
        out = outgoing
        text = properties_text(out.properties)
        command = send_request(
            self._terms, queue, out.body, text, self.clock.now_ms(), out.sys_flag, out.batch
        )
        if out.flag:
            command.ext["h"] = str(out.flag)
        if out.reconsume_times:
            command.ext["j"] = str(out.reconsume_times)
        if out.max_reconsume_times is not None:
            command.ext["l"] = str(out.max_reconsume_times)
        if out.reply:
            command.code = _SEND_REPLY
        return command

    def _result(
        self, status: SendStatus, reply: Command, outgoing: Outgoing, queue: MessageQueue
    ) -> SendResult:
        header = decode_header(SendMessageReplyHeader, reply.ext)
        namespace = self.config.namespace
        if namespace or header.queue_id != queue.queue_id:
            topic = without_namespace(outgoing.topic, namespace) if namespace else outgoing.topic
            queue = MessageQueue(topic, queue.broker_name, header.queue_id)
        return SendResult(
            status,
            outgoing.message_ids,
            header.msg_id,
            queue,
            QueueOffset(header.queue_offset),
            header.transaction_id,
            header.region or "DefaultRegion",
            header.trace_on != "false",
            header.recall_handle,
        )

    # --- deciding ----------------------------------------------------------------------------

    def _attempts(
        self, topic: str, mode: SendMode, queue_is_chosen: bool, timeout_s: float, deadline_s: float
    ) -> Attempts:
        # No table: the hash of an enum's member is a call in Python.
        config = self.config
        retries = (
            config.retries if mode is SendMode.SYNC else config.async_retries if mode is SendMode.ASYNC else 0
        )
        most = 1 if mode is SendMode.SYNC and queue_is_chosen else 1 + retries
        return Attempts(topic, most=most, patient=retries > 0, timeout_s=timeout_s, deadline_s=deadline_s)

    def chosen(self, topic: str, known: TopicRoutes, choose: Choose) -> MessageQueue:
        """The queue the user chose, with its full topic."""
        namespace = self.config.namespace
        queues = known.publish
        if namespace:
            plain = without_namespace(topic, namespace)
            queues = tuple(MessageQueue(plain, queue.broker_name, queue.queue_id) for queue in queues)
        queue = choose(queues)
        if not isinstance(queue, MessageQueue):
            raise ClientError(f"the selector returned {queue!r}, not one of the queues it was given")
        return self._in_full(topic, queue)

    def named(self, topic: str, choice: Fixed) -> MessageQueue:
        """The queue the user named, with its full topic."""
        return self._in_full(topic, choice.queue)

    def _in_full(self, topic: str, queue: MessageQueue) -> MessageQueue:
        if queue.topic == topic:
            return queue
        if self.config.full_topic(queue.topic) != topic:
            plain = without_namespace(topic, self.config.namespace) if self.config.namespace else topic
            raise ClientError(f"{queue} is no queue of topic {plain!r}, which the message is for")
        return MessageQueue(topic, queue.broker_name, queue.queue_id)

    def _report(self, queue: MessageQueue, before_s: float, *, failed: bool) -> None:
        if self.faults is not None:
            took_ms = (self.clock.monotonic_s() - before_s) * 1000
            self.faults.report(queue.broker_name, took_ms, failed=failed)


def _after(hook: SendHook, context: SendContext) -> None:
    try:
        hook.after_send(context)
    except Exception:
        log.exception("hook failed hook=%r topic=%s", hook, context.outgoing.topic)


def chooser(
    message: Message | Sequence[Message],
    queue: MessageQueue | None = None,
    selector: Selector | None = None,
    arg: Any = None,
) -> Choose | None:
    """How the arguments, or the message's sharding key, choose the queue; None when the queues take turns."""
    if queue is not None:
        if selector is not None:
            raise ClientError("give queue= or selector=, not both")
        if not isinstance(queue, MessageQueue):
            raise ClientError(
                f"queue is {queue!r}: it must be a MessageQueue, as producer.queues(topic) has them"
            )
        return Fixed(queue)
    if selector is None:
        if arg is not None:
            raise ClientError(
                f"arg is {arg!r:.80}, and no selector is given that would get it: selector=by_hash?"
            )
        key = _sharding_key(message)
        return None if key is None else lambda queues: queues[hash_index(key, len(queues))]
    chosen_by = selector
    first = message if isinstance(message, Message) else message[0]
    return lambda queues: chosen_by(queues, first, arg)


def _sharding_key(message: Message | Sequence[Message]) -> str | None:
    if type(message) is Message:
        return message.sharding_key
    batch = message if isinstance(message, Sequence) and not isinstance(message, str | bytes) else ()
    keys = {each.sharding_key for each in batch if isinstance(each, Message)}
    if len(keys) > 1:
        texts = ", ".join(sorted(repr(key) for key in keys))
        raise InvalidMessage(
            f"a batch goes to one queue, but its messages have different sharding keys: {texts}"
        )
    return next(iter(keys), None)
