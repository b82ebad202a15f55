"""Plain sends, stored and answered in bulk by the compiled engine; every other request goes the general way.

Without compiled modules there is no `PlainSends`: all sends go the general way.

A send is plain when all of this holds:
  - its header is JSON and begins with its code, SEND_MESSAGE_V2 or SEND_BATCH_MESSAGE; every field is of the right
    type and in ASCII without escapes, but for the properties: in UTF-8, escapes in them are of ASCII; sender and
    broker have IPv4 addresses;
  - its topic exists, is no retry topic, no broker's own and none that a feature follows, may be written, keeps single
    tags, and has the queue;
  - no feature claims or follows one of its properties, and it is no prepared transaction; but messages of a batch may
    have an idempotent producer's ids (PRODUCER_ID, DEDUP_ID), if these are new;
  - where accounts are asked for, it is signed by one who may send there, from an address without failures;
  - no other guard has to see the request, and the store keeps no units beside its queues (enableConsumeQueueExt).

What the sockets bring in one turn of the loop is one append: one clock reading, one write to the log, one wait when
replies wait for the disk. A request of another kind has the sends before it appended first, so that every request
finds the work of those before it done. Both ways store and answer the same bytes (tested).
"""

from collections.abc import Callable, Collection, Mapping
from time import perf_counter
from typing import Final, Protocol

from rocketeer.broker.plain_properties import PlainParser
from rocketeer.broker.send import SendRules
from rocketeer.broker.topics import TopicTable
from rocketeer.broker.writer import Writer
from rocketeer.clock import Clock
from rocketeer.engine.sends import (
    Later,
    PropertyRules,
    ReplyFormat,
    SendAccess,
    SendBuffer,
    SendIds,
    StoredIds,
)
from rocketeer.errors import OUTCOME_UNKNOWN, StoreRefused
from rocketeer.model.topic import RETRY_PREFIX, Perm, may_not_be_sent_to
from rocketeer.observe.counters import Counters
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.frame import FrameSplitter
from rocketeer.protocol.reply_template import ReplyTemplate
from rocketeer.record.hosts import V4_BYTES
from rocketeer.remoting.router import Connection, Router
from rocketeer.security.access import AccessControl
from rocketeer.store.commit_log import CommitLog
from rocketeer.store.dispatch import Dispatch

AfterReads = Callable[[Callable[[], None]], object]
"""Schedules a function for when all sockets that are ready now have been read."""

_WRITE: Final = int(Perm.WRITE)
_SEND: Final = int(RequestCode.SEND_MESSAGE_V2)
_SUCCESS: Final = int(ResponseCode.SUCCESS)
_STORED_CODES: Final = (
    ResponseCode.SUCCESS,
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
)
"""What a message that was stored may be answered with."""


class SendStore(Protocol):
    """What sending in bulk asks of the store."""

    @property
    def log(self) -> CommitLog: ...

    @property
    def dispatch(self) -> Dispatch: ...

    def sends_answered(self) -> None:
        """Called when sends have been answered: what the store puts off may be done now."""
        ...


class PlainSends:
    """Leads plain sends through the engine: `serve_front` reads them, `flush` appends and answers them."""

    def __init__(
        self,
        router: Router,
        *,
        topics: TopicTable,
        followed_topics: Collection[str],
        store: SendStore,
        store_host: bytes,
        writer: Writer,
        plain: PlainParser,
        reply_ext: Mapping[str, str],
        clock: Clock,
        limits: SendRules,
        after_reads: AfterReads,
        counters: Counters,
        access: AccessControl | None = None,
        stored_ids: StoredIds | None = None,
    ) -> None:
        self._router = router
        self._topics = topics
        self._followed_topics = frozenset(followed_topics)
        self._store = store
        self._writer = writer
        self._counters = counters
        self._clock = clock
        self._reply_ext = reply_ext
        id_start = store_host.hex().upper().encode()
        fields: dict[str, type[int] | bytes] = {
            "msgId": id_start + b"%016X",
            "queueId": int,
            "queueOffset": int,
        }
        self._replies = {
            int(code): ReplyFormat(ReplyTemplate(code, fields, fixed=reply_ext).pieces, id_start)
            for code in _STORED_CODES
        }
        checks = None
        if access is not None:
            checks = SendAccess(access)
            access.on_change.append(checks.forget)
        self._buffer: SendBuffer[Connection] = SendBuffer(
            queues_of=self._queues_of,
            log=store.log,
            dispatch=store.dispatch,
            rules=PropertyRules(plain.claims, plain.cluster_property, stored_ids is not None),
            replies=self._replies[_SUCCESS],
            store_host=store_host,
            limits=limits,
            header_bytes_max=router.header_bytes_max,
            on_first=lambda: after_reads(self.flush),
            on_full=self.flush,
            access=checks,
            ids=None if stored_ids is None else SendIds(stored_ids, limits.other_batch_messages_max),
        )
        self.serve_front = self._buffer.read
        """Takes the plain sends at the front of what a socket brought; how many bytes they have."""
        topics.on_change.append(lambda change: self.forget_topics())

    def enable(self, enabled: bool) -> None:
        """While this is not enabled every send takes the general path."""
        self._buffer.enable(enabled)
        self.forget_topics()

    def flush(self) -> None:
        """Append what the sockets brought, and answer."""
        buffer = self._buffer
        if not len(buffer):
            return
        count, began_s = len(buffer), perf_counter()
        try:
            end, answers = buffer.append(self._clock.now_ms(), self._writer.waits)
        except StoreRefused:  # the general path looks at each by itself, and words it
            for connection, data in buffer.discard():
                self._router.process(FrameSplitter().feed(data), connection, admitted=True)
            return
        except BaseException:
            for connection, _ in buffer.discard():  # a bug of ours, as an error while reading would end them
                connection.close_quietly(abort=True)
            raise
        self._counters.put(count, perf_counter() - began_s)
        for connection, replies, later in answers:
            if replies is not None:
                connection.answer(replies)
            if later:
                self._writer.when_durable(end, self._answer_later(connection, later))
        self._store.sends_answered()
        self._counters.answered(_SEND, _SUCCESS, False, (perf_counter() - began_s) * 1000, count)

    def _answer_later(self, connection: Connection, later: list[Later]) -> Callable[[int], None]:
        return lambda code: connection.answer(self._frames(code, later))

    def _frames(self, code: int, later: list[Later]) -> bytes:
        replies = self._replies.get(code)
        if replies is not None:
            return replies.frames(later)
        unknown = ReplyTemplate(code, {}, remark=OUTCOME_UNKNOWN, fixed=self._reply_ext)
        return b"".join([unknown.frame(opaque) for opaque, *_ in later])

    def forget_topics(self) -> None:
        """Topics or queues changed: nothing that was found out about them holds any more."""
        self.flush()  # what is in the buffer has queues that are asked for anew then
        self._buffer.forget_queues()

    def _queues_of(self, topic: str) -> int | None:
        """How many queues of the topic plain sends may go to."""
        config = self._topics.get(topic)
        if (
            config is None
            or not config.perm & _WRITE
            or config.filter_type != "SINGLE_TAG"
            or topic.startswith(RETRY_PREFIX)
            or may_not_be_sent_to(topic)
            or topic in self._followed_topics
        ):
            return None
        return config.write_queues


def can_send_in_bulk(store_host: bytes, *, extended_queues: bool) -> bool:
    """Whether this broker may have plain sends at all, and the compiled modules are in use."""
    return SendBuffer is not None and not extended_queues and len(store_host) == V4_BYTES
