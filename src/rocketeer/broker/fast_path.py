"""Plain sends and pulls without ceremony; everything else goes to the router. Both give the same bytes (tested).

A send takes this path when all of this holds:
  - JSON header that begins with its code, SEND_MESSAGE_V2; every field of the right type; not a batch;
  - the topic exists, is no retry topic, may be written, keeps single tags, and has the queue;
  - no feature claims one of the message's properties;
  - both hosts are IPv4 and no guard has to see the request.
A pull takes it when its header is JSON and no guard has to see it.

The sends of one read of a socket are stored as one run: one clock reading, one copy into the log, one wait when
replies wait for the disk. Where the compiled `SendRuns` is installed, it takes the plain sends, and plain batches,
at the front of a read, and all that the sockets bring in one turn of the loop is one run; `process` is for the frames
behind them, and stores the run first, so that every request finds the work of those before it done.
"""

from collections.abc import Callable, Mapping
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from rocketeer.broker.feature import Guard
from rocketeer.broker.handlers.pull import PullHandler
from rocketeer.broker.plain_properties import PlainParser
from rocketeer.broker.topics import TopicTable
from rocketeer.broker.writer import Writer
from rocketeer.clock import Clock
from rocketeer.errors import RequestRefused, StoreRefused
from rocketeer.model.topic import RETRY_PREFIX, Perm, may_not_be_sent_to
from rocketeer.observe.counters import Counters
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import FLAG_ONEWAY, FLAG_RESPONSE, Command
from rocketeer.protocol.frame import JSON, Frame, FrameSplitter
from rocketeer.protocol.headers import PullMessageHeader, SendMessageV2Header
from rocketeer.protocol.headers.base import raw_decoder
from rocketeer.protocol.json_header import NOT_THE_JSON, decode_outer
from rocketeer.protocol.reply_template import ReplyTemplate
from rocketeer.record.entry import DispatchEntry
from rocketeer.record.hosts import V4_BYTES
from rocketeer.record.speed import Row, SendFields, reply_frames
from rocketeer.remoting.server import Connection, Router

if TYPE_CHECKING:
    from rocketeer.record._run import Later, SendRuns

_SEND: Final = int(RequestCode.SEND_MESSAGE_V2)
_PULL: Final = int(RequestCode.PULL_MESSAGE)
_SEND_START: Final = b'{"code":%d,' % _SEND
_PULL_START: Final = b'{"code":%d,' % _PULL
_WRITE: Final = int(Perm.WRITE)
_SUCCESS: Final = int(ResponseCode.SUCCESS)
_STORED_CODES: Final = (
    ResponseCode.SUCCESS,
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
)
"""What a message that was stored may be answered with."""

Stored = tuple[int, int, int, int]
"""(opaque, log offset, queue id, queue offset): all that a reply says."""

Ask = tuple[int, bool, bool, Frame]
"""What answering a send takes: opaque, oneway, whether it waits for durability, and its frame."""


class SendCommand(msgspec.Struct, gc=False):
    """A whole SEND_MESSAGE_V2 header, decoded in one go."""

    code: int
    ext: SendMessageV2Header = msgspec.field(name="extFields")
    opaque: int = 0
    flag: int = 0


class PlainLog(Protocol):
    """What the fast path asks of the store."""

    def append_run(self, rows: list[Row], store_ms: int) -> list[DispatchEntry]: ...

    def run_stored(self) -> None:
        """Called when a run has been answered: what the store puts off may be done now."""
        ...

    def send_runs(
        self,
        qualify: Callable[[str], int | None],
        *,
        claims: frozenset[str],
        cluster_property: str,
        pieces: tuple[bytes, ...],
    ) -> "SendRuns[Connection] | None":
        """The compiled way for runs of sends, if it is installed."""
        ...


class FastPath:
    """Takes the frames of one read, in order."""

    def __init__(
        self,
        router: Router,
        *,
        topics: TopicTable,
        store: PlainLog,
        store_host: bytes,
        writer: Writer,
        plain: PlainParser,
        pulls: PullHandler,
        reply_ext: Mapping[str, str],
        clock: Clock,
        broker_writable: bool,
        after_reads: Callable[[Callable[[], None]], object],
        counters: Counters,
    ) -> None:
        """`after_reads` has something run when the sockets that are ready now have been read."""
        self._router = router
        self._after_reads = after_reads
        self._counters = counters
        self._topics = topics
        self._store = store
        msg_id = store_host.hex().upper().encode() + b"%016X"
        self._writer = writer
        self._plain = plain
        self._pulls = pulls
        self._clock = clock
        self._guarded = router.guarded
        self._header_bytes_max = router.header_bytes_max
        self._eligible = not router.guarded and len(store_host) == V4_BYTES
        self._may_be_used = self._eligible and broker_writable
        self._enabled = self._may_be_used
        self._templates = {
            int(code): ReplyTemplate(
                code, {"msgId": msg_id, "queueId": int, "queueOffset": int}, fixed=reply_ext
            )
            for code in _STORED_CODES
        }
        self._plain_queues: dict[str, int] = {}
        topics.on_change.append(lambda change: self.forget_topics())
        self._runs: SendRuns[Connection] | None = None
        if self._eligible:
            self._runs = store.send_runs(
                lambda topic: self._qualify(topic) or None,
                claims=plain.claims,
                cluster_property=plain.cluster_property,
                pieces=self._templates[_SUCCESS].pieces,
            )
        if self._runs is not None:
            self._runs.on_open = lambda: self._after_reads(self._end_turn)
            self._runs.on_full = self._store_turn
            self._runs.enabled = self._enabled
        self.take = None if self._runs is None else self._runs.take
        """Serves the plain sends at the front of what a socket brought; how many bytes they have."""
        self._send_decoder = msgspec.json.Decoder(SendCommand, strict=False)
        self._read_send = plain.send_reader(self._decode_send)
        self._decode_pull = raw_decoder(PullMessageHeader).decode

    def _end_turn(self) -> None:
        assert self._runs is not None
        if self._runs.is_open:  # else a request of another kind came, and it was stored before that
            self._store_turn()

    def _store_turn(self) -> None:
        """Store what the sockets brought, and answer."""
        runs = self._runs
        assert runs is not None
        count, began_s = len(runs), perf_counter()
        try:
            end, answers = runs.store(self._clock.now_ms(), self._writer.waits)
        except StoreRefused:  # the general path looks at each by itself, and words it
            for connection, data in runs.give_up():
                self._router.process(FrameSplitter().feed(data), connection)
            return
        except BaseException:
            for connection, _ in runs.give_up():  # a bug of ours, as an error while reading would end them
                connection.shut(abort=True)
            raise
        self._counters.put(count, perf_counter() - began_s)
        for connection, replies, later in answers:
            if replies is not None:
                connection.answer(replies)
            if later:
                self._writer.when_durable(end, self._later_releaser(runs, connection, later))
        self._store.run_stored()
        self._counters.answered(_SEND, _SUCCESS, False, (perf_counter() - began_s) * 1000, count)

    def _later_releaser(
        self, runs: "SendRuns[Connection]", connection: Connection, later: "list[Later]"
    ) -> Callable[[int], None]:
        return lambda code: connection.answer(runs.replies(later, self._templates[code].pieces))

    def brake(self, guard: Guard | None) -> None:
        """While there is a brake every request takes the general path, where it is seen; None opens this one."""
        self._router.brake = guard
        self._guarded = guard is not None or self._router.guarded
        self._enabled = self._may_be_used and guard is None
        if self._runs is not None:
            self._runs.enabled = self._enabled
        self.forget_topics()

    def set_writable(self, writable: bool) -> None:
        """Whether the broker may be written to; what may not be is refused on the general path."""
        self._may_be_used = self._eligible and writable
        self.brake(self._router.brake)

    def forget_topics(self) -> None:
        """Topics or queues changed: nothing that was found out about them holds any more."""
        self._plain_queues.clear()
        if self._runs is not None:
            if self._runs.is_open:  # the lanes of its messages go
                self._store_turn()
            self._runs.forget()

    def process(self, frames: list[Frame], connection: Connection) -> None:
        if self._runs is not None and self._runs.is_open:
            self._store_turn()
        rows: list[Row] = []
        asks: list[Ask] = []
        for done, frame in enumerate(frames, 1):
            kind, header, _ = frame
            if kind == JSON and len(header) <= self._header_bytes_max:
                if header.startswith(_SEND_START):
                    if self._take_send(frame, connection.remote_host, rows, asks):
                        continue
                elif not self._guarded and header.startswith(_PULL_START):
                    if rows:
                        self._store_run(rows, asks, connection)
                        rows, asks = [], []
                    if self._pull(header, connection):
                        if monotonic() >= connection.turn_ends_s:
                            connection.postpone(frames[done:])
                            break
                        continue
            if rows:
                self._store_run(rows, asks, connection)
                rows, asks = [], []
            self._router.process([frame], connection)
            if monotonic() >= connection.turn_ends_s:
                connection.postpone(frames[done:])
                break
        if rows:
            self._store_run(rows, asks, connection)

    def _take_send(self, frame: Frame, born_host: bytes, rows: list[Row], asks: list[Ask]) -> bool:
        """Put one message into the run; False when it is not for this path."""
        fields = self._read_send(frame[1])
        if fields is None:
            return False
        opaque, flag, topic, queue_id, message_flag, sys_flag, born_ms, reconsumed, plain = fields
        queues = self._plain_queues.get(topic)
        if queues is None:
            queues = self._qualify(topic)
        if not 0 <= queue_id < queues or len(born_host) != V4_BYTES or flag & FLAG_RESPONSE:
            return False
        stored, wait, tag_code, keys, uniq_key = plain
        rows.append(
            (topic, queue_id, message_flag, sys_flag, born_ms, born_host, frame[2], stored, reconsumed, 0, tag_code,
             keys, uniq_key)
        )  # fmt: skip
        asks.append((opaque, flag & FLAG_ONEWAY != 0, wait, frame))
        return True

    def _decode_send(self, header: bytes) -> SendFields | None:
        """What the header says, if it is a plain send's; the compiled reader leaves the unusual to this one."""
        try:
            command = self._send_decoder.decode(header)
        except NOT_THE_JSON:
            return None
        ext = command.ext
        plain = self._plain.parse(ext.properties or "")
        if plain is None or ext.batch or command.code != _SEND:
            return None
        return (
            command.opaque,
            command.flag,
            ext.topic,
            ext.queue_id,
            ext.flag,
            ext.sys_flag,
            ext.born_ms,
            ext.reconsume_times or 0,
            plain,
        )

    def _qualify(self, topic: str) -> int:
        """How many queues of the topic plain sends may go to; remembered until any topic changes."""
        config = self._topics.get(topic)
        queues = 0
        if (
            config is not None
            and self._enabled
            and config.perm & _WRITE
            and config.filter_type == "SINGLE_TAG"
            and not topic.startswith(RETRY_PREFIX)
            and not may_not_be_sent_to(topic)
        ):
            queues = config.write_queues
        if config is not None:
            self._plain_queues[topic] = queues
        return queues

    def _store_run(self, rows: list[Row], asks: list[Ask], connection: Connection) -> None:
        """Store the run and answer each of its messages, or all of them when the disk has them."""
        began_s = perf_counter()
        try:
            run = self._store.append_run(rows, self._clock.now_ms())
        except StoreRefused:
            # One of them is refused, or the run does not fit a file: the general path looks at each by itself.
            self._router.process([frame for _, _, _, frame in asks], connection)
            return
        took_s = perf_counter() - began_s
        self._counters.put(len(run), took_s)
        self._counters.answered(_SEND, _SUCCESS, False, took_s * 1000, len(run))
        waits = self._writer.waits
        now: list[Stored] = []
        later: list[Stored] = []
        for entry, (opaque, oneway, wait, _) in zip(run, asks, strict=True):
            if not oneway:
                (later if wait and waits else now).append((opaque, entry[0], entry[3], entry[4]))
        if now:
            connection.write(self._replies(_SUCCESS, now))
        if later:
            self._writer.when_durable(run[-1].end, self._releaser(connection, later))

    def _releaser(self, connection: Connection, waiting: list[Stored]) -> Callable[[int], None]:
        return lambda code: connection.write(self._replies(code, waiting))

    def _replies(self, code: int, run: list[Stored]) -> bytes:
        template = self._templates[code]
        if reply_frames is not None:
            return reply_frames(template.pieces, run)
        return b"".join([template.frame(*stored) for stored in run])

    def _pull(self, header: bytes, connection: Connection) -> bool:
        """Serve one pull; False when it is not for this path or was refused (the general path words that)."""
        try:
            outer = decode_outer(header)
            if outer.code != _PULL or outer.flag & FLAG_RESPONSE:
                return False
            request = self._decode_pull(outer.ext_raw)
            self._pulls.serve(request, Command(code=_PULL, opaque=outer.opaque, flag=outer.flag), connection)
        except (*NOT_THE_JSON, RequestRefused, OSError):
            return False
        return True
