"""Brings trace events to the trace topic: in the background, in bounded memory, never in the way of a send.

Events come from any thread (`record` only appends to a deque) and leave in messages of up to 118,000 bytes, at the
latest half a second later, over the connections of the client they tell of. When brokers do not take them fast
enough, events are dropped and counted; what is left at the end is sent by `close`.
"""

import asyncio
import itertools
import logging
import os
from collections import deque
from collections.abc import Sequence
from typing import Final

from rocketeer.client import discovery
from rocketeer.client.aio.instance import ClientInstance
from rocketeer.client.core.config import GROUP_CHARS_MAX, ClientConfig, ProducerConfig
from rocketeer.client.core.encoding import Encoder
from rocketeer.client.core.hooks import ConsumeContext, SendMode
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.core.trace_hooks import ConsumeTrace, SendTrace
from rocketeer.client.plans.send import Sender
from rocketeer.clock import Clock
from rocketeer.errors import RocketeerError
from rocketeer.model.property_names import KEYS
from rocketeer.record.ids import UniqKeys
from rocketeer.record.trace import ConsumeCode, TraceEvent, encode_event, search_keys

log = logging.getLogger(__name__)

GROUP_PREFIX: Final = "_INNER_TRACE_PRODUCER"
WAITING_MAX: Final = 20_000
SENDING_MAX: Final = 8
BODY_BYTES: Final = 118_000
"""RocketMQ's trace producer takes 128,000 and begins a new message 10,000 before."""
KEYS_CHARS: Final = 24_000
"""All properties of a message together have 32,767 bytes."""
LOOK_S: Final = 0.1
WAIT_S: Final = 0.5
SEND_S: Final = 5.0
COMPLAIN_S: Final = 10.0

_numbers = itertools.count(1)


class Tracer:
    """One per traced producer or consumer; made and closed on the loop, `record` from anywhere."""

    def __init__(self, config: ClientConfig, instance: ClientInstance, clock: Clock, kind: str) -> None:
        group = f"{GROUP_PREFIX}-{config.group}-{kind}-{next(_numbers)}"[:GROUP_CHARS_MAX]
        own = ProducerConfig(
            group, nameserver=config.nameserver, send_timeout_s=SEND_S, vip_channel=config.vip_channel
        )
        self.topic = config.trace_topic
        self._group = config.full_group
        self.dropped = 0
        self._clock = clock
        self._namespace = config.namespace
        self._instance = instance
        self._uniq_keys = UniqKeys(discovery.local_ip(), os.getpid(), clock)
        self._encoder = Encoder(own, self._uniq_keys)
        self._sender = Sender(own, instance.routes, instance.nameservers, clock)
        self._waiting: deque[TraceEvent] = deque()
        self._batch: list[TraceEvent] = []
        self._lines: list[str] = []
        self._batch_bytes = 0
        self._batch_keys = 0
        self._batch_began_s = 0.0
        self._sending: set[asyncio.Task[None]] = set()
        self._told_s = float("-inf")
        self._told = 0
        self._task = asyncio.create_task(self._work())

    def send_hook(self) -> SendTrace:
        return SendTrace(self.record, self._clock, self.topic, self._namespace)

    def consume_hook(self) -> ConsumeTrace:
        return ConsumeTrace(self.record, self._clock, self._uniq_keys, self._namespace)

    def record(self, event: TraceEvent) -> None:
        """Take an event; from any thread, at once."""
        if len(self._waiting) < WAITING_MAX:
            self._waiting.append(event)
        else:
            self.dropped += 1

    def given(self, messages: Sequence[ReceivedMessage]) -> None:
        """Record messages that `poll` handed out as consumed, as RocketMQ's pull consumer does."""
        hook = self.consume_hook()
        for message in messages:
            context = ConsumeContext(self._group, message.queue, [message])
            hook.before_consume(context)
            context.success, context.code = True, ConsumeCode.SUCCESS
            hook.after_consume(context)

    async def close(self, timeout_s: float) -> None:
        """Send what is left, within this time."""
        self._task.cancel()
        try:
            async with asyncio.timeout(timeout_s):
                while self._waiting or self._batch:
                    self._collect(everything=True)
                    if self._sending:
                        await asyncio.wait(self._sending, return_when=asyncio.FIRST_COMPLETED)
                if self._sending:
                    await asyncio.wait(self._sending)
        except TimeoutError:
            left = len(self._waiting) + len(self._batch)
            log.warning("trace not sent in time events=%d topic=%s", left, self.topic)
            for task in tuple(self._sending):
                task.cancel()
        self._complain(last=True)

    # --- on the loop -------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                self._collect()
                self._complain()
            except Exception:
                log.exception("tracing failed topic=%s", self.topic)

    def _collect(self, *, everything: bool = False) -> None:
        """Put events into the next message; send it when it is full or has waited long enough."""
        waiting = self._waiting
        now_s = self._clock.monotonic_s()
        while waiting and len(self._sending) < SENDING_MAX:
            event = waiting.popleft()
            line = encode_event(event)
            if not self._batch:
                self._batch_began_s = now_s
            self._batch.append(event)
            self._lines.append(line)
            self._batch_bytes += len(line)
            self._batch_keys += len(event.message_id) + len(event.keys or "") + 2
            if self._batch_bytes >= BODY_BYTES or self._batch_keys >= KEYS_CHARS:
                self._send()
        due = everything or now_s - self._batch_began_s >= WAIT_S
        if self._batch and due and len(self._sending) < SENDING_MAX:
            self._send()

    def _send(self) -> None:
        events, body = self._batch, "".join(self._lines).encode("utf-8", "replace")
        self._batch, self._lines, self._batch_bytes, self._batch_keys = [], [], 0, 0
        task = asyncio.create_task(self._bring(events, body))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _bring(self, events: list[TraceEvent], body: bytes) -> None:
        try:
            outgoing = self._encoder.raw(self.topic, body, {KEYS: search_keys(events)})
            await self._instance.run(self._sender.send(outgoing, SendMode.ASYNC))
        except RocketeerError as error:
            log.warning("trace not sent events=%d topic=%s reason=%s", len(events), self.topic, error)

    def _complain(self, *, last: bool = False) -> None:
        now_s = self._clock.monotonic_s()
        if self.dropped > self._told and (last or now_s - self._told_s >= COMPLAIN_S):
            log.warning("trace events dropped count=%d topic=%s", self.dropped - self._told, self.topic)
            self._told, self._told_s = self.dropped, now_s
