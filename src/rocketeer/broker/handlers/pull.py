"""PULL_MESSAGE: answered at once, or held until a matching message arrives or the hold time is over."""

import logging
from collections.abc import Callable
from time import perf_counter
from typing import Final

from rocketeer.broker.held_pulls import HeldPulls
from rocketeer.broker.offsets import ConsumerOffsets
from rocketeer.broker.pull import FLAG_COMMIT_OFFSET, FLAG_SUSPEND, PreparedPull, PullService, outcome_of
from rocketeer.clock import Clock
from rocketeer.errors import RequestRefused
from rocketeer.model.offsets import QueueOffset
from rocketeer.observe.counters import Counters
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import FLAG_ONEWAY, Command, encode_head, reply
from rocketeer.protocol.frame import JSON, pack_prefix
from rocketeer.protocol.headers.base import decode_header
from rocketeer.protocol.headers.pull import PullMessageHeader
from rocketeer.protocol.reply_template import ReplyTemplate
from rocketeer.remoting.router import Connection, Handler
from rocketeer.store.get import FOUND, Fetched
from rocketeer.store.large import LARGE_BYTES_MAX

log = logging.getLogger(__name__)

HOLD_MS_MAX = 300_000
LAG_HOLD_MS = 500
"""How long a slave that lags holds pulls beyond its end: Java's clients ask again as soon as they have the answer."""
BROKER_IDS_KEPT = 16
"""Replies that send groups to a broker with a higher id are made anew each time: a group's setting may name any."""
ATTEMPTS_MAX = 8
ATTEMPTS_S = 0.004
_NOTHING = frozenset({ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY})
_SUCCESS: Final = int(ResponseCode.SUCCESS)
_OFFSETS = ("nextBeginOffset", "minOffset", "maxOffset")

OffsetMoved = Callable[[PreparedPull, QueueOffset], None]
"""Told when a consumer asked for an offset that does not exist, with the one it was led to."""


class PullHandler:
    """Leads a pull from its header to its reply."""

    def __init__(
        self,
        service: PullService,
        *,
        holds: HeldPulls,
        offsets: ConsumerOffsets,
        clock: Clock,
        offset_moved: OffsetMoved,
        long_polling: bool,
        short_polling_ms: int,
        keeps_offsets: bool,
        counters: Counters,
    ) -> None:
        """`keeps_offsets`: not on a slave, whose table of offsets is its master's."""
        self._service = service
        self._counters = counters
        self._holds = holds
        self._offsets = offsets
        self._clock = clock
        self._offset_moved = offset_moved
        self._long_polling = long_polling
        self._short_polling_ms = short_polling_ms
        self._commit_flag = FLAG_COMMIT_OFFSET if keeps_offsets else 0
        self._found: dict[int, ReplyTemplate] = {}

    def set_polling(self, long_polling: bool, short_polling_ms: int) -> None:
        """Pulls that are held from now on are held so."""
        self._long_polling = long_polling
        self._short_polling_ms = short_polling_ms

    def handlers(self) -> dict[int, Handler]:
        return {RequestCode.PULL_MESSAGE: self.pull}

    def pull(self, command: Command, connection: Connection) -> Command | None:
        self.serve(decode_header(PullMessageHeader, command.ext), command, connection)
        return None

    def serve(self, header: PullMessageHeader, command: Command, connection: Connection) -> None:
        """Answer on the connection, now or later."""
        began_s = perf_counter()
        pull = self._service.prepare(header, connection.remote)
        fetched = self._service.attempt(pull)
        if header.sys_flag & self._commit_flag:
            self._commit(pull, QueueOffset(header.commit_offset))
        if fetched.status is FOUND:
            self._answer(pull, fetched, _SUCCESS, command, connection, began_s)
            return
        code, lags = outcome_of(pull, fetched)
        suspends = header.sys_flag & FLAG_SUSPEND
        if code == ResponseCode.PULL_NOT_FOUND and suspends:
            self._hold(pull, header.suspend_ms, command, connection, began_s)
        elif lags and suspends:
            self._hold(pull, min(header.suspend_ms, LAG_HOLD_MS), command, connection, began_s)
        else:
            self._answer(pull, fetched, code, command, connection, began_s)

    def _commit(self, pull: PreparedPull, offset: QueueOffset) -> None:
        """Commit the offset that came with the pull; the messages are answered in any case, as RocketMQ does."""
        try:
            self._offsets.commit(pull.group, pull.topic, pull.queue_id, offset)
        except RequestRefused as refusal:  # the consumer's own commit (15) is told so
            # Without its names: the log says a condition now and then, and each name would be another one.
            log.warning("offset that came with a pull not kept reason=%s", refusal.remark)

    def _hold(
        self,
        pull: PreparedPull,
        suspend_ms: int,
        command: Command,
        connection: Connection,
        began_s: float,
    ) -> None:
        hold_ms = min(suspend_ms, HOLD_MS_MAX) if self._long_polling else self._short_polling_ms
        if command.ext or command.body:  # what it brought may be large, and the answer needs none of it
            command = Command(
                code=command.code, opaque=command.opaque, flag=command.flag, serialize=command.serialize
            )
        made_of = pull.made_of
        if made_of:
            pull.accepts, pull.matches = self._holds.share(made_of, (pull.accepts, pull.matches))

        def retry(last: bool) -> bool:
            if connection.closed:
                return True
            # One attempt looks at a bounded number of messages; after some of them it is the client's turn.
            until_s = self._clock.monotonic_s() + ATTEMPTS_S
            for _ in range(ATTEMPTS_MAX):
                try:
                    fetched = self._service.attempt(pull)
                except RequestRefused as refusal:
                    connection.send(reply(command, refusal.code, refusal.remark))
                    return True
                code, lags = outcome_of(pull, fetched)
                if last or code not in _NOTHING:
                    break
                if code == ResponseCode.PULL_NOT_FOUND or lags:
                    return False
                # What arrived does not match the filter: wait on, but do not look at it again.
                pull.offset = fetched.next_offset
                if pull.offset >= fetched.max_offset:
                    return False
                if self._clock.monotonic_s() >= until_s:
                    break
            self._answer(pull, fetched, code, command, connection, began_s, held=True)
            return True

        deadline_s = self._clock.monotonic_s() + hold_ms / 1000
        try:
            self._holds.hold(pull.topic, pull.queue_id, deadline_s, retry, connection, made_of=made_of)
        except RequestRefused:
            self._holds.unshare(made_of)
            raise

    def _answer(
        self,
        pull: PreparedPull,
        fetched: Fetched,
        code: int,
        command: Command,
        connection: Connection,
        began_s: float,
        *,
        held: bool = False,
    ) -> None:
        self._counters.pull_answered(
            (pull.topic, pull.group), pull.queue_id, fetched.next_offset, fetched.count, fetched.bytes,
            fetched.suggest_slave, code, (perf_counter() - began_s) * 1000, held,
        )  # fmt: skip
        if code != _SUCCESS and code == ResponseCode.PULL_OFFSET_MOVED:
            self._offset_moved(pull, fetched.next_offset)
        if command.flag & FLAG_ONEWAY:
            return
        offsets = (fetched.next_offset, fetched.min_offset, fetched.max_offset)
        suggested = pull.far_id if fetched.suggest_slave else pull.near_id
        if fetched.status is FOUND and command.serialize == JSON and pull.large_bytes is None:
            found = self._found.get(suggested)
            if found is None:
                found = _found_template(suggested)
                if 0 <= suggested < BROKER_IDS_KEPT:
                    self._found[suggested] = found
            front = found.frame(command.opaque, *offsets, body_bytes=fetched.bytes)
        else:
            ext = _suggestion(suggested) | dict(zip(_OFFSETS, map(str, offsets), strict=True))
            if pull.large_bytes is not None:
                ext["rocketeerMaxBytes"] = str(LARGE_BYTES_MAX)  # tells the reader that it was understood
            head = encode_head(reply(command, code, fetched.status.name, ext))
            front = pack_prefix(command.serialize, len(head), fetched.bytes) + head
        connection.write_parts([front, *fetched.parts])


def _suggestion(broker_id: int) -> dict[str, str]:
    """Which broker of this name to pull from next."""
    return {"suggestWhichBrokerId": str(broker_id)}


def _found_template(broker_id: int) -> ReplyTemplate:
    return ReplyTemplate(
        ResponseCode.SUCCESS,
        dict.fromkeys(_OFFSETS, int),
        remark=FOUND.name,
        fixed=_suggestion(broker_id),
    )
