"""Hooks that turn what producers and consumers do into trace events; where these go is `record`'s matter. Pure."""

from collections.abc import Callable
from typing import Final

from rocketeer.client.core.hooks import ConsumeContext, SendContext, TransactionContext
from rocketeer.clock import Clock
from rocketeer.model import property_names as names
from rocketeer.model.topic import without_namespace
from rocketeer.record.ids import UniqKeys
from rocketeer.record.trace import MessageKind, TraceEvent, TraceKind

Record = Callable[[TraceEvent], None]
DEFAULT_REGION: Final = "DefaultRegion"
_BEGAN: Final = "trace began"


class SendTrace:
    """A `SendHook`; every message that was stored leaves a Pub event, also each one of a batch, and every
    transaction that ends an EndTransaction event."""

    def __init__(self, record: Record, clock: Clock, trace_topic: str, namespace: str | None) -> None:
        self._record = record
        self._clock = clock
        self._trace_topic = trace_topic
        self._namespace = namespace

    def before_send(self, context: SendContext) -> None:
        context.notes[_BEGAN] = self._clock.now_ms()

    def after_send(self, context: SendContext) -> None:
        result, outgoing = context.result, context.outgoing
        topic = _outside(outgoing.topic, self._namespace)
        if result is None or not result.trace_on or topic.startswith(self._trace_topic):
            return
        began_ms = context.notes[_BEGAN]
        properties = outgoing.properties
        offset_ids = result.offset_message_id.split(",")
        for number, message_id in enumerate(result.message_id.split(",")):
            self._record(
                TraceEvent(
                    TraceKind.PUB,
                    message_id,
                    time_ms=began_ms,
                    region=result.region,
                    group=_outside(context.group, self._namespace),
                    topic=topic,
                    tags=properties.get(names.TAGS),
                    keys=properties.get(names.KEYS),
                    store_host=context.address,
                    body_bytes=len(outgoing.body),
                    cost_ms=self._clock.now_ms() - began_ms,
                    message_kind=message_kind(properties),
                    offset_message_id=offset_ids[number] if number < len(offset_ids) else None,
                    success=result.ok,
                )
            )

    def transaction_ended(self, context: TransactionContext) -> None:
        properties = context.properties
        self._record(
            TraceEvent(
                TraceKind.END_TRANSACTION,
                context.message_id,
                time_ms=self._clock.now_ms(),
                region=properties.get(names.MSG_REGION) or DEFAULT_REGION,
                group=_outside(context.group, self._namespace),
                topic=_outside(context.topic, self._namespace),
                tags=properties.get(names.TAGS),
                keys=properties.get(names.KEYS),
                store_host=context.address,
                message_kind=MessageKind.TRANSACTION_COMMIT,
                transaction_id=context.transaction_id,
                transaction_state=context.state,
                from_check=context.from_check,
            )
        )


class ConsumeTrace:
    """A `ConsumeHook`; every call of a listener leaves a SubBefore and a SubAfter event a message."""

    def __init__(self, record: Record, clock: Clock, uniq_keys: UniqKeys, namespace: str | None) -> None:
        self._record = record
        self._clock = clock
        self._uniq_keys = uniq_keys
        self._namespace = namespace

    def before_consume(self, context: ConsumeContext) -> None:
        now_ms = self._clock.now_ms()
        request_id = self._uniq_keys.next()  # pairs what was before the call with what was after it
        events = [
            TraceEvent(
                TraceKind.SUB_BEFORE,
                message.message_id,
                time_ms=now_ms,
                region=message.properties.get(names.MSG_REGION),
                group=_outside(context.group, self._namespace),
                request_id=request_id,
                retries=message.reconsume_times,
                keys=message.properties.get(names.KEYS),
            )
            for message in context.messages
            if message.properties.get(names.TRACE_ON) != "false"
        ]
        for event in events:
            self._record(event)
        context.notes[_BEGAN] = (now_ms, events)

    def after_consume(self, context: ConsumeContext) -> None:
        noted = context.notes.get(_BEGAN)
        if noted is None:
            return  # what came before went wrong
        began_ms, events = noted
        now_ms = self._clock.now_ms()
        for event in events:
            self._record(
                TraceEvent(
                    TraceKind.SUB_AFTER,
                    event.message_id,
                    time_ms=now_ms,
                    group=event.group,
                    request_id=event.request_id,
                    cost_ms=(now_ms - began_ms) // len(context.messages),
                    success=context.success,
                    keys=event.keys,
                    code=context.code,
                )
            )


def message_kind(properties: dict[str, str]) -> MessageKind:
    if names.DELAY in properties or names.START_DELIVER_TIME in properties:
        return MessageKind.DELAY
    if properties.get(names.TRAN_MSG) == "true":
        return MessageKind.TRANSACTION_HALF
    return MessageKind.NORMAL


def _outside(name: str, namespace: str | None) -> str:
    return without_namespace(name, namespace) if namespace else name
