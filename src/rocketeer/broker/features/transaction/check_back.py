"""Asks producers how transactions ended (CHECK_TRANSACTION_STATE) when nobody said so in time.

The rules are RocketMQ 4.9.8's: in the order of the half queue, every interval; not before `transactionTimeOut` (or
the message's own immunity time); each time the half is appended anew with its count, and after `transactionCheckMax`
times it is given up. Any member of the producer's group may answer. Better than there: with no member to ask, the
half waits and is not counted, and neither is it while it is immune. It waits as long as the log is kept
(`fileReservedTime`, by which RocketMQ gives halves up as well), unless open transactions fill more than half of
what they may: then those that nobody can be asked after are given up, the oldest first, and nobody is immune.
"""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from rocketeer.broker.clients import ClientTable
from rocketeer.broker.features.transaction import messages
from rocketeer.broker.features.transaction.ledger import NO_ROOM, Ledger
from rocketeer.broker.topics import TopicTable
from rocketeer.clock import Clock
from rocketeer.config import BrokerConfig, StoreConfig
from rocketeer.model.group import GROUP_BYTES_MAX
from rocketeer.model.offsets import LogOffset
from rocketeer.model.property_names import PGROUP, TRAN_PREPARED_QUEUE_OFFSET, TRANSACTION_CHECK_TIMES
from rocketeer.model.topic import TRANS_HALF_TOPIC
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import Command, request
from rocketeer.protocol.headers.transaction import CheckTransactionStateHeader
from rocketeer.record.entry import DispatchEntry
from rocketeer.record.ids import offset_msg_id
from rocketeer.record.layout import PendingMessage, StoredMessage
from rocketeer.remoting.connection import Connection
from rocketeer.remoting.slices import in_slices
from rocketeer.steps import Steps

log = logging.getLogger(__name__)

LARGE_BYTES: Final = 1 << 18
UNREAD_BYTES_MAX: Final = 1 << 20
"""A producer that does not read what it was asked is asked no more."""
TOLD_GROUPS_MAX: Final = 100
"""In a round: groups whose half messages wait."""
BEHIND_MAX: Final = 10_000
"""A waiting half with so many behind it that have ended, and as many as wait, is appended anew: progress stops at it,
and a start would read them all."""
MOVED_SHARE: Final = 4
MOVED_BYTES_MAX: Final = 64 << 20
"""What is appended anew for that is at most a fourth of what else the log has grown by, and so much in a round."""


@dataclass(frozen=True)
class CheckRules:
    """The part of the broker's configuration that checking depends on."""

    timeout_ms: int
    times_max: int
    interval_ms: int
    reserved_ms: int = 72 * 3_600_000
    """How long the log is kept; 0: nobody says so."""
    half_messages_max: int = 300_000
    half_bytes_max: int = 1 << 30

    @classmethod
    def of(cls, config: BrokerConfig, store: StoreConfig) -> "CheckRules":
        return cls(
            timeout_ms=config.transaction_timeout_ms,
            times_max=config.transaction_checks_max,
            interval_ms=config.transaction_check_interval_ms,
            reserved_ms=store.reserved_hours * 3_600_000,
            half_messages_max=config.limits.half_messages,
            half_bytes_max=config.limits.half_bytes,
        )


class _CheckResult(Enum):
    """Result of checking one half message."""

    DONE = auto()
    WAITS = auto()
    STOP = auto()


class Checks:
    """Checks pending half messages with their producers: one round at a time, in slices."""

    def __init__(
        self,
        ledger: Ledger,
        rules: CheckRules,
        *,
        clients: ClientTable[Connection],
        topics: TopicTable,
        clock: Clock,
        persist: Callable[[], Awaitable[None]],
    ) -> None:
        self._ledger = ledger
        self._persist = persist
        self._rules = rules
        self._clients = clients
        self._topics = topics
        self._clock = clock
        self._turn = 0
        self._waiting: Counter[str] = Counter()
        self._log_end = 0
        """When the last round began."""
        self._to_move_bytes = 0

    def set_rules(self, rules: CheckRules) -> None:
        """What holds from now on."""
        self._rules = rules

    async def run(self) -> None:
        """Look at every pending half that is old enough, and have the progress saved."""
        await in_slices(self.round())
        if self._ledger.table.take_dirty():
            # Without delay: a Java broker that takes over after a crash takes copies for other messages.
            await self._persist()

    def round(self) -> Steps[None]:
        """The round, a half a step."""
        table = self._ledger.table
        table.catch_up()
        if table.read_to:  # there is one to speak of
            self._topics.create_in_send_back(TRANS_HALF_TOPIC, 1)
        self._ledger.flush_ops()
        began_ms = self._clock.now_ms()
        self._waiting.clear()
        log_end = self._ledger.store.max_log_offset
        grown = max(log_end - self._log_end, 0) // MOVED_SHARE
        self._to_move_bytes = min(self._to_move_bytes + grown, MOVED_BYTES_MAX)
        self._log_end = log_end
        some_wait = False
        for log_offset in list(table.pending):
            if log_offset in table.pending:  # nobody ended it since the round began
                result = yield from self._check(LogOffset(log_offset), began_ms, some_wait)
                if result is _CheckResult.STOP:
                    break
                some_wait = some_wait or result is _CheckResult.WAITS
            yield
        while table.advance_ops():
            yield
        table.commit_progress()
        yield from self._tell_waiting()
        self._ledger.log_moved_count()

    def _tell_waiting(self) -> Steps[None]:
        """Log the groups that have no producer to ask, up to TOLD_GROUPS_MAX: each half message may name another
        group."""
        waiting = list(self._waiting.items())
        for group, count in waiting[:TOLD_GROUPS_MAX]:
            log.warning(
                "half messages wait: no producer of their group is here group=%s count=%d", group, count
            )
            yield
        if len(waiting) > TOLD_GROUPS_MAX:
            log.warning("half messages wait of more groups than are told count=%d", len(waiting))

    def _check(self, log_offset: LogOffset, began_ms: int, some_wait: bool) -> Steps[_CheckResult]:
        """Check one half message; reading, storing and sending are steps of their own: a half may have megabytes."""
        half = self._ledger.store.message_at(log_offset)
        if half is not None and len(half.body) > LARGE_BYTES:
            yield
            if log_offset not in self._ledger.table.pending:  # somebody ended it meanwhile
                return _CheckResult.DONE
        if half is None:
            log.warning("half message gone log_offset=%d", log_offset)
            self._ledger.table.forget(log_offset)
            return _CheckResult.DONE
        properties = half.properties_dict()
        times = messages.check_times(properties)
        if TRANSACTION_CHECK_TIMES in properties and times >= self._rules.times_max:
            return self._move_to_max_checks(half, "asked after too often", some_wait)
        now_ms = self._clock.now_ms()
        if (
            began_ms <= half.store_ms <= now_ms
        ):  # later than now: the clock was ahead then, which says nothing
            return _CheckResult.STOP
        age_ms = now_ms - half.born_ms
        immunity_ms = messages.immunity_ms(properties, self._rules.timeout_ms)
        if immunity_ms is None:
            if 0 <= age_ms < self._rules.timeout_ms:
                return _CheckResult.STOP
        elif age_ms < immunity_ms and not self._is_crowded():
            if TRAN_PREPARED_QUEUE_OFFSET in properties:
                return self._wait(half, some_wait)
            return self._move(half, messages.immune_copy(half), some_wait)
        group = properties.get(PGROUP, "")
        member = self._member(group)
        if member is None:
            self._waiting[group[:GROUP_BYTES_MAX]] += 1
            return self._wait(half, some_wait)
        again = messages.checked_copy(half)
        if not messages.fits(again):
            return self._move_to_max_checks(half, NO_ROOM, some_wait)
        copy = self._ledger.append_again(half, again, passed_by=some_wait)
        if copy is None:
            return _CheckResult.STOP
        if len(half.body) > LARGE_BYTES:
            yield
        member.send(_question(half, copy))
        return _CheckResult.DONE

    def _wait(self, half: StoredMessage, some_wait: bool) -> _CheckResult:
        waited_ms = self._ledger.store.expiry_ms() - messages.waits_since_ms(half, half.properties_dict())
        if 0 < self._rules.reserved_ms < waited_ms:
            return self._move_to_max_checks(
                half, "nobody could be asked as long as the log is kept", some_wait
            )
        if self._is_crowded():
            return self._move_to_max_checks(half, "nobody can be asked, and too many wait", some_wait)
        table = self._ledger.table
        if (
            some_wait  # progress stops at another one
            or table.ended_behind < max(BEHIND_MAX, len(table.pending))
            or half.size > self._to_move_bytes
        ):
            return _CheckResult.WAITS
        self._to_move_bytes -= half.size
        return self._move(half, messages.rolled_copy(half), some_wait)

    def _is_crowded(self) -> bool:
        table, rules = self._ledger.table, self._rules
        return (
            2 * len(table.pending) > rules.half_messages_max or 2 * table.pending_bytes > rules.half_bytes_max
        )

    def _move_to_max_checks(self, half: StoredMessage, why: str, some_wait: bool) -> _CheckResult:
        is_moved = self._ledger.move_to_max_checks(half, why, passed_by=some_wait)
        return _CheckResult.DONE if is_moved else _CheckResult.STOP

    def _move(self, half: StoredMessage, copy: PendingMessage, some_wait: bool) -> _CheckResult:
        if not messages.fits(copy):
            return self._move_to_max_checks(half, NO_ROOM, some_wait)
        entry = self._ledger.append_again(half, copy, passed_by=some_wait)
        return _CheckResult.STOP if entry is None else _CheckResult.DONE

    def _member(self, group: str) -> Connection | None:
        """A living member of the group, each in turn."""
        members = [
            member.connection
            for member in self._clients.producers_of(group)
            if not member.connection.closed and member.connection.unread_bytes < UNREAD_BYTES_MAX
        ]
        self._turn += 1
        return members[self._turn % len(members)] if members else None


def _question(half: StoredMessage, copy: DispatchEntry) -> Command:
    header = CheckTransactionStateHeader(
        half_queue_offset=copy.queue_offset,
        log_offset=copy.log_offset,
        msg_id=half.uniq_key,
        transaction_id=half.uniq_key,
        offset_msg_id=offset_msg_id(half.store_host, copy.log_offset),
    )
    body = messages.question(half, copy)
    return request(RequestCode.CHECK_TRANSACTION_STATE, header, body=body, oneway=True)
