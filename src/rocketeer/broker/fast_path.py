"""Plain sends and pulls without ceremony; everything else goes to the router. Both give the same bytes (tested).

A send takes this path when all of this holds:
  - JSON header, code SEND_MESSAGE_V2, every header field of the right type, not a batch;
  - the topic exists, is no retry topic, may be written, keeps single tags, and has the queue;
  - no feature claims one of the message's properties;
  - both hosts are IPv4 and no guard has to see the request.
A pull takes it when its header is JSON. All frames of one read share one clock reading and, when replies wait for
the disk, one wait.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from rocketeer.broker.handlers.pull import PullHandler
from rocketeer.broker.plain_properties import PlainParser
from rocketeer.broker.writer import Writer
from rocketeer.clock import Clock
from rocketeer.errors import RequestRefused, StoreRefused
from rocketeer.model.topic import NOT_FOR_CLIENTS, RETRY_PREFIX, Perm, TopicConfig
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import FLAG_ONEWAY, FLAG_RESPONSE, Command
from rocketeer.protocol.frame import JSON, Frame
from rocketeer.protocol.headers import PullMessageHeader, SendMessageV2Header
from rocketeer.protocol.headers.base import raw_decoder
from rocketeer.protocol.json_header import Outer, decode_outer
from rocketeer.protocol.reply_template import ReplyTemplate
from rocketeer.record.hosts import V4_BYTES
from rocketeer.remoting.server import Connection, Router
from rocketeer.store.append import Appended

_SEND: Final = int(RequestCode.SEND_MESSAGE_V2)
_PULL: Final = int(RequestCode.PULL_MESSAGE)
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


class PlainLog(Protocol):
    """What the fast path asks of the store."""

    def append_parts(
        self,
        topic: str,
        queue_id: int,
        flag: int,
        sys_flag: int,
        born_ms: int,
        born_host: bytes,
        body: bytes,
        properties: bytes,
        reconsume_times: int,
        prepared_offset: int,
        store_ms: int,
        tag_code: int,
        keys: str,
        uniq_key: str | None,
    ) -> Appended: ...


class FastPath:
    """Takes the frames of one read, in order."""

    def __init__(
        self,
        router: Router,
        *,
        topics: Mapping[str, TopicConfig],
        store: PlainLog,
        store_host: bytes,
        writer: Writer,
        plain: PlainParser,
        pulls: PullHandler,
        reply_ext: Mapping[str, str],
        clock: Clock,
        broker_writable: bool,
    ) -> None:
        self._router = router
        self._topics = topics
        self._store = store
        self._id_format = store_host.hex().upper().encode() + b"%016X"
        self._writer = writer
        self._plain = plain
        self._pulls = pulls
        self._clock = clock
        self._enabled = broker_writable and not router.guarded and len(store_host) == V4_BYTES
        self._templates = {
            int(code): ReplyTemplate(
                code, {"msgId": bytes, "queueId": int, "queueOffset": int}, fixed=reply_ext
            )
            for code in _STORED_CODES
        }
        self._decode_send = raw_decoder(SendMessageV2Header).decode
        self._decode_pull = raw_decoder(PullMessageHeader).decode

    def process(self, frames: list[Frame], connection: Connection) -> None:
        now_ms = self._clock.now_ms()
        waiting: list[Stored] = []
        end = 0
        for frame in frames:
            kind, header, body = frame
            if kind == JSON:
                outer = decode_outer(header)
                code = outer.code
                if code == _SEND and not outer.flag & FLAG_RESPONSE:
                    taken = self._send(
                        outer.ext_raw, outer.opaque, outer.flag, body, connection, now_ms, waiting
                    )
                    if taken:
                        end = max(end, taken)
                        continue
                elif (
                    code == _PULL
                    and not self._router.guarded
                    and not outer.flag & FLAG_RESPONSE
                    and self._pull(outer, connection)
                ):
                    continue
            self._router.process([frame], connection)
        if waiting:
            self._writer.when_durable(end, self._releaser(connection, waiting))

    def _send(
        self,
        ext: msgspec.Raw,
        opaque: int,
        flag: int,
        body: bytes,
        connection: Connection,
        now_ms: int,
        waiting: list[Stored],
    ) -> int:
        """Store and answer one message; the end of its record in the log, or 0 when it is not for this path."""
        try:
            header = self._decode_send(ext)
        except msgspec.DecodeError:
            return 0
        topic = header.topic
        config = self._topics.get(topic)
        queue_id = header.queue_id
        born_host = connection.remote_host
        if (
            config is None
            or not config.perm & _WRITE
            or not 0 <= queue_id < config.write_queues
            or header.batch
            or not self._enabled
            or len(born_host) != V4_BYTES
            or config.filter_type != "SINGLE_TAG"
            or topic.startswith(RETRY_PREFIX)
            or topic in NOT_FOR_CLIENTS
        ):
            return 0
        plain = self._plain.parse(header.properties or "")
        if plain is None:
            return 0
        properties, wait, tag_code, keys, uniq_key = plain
        try:
            appended = self._store.append_parts(
                topic,
                queue_id,
                header.flag,
                header.sys_flag,
                header.born_ms,
                born_host,
                body,
                properties,
                header.reconsume_times or 0,
                0,
                now_ms,
                tag_code,
                keys,
                uniq_key,
            )
        except StoreRefused:
            return 0  # the general path words the refusal
        if not flag & FLAG_ONEWAY:
            stored = (opaque, appended.log_offset, queue_id, appended.queue_offset)
            if wait and self._writer.waits:
                waiting.append(stored)
            else:
                connection.write(self._reply(_SUCCESS, stored))
        return appended.end

    def _reply(self, code: int, stored: Stored) -> bytes:
        opaque, log_offset, queue_id, queue_offset = stored
        return self._templates[code].frame(opaque, self._id_format % log_offset, queue_id, queue_offset)

    def _releaser(self, connection: Connection, waiting: Sequence[Stored]) -> Callable[[int], None]:
        def release(code: int) -> None:
            connection.write(b"".join([self._reply(code, stored) for stored in waiting]))

        return release

    def _pull(self, outer: Outer, connection: Connection) -> bool:
        """Serve one pull; False when it is not for this path or was refused (the general path words that)."""
        try:
            header = self._decode_pull(outer.ext_raw)
            self._pulls.serve(header, Command(code=_PULL, opaque=outer.opaque, flag=outer.flag), connection)
        except (msgspec.DecodeError, RequestRefused):
            return False
        return True
