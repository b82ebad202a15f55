"""The general path into the log: known resends, rewrites, append, then the wait until it is as durable as configured.

Handlers, the delay service, retries and transactions all write through here; none of them knows the others.
"""

from collections.abc import Callable, Iterable, Sequence
from time import perf_counter
from typing import NamedTuple, Protocol

from rocketeer.broker.feature import Durability, Examine, ResendCheck, Rewrite
from rocketeer.errors import OUTCOME_UNKNOWN, RequestRefused, StoreRefused
from rocketeer.model.offsets import LogOffset
from rocketeer.observe.counters import Counters
from rocketeer.protocol.codes import ResponseCode
from rocketeer.record.entry import DispatchEntry
from rocketeer.record.layout import PendingMessage
from rocketeer.steps import Steps, finish
from rocketeer.store.append import Prepared


class WriterLog(Protocol):
    """What the writer asks of the store."""

    def append(self, message: PendingMessage) -> DispatchEntry: ...

    def preparing(self, messages: Sequence[PendingMessage]) -> Steps[list[Prepared]]: ...

    def append_prepared(self, messages: Sequence[Prepared]) -> list[DispatchEntry]: ...


class WriteResult(NamedTuple):
    """How a write ended: `appended` is empty when the store refused it."""

    code: int
    remark: str | None
    appended: Sequence[DispatchEntry]

    @property
    def stored(self) -> bool:
        return bool(self.appended)


OnWritten = Callable[[WriteResult], None]

_ILLEGAL = (StoreRefused.TOO_LARGE, StoreRefused.PROPERTIES_TOO_LONG, StoreRefused.BAD_TOPIC)
"""The message itself is at fault: it will be refused tomorrow, too."""


_NOT_ON_A_SLAVE = (ResponseCode.FLUSH_SLAVE_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE)


def code_without_slaves(code: int) -> int:
    """For requests whose clients would do it again after any other answer: what is stored is done, as in RocketMQ."""
    return ResponseCode.SUCCESS if code in _NOT_ON_A_SLAVE else code


def _put(code: int, appended: Sequence[DispatchEntry]) -> WriteResult:
    """How a write ended that had to wait; SYSTEM_ERROR: nobody knows whether it is kept."""
    return WriteResult(code, OUTCOME_UNKNOWN if code == ResponseCode.SYSTEM_ERROR else None, appended)


class Writer:
    """Appends messages and calls `done` once: at once, or when every durability feature has answered."""

    def __init__(
        self,
        log: WriterLog,
        *,
        message_bytes_max: int,
        counters: Counters,
        resends: Iterable[Examine] = (),
        rewrites: Iterable[Rewrite] = (),
        durability: Iterable[Durability] = (),
    ) -> None:
        """The last three are what features do with messages, in this order."""
        self._log = log
        self._counters = counters
        self._message_bytes_max = message_bytes_max
        self._resends, self._rewrites, self._durability = tuple(resends), tuple(rewrites), tuple(durability)

    def put(
        self, message: PendingMessage, done: OnWritten, *, wait: bool = True, internal: bool = False
    ) -> None:
        """Store one message, unless it is a resend of one that is stored.

        `internal` for what the broker itself puts back (a delayed message now due): neither resend nor rewritten.
        """
        try:
            examined = None
            if not internal and self._resends:
                sent = ((message.properties, message.body),)
                examined = finish(self._examining(message.topic, message.queue_id, sent))
            if examined is None or examined.fresh:
                if not internal:
                    for rewrite in self._rewrites:
                        rewrite(message)
                began_s = perf_counter()
                appended: Sequence[DispatchEntry] = (self._log.append(message),)
                self._counters.put(1, perf_counter() - began_s)
            else:
                appended = ()
        except (StoreRefused, RequestRefused) as refusal:
            done(self.refused(refusal))
            return
        self._settle(appended if examined is None else examined.stored(appended), done, wait)

    def put_now(self, message: PendingMessage) -> WriteResult:
        """Store a message that the broker itself puts back; it waits for no durability feature."""
        outcome: list[WriteResult] = []
        self.put(message, outcome.append, wait=False, internal=True)
        (put,) = outcome
        return put

    def putting_batch(
        self, messages: Sequence[PendingMessage], done: OnWritten, *, wait: bool = True
    ) -> Steps[None]:
        """All or nothing, next to each other in the log; a batch is never rewritten (RocketMQ's rule).

        Of a batch that is (partly) a resend only the new messages are stored; all of one topic and queue.
        Others are served between two steps: what is stored meanwhile may be what this batch has.
        """
        try:
            bodies_bytes = sum([len(message.body) for message in messages])
            if bodies_bytes > self._message_bytes_max:
                raise StoreRefused(StoreRefused.TOO_LARGE, f"a batch of {bodies_bytes} bytes")
            while True:
                examined, fresh = None, messages
                if self._resends and messages:
                    sent = [(message.properties, message.body) for message in messages]
                    examined = yield from self._examining(messages[0].topic, messages[0].queue_id, sent)
                if examined is not None:
                    fresh = [messages[place] for place in examined.fresh]
                prepared = yield from self._log.preparing(fresh)
                if examined is None or examined.holds():
                    break
            began_s = perf_counter()
            appended: Sequence[DispatchEntry] = self._log.append_prepared(prepared)
            self._counters.put(len(appended), perf_counter() - began_s)
        except (StoreRefused, RequestRefused) as refusal:
            done(self.refused(refusal))
            return
        self._settle(appended if examined is None else examined.stored(appended), done, wait)

    def when_durable(self, end: LogOffset, done: Callable[[int], None]) -> None:
        """Call back with the worst answer of all durability features for the log below `end`."""
        if not self._durability:
            done(ResponseCode.SUCCESS)
            return
        answers: list[int] = []

        def answered(code: int) -> None:
            answers.append(code)
            if len(answers) == len(self._durability):
                done(next((code for code in answers if code != ResponseCode.SUCCESS), ResponseCode.SUCCESS))

        for durable in self._durability:
            durable(end, answered)

    @property
    def waits(self) -> bool:
        """Whether a message may have to wait at all after it was appended."""
        return bool(self._durability)

    def _examining(
        self, topic: str, queue_id: int, messages: Sequence[tuple[bytes, bytes]]
    ) -> Steps[ResendCheck | None]:
        """The first feature that knows the send's messages speaks for them."""
        for examining in self._resends:
            examined = yield from examining(topic, queue_id, messages)
            if examined is not None:
                return examined
        return None

    def _settle(self, appended: Sequence[DispatchEntry], done: OnWritten, wait: bool) -> None:
        if not wait or not self._durability:
            done(WriteResult(ResponseCode.SUCCESS, None, appended))
            return
        # A resend may come while the original is not on disk yet: it waits for it, too.
        end = max([entry.end for entry in appended])
        self.when_durable(end, lambda code: done(_put(code, appended)))

    def refused(self, refusal: StoreRefused | RequestRefused) -> WriteResult:
        """RocketMQ's code and text for each reason; a feature words its own."""
        self._counters.puts_failed += 1
        if isinstance(refusal, RequestRefused):
            return WriteResult(refusal.code, refusal.remark, ())
        if refusal.reason in _ILLEGAL:
            remark = (
                "the message is illegal, maybe msg body or properties length not matched. msg body length limit "
                f"{self._message_bytes_max}B, msg properties length limit 32KB."
            )
            return WriteResult(ResponseCode.MESSAGE_ILLEGAL, remark, ())
        remark = (
            "service not available now. It may be caused by one of the following reasons: "
            f"the broker's disk is full [{refusal}], messages are put to the slave, "
            "message store has been shut down, etc."
        )
        return WriteResult(ResponseCode.SERVICE_NOT_AVAILABLE, remark, ())
