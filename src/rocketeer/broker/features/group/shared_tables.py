"""Tables that go through the group's log: offsets, queue locks, topics, groups.

    leader    a table changes -> a record of the change in the log -> confirmed -> the request is answered
    follower  the record is dispatched -> the table is the same
    start     tables from their files, then the records behind them once more

A record says what a thing is now, not what was done to it, so one that is seen twice does no harm. What is committed
by the way (with pulls, one-way) is recorded together, several times a second.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Final

from rocketeer.broker.feature import Dispatcher, Feature, Periodic, Replay
from rocketeer.broker.features.group.table_position import Position
from rocketeer.broker.features.group.table_records import (
    RECORD_BYTES,
    Changes,
    SharedTableSet,
    records_of,
    taking_over,
)
from rocketeer.broker.locks import ChangeTrackingLocks
from rocketeer.broker.table_text import TableReplies
from rocketeer.broker.topics import ChangeKind, TopicChange
from rocketeer.clock import Clock
from rocketeer.errors import OUTCOME_UNKNOWN, RequestRefused, StoreRefused
from rocketeer.model.offsets import LogOffset
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, reply
from rocketeer.record.dispatch_entry import DispatchEntry
from rocketeer.record.skip import SkipFilter
from rocketeer.record.table_change import TOPIC, is_table_change, table_change
from rocketeer.remoting.router import Connection, Handler
from rocketeer.remoting.slices import Slicer
from rocketeer.steps import Steps, finish
from rocketeer.store.message_store import MessageStore

log = logging.getLogger(__name__)

RECORD_S: Final = 0.2
"""What nobody waits for is recorded this often."""
SLICE_S: Final = 0.001
"""Time in a turn of the loop for records: requests wait for them, and they wait for nobody."""

SHARED: Final = (
    RequestCode.UPDATE_CONSUMER_OFFSET,
    RequestCode.UPDATE_AND_CREATE_TOPIC,
    RequestCode.DELETE_TOPIC_IN_BROKER,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    RequestCode.DELETE_SUBSCRIPTIONGROUP,
    RequestCode.LOCK_BATCH_MQ,
    RequestCode.UNLOCK_BATCH_MQ,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
    RequestCode.CLONE_GROUP_OFFSET,
)
"""Requests that change the tables: only a leader takes them, and answers when the in-sync set has the change."""


class SharedTables:
    """Keeps the group's tables and the records of their changes alike. Belongs to the loop thread."""

    def __init__(
        self, store: MessageStore, clock: Clock, host: bytes, tables: SharedTableSet, *, position: Position
    ) -> None:
        self._store = store
        self._clock = clock
        self._host = host
        self._tables = tables
        self.position = position
        self._waiting = position.waiting
        self._record_bytes = min(RECORD_BYTES, store.config.message_bytes_max // 4)
        self._slicer = Slicer(slice_s=SLICE_S)
        self._topics: dict[str, None] = {}
        self._groups: dict[str, None] = {}
        """Groups that changed since the last record; `_topics` are the topics."""
        self._end = LogOffset(0)
        self._recording: asyncio.Future[LogOffset] | None = None
        """Outcome of the next record, which has not begun."""
        self._is_recording = False
        self._is_taking = False
        self._failed_at: LogOffset | None = None
        """The record that is known not to be taken over: said once."""
        self._held_back = False
        self._replies = TableReplies()

    @property
    def locks(self) -> ChangeTrackingLocks:
        return self._tables.locks

    def _replay(self, ready: Callable[[], None] = lambda: None) -> Replay:
        return Replay(lambda: self.position.log_offset, self._on_replayed, ready, wanted=SkipFilter())

    # --- a follower --------------------------------------------------------------------------

    def follower_feature(self) -> Feature:
        return Feature(
            "shared tables",
            dispatchers=(Dispatcher(self.on_message, topics=frozenset({TOPIC})),),
            replays=(self._replay(),),
            state=(self._tables.locks, self.position),
        )

    def on_message(self, entry: DispatchEntry) -> None:
        """Queue a change record of the log; it is applied to the tables some steps later. The same record may come
        twice."""
        if is_table_change(entry):
            self._waiting.offsets.append(entry.log_offset)
            self._take_soon()

    def _on_replayed(self, entry: DispatchEntry) -> None:
        finish(self._taking(entry))

    def _taking(self, entry: DispatchEntry) -> Steps[None]:
        if is_table_change(entry):
            yield from self._taking_at(entry.log_offset)

    def _taking_at(self, log_offset: LogOffset) -> Steps[None]:
        message = self._store.message_at(log_offset)
        if message is None:
            log.error("change of tables unreadable log_offset=%d", log_offset)
        else:
            yield from taking_over(message.body, self._tables)

    def _take_soon(self) -> None:
        if self._waiting.offsets and not self._is_taking and not self._held_back:
            self._is_taking = True
            asyncio.get_running_loop().call_soon(lambda: self._slicer.run(self._taking_seen()))

    def _taking_seen(self) -> Steps[None]:
        log_offset = None
        try:
            while self._waiting.offsets and not self._held_back:
                waiting = self._waiting.offsets
                log_offset = waiting[0]
                for _ in self._taking_at(log_offset):
                    yield
                    if (
                        self._held_back or self._waiting.offsets is not waiting
                    ):  # all of them are seen once more
                        break
                else:
                    waiting.popleft()
        except (
            Exception
        ):  # the tables stay as they are, and what is known of them, until the next record comes
            if log_offset != self._failed_at:
                log.exception("change of tables not taken over log_offset=%d", log_offset)
            self._failed_at = log_offset
        finally:
            self._is_taking = False

    def copying_tables(
        self, following: Steps[None], at: LogOffset, is_valid: Callable[[], bool]
    ) -> Steps[None]:
        """Copy the leader's tables as they were at `at` (`following` does the copying), then apply all records since.
        What comes meanwhile waits. No longer than `is_valid`; who gave up claims to have no more than before, and
        no more than what was told."""
        self._waiting.joined_until = min(self.position.end(), at)
        self._held_back = True
        try:
            for _ in following:
                yield
                if not is_valid():
                    return
            self._waiting.offsets = deque()  # they are among the records
            for entry in self._store.scan(at):
                yield from self._taking(entry)
                yield
                if not is_valid():
                    return
            self._waiting.joined_until = None
            self.position.become_whole()
            self._changes()  # they are the leader's to record
        finally:
            self._held_back = False
            self._take_soon()

    # --- the leader --------------------------------------------------------------------------

    def leader_feature(self) -> Feature:
        return Feature(
            "shared tables",
            replays=(self._replay(self._watch),),
            services=(Periodic("record changes of tables", RECORD_S, self._record_or_wait),),
            state=(self._tables.locks, self.position),
        )

    def _watch(self) -> None:
        """Begin to note changes of topics and groups, called after the replay; what the replay changed is
        discarded."""
        self.position.become_whole()
        self._changes()
        self._tables.topics.on_change.append(self._topic_changed)
        self._tables.groups.on_change.append(lambda name: self._groups.update({name: None}))

    def _topic_changed(self, change: TopicChange) -> None:
        name = change.topic.name
        self._topics[name] = None
        if change.kind is ChangeKind.CREATED:  # in the log before its first message
            try:
                for body in records_of(Changes(topics={name: None}), self._tables, bytes_max=1):
                    self._append(body)
            except StoreRefused as refused:
                log.debug("new topic not recorded topic=%s reason=%s", name, refused)
            else:
                if not self._is_recording:  # a record that is being made may say what it was before
                    self._topics.pop(name, None)

    def handler(
        self, handler: Handler, confirmed: Callable[[LogOffset, Callable[[int], None]], None]
    ) -> Handler:
        """The handler, answering when the in-sync set has what was changed. `confirmed` calls back with a code."""

        async def shared(command: Command, connection: Connection) -> Command | None:
            refusal = self._store.refusal
            if refusal is not None:
                raise RequestRefused(
                    ResponseCode.SERVICE_NOT_AVAILABLE, f"nothing can be changed now: {refusal}"
                )
            answer: Command | Awaitable[Command | None] | None = handler(command, connection)
            if isawaitable(answer):
                answer = await answer
            if command.is_oneway:
                return None
            try:
                end = await self._recorded()
            except StoreRefused as refused:
                raise RequestRefused(ResponseCode.SERVICE_NOT_AVAILABLE, str(refused)) from None
            waited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            confirmed(end, lambda code: None if waited.done() else waited.set_result(code))
            if await waited != ResponseCode.SUCCESS:
                raise RequestRefused(ResponseCode.SYSTEM_ERROR, OUTCOME_UNKNOWN)
            assert answer is None or isinstance(answer, Command)
            return answer

        return shared

    def locks_handler(self, handler: Handler) -> Handler:
        """A handler that tells tables by their names, and the locks as they are now."""
        locks = self._tables.locks

        def tell(command: Command, connection: Connection) -> Command | Awaitable[Command | None] | None:
            if command.ext.get("name") != ChangeTrackingLocks.file_name:
                return handler(command, connection)

            def steps() -> Steps[Command]:
                return reply(command, body=(yield from locks.encoding()))

            return self._replies.run(steps(), len(locks))

        return tell

    async def _recorded(self) -> LogOffset:
        """Record all pending changes in the log; the log offset behind that record. Requests of one loop turn share
        one record."""
        if self._recording is None:
            loop = asyncio.get_running_loop()
            self._recording = loop.create_future()
            loop.call_soon(self._record_for_all)
        return await asyncio.shield(self._recording)

    def _record_for_all(self) -> None:
        if self._recording is not None and not self._is_recording:
            recording, self._recording = self._recording, None
            self._begin(recording)

    def _record_or_wait(self) -> None:
        """Record pending changes if none are being recorded; unlike `_recorded`, nobody waits for the result."""
        if not self._is_recording:
            self._begin(None)

    def _begin(self, recording: "asyncio.Future[LogOffset] | None") -> None:
        self._is_recording = True
        self._slicer.run(self._record(recording))

    def _record(self, recording: "asyncio.Future[LogOffset] | None") -> Steps[None]:
        """Bring all that has changed by now into the log, and tell where its last record ends. StoreRefused, and all
        stays noted."""
        changes = self._changes()
        failed: StoreRefused | None = None
        try:
            if changes and (refusal := self._store.refusal) is not None:
                raise StoreRefused(refusal.reason, str(refusal))
            for body in records_of(changes, self._tables, bytes_max=self._record_bytes):
                self._append(body)
                yield
        except StoreRefused as refused:
            failed = refused
            log.debug("changes of tables wait reason=%s", refused)
        except Exception as error:
            failed = StoreRefused(
                StoreRefused.NOT_WRITABLE, f"changes of tables could not be recorded: {error}"
            )
            log.exception("changes of tables not recorded")
        if failed is not None:
            self._note_again(changes)
        self._is_recording = False
        if recording is not None and not recording.done():
            if failed is None:
                recording.set_result(self._end)
            else:
                recording.set_exception(failed)
        if self._recording is not None:
            asyncio.get_running_loop().call_soon(self._record_for_all)

    def _append(self, body: bytes | None) -> None:
        if body is not None:
            message = table_change(body, now_ms=self._clock.now_ms(), host=self._host)
            self._end = self._store.append(message).end

    def _changes(self) -> Changes:
        """Take all changes noted since the last call and clear the notes."""
        offsets, locks = self._tables.offsets, self._tables.locks
        changes = Changes(offsets.changed, offsets.begun_anew, locks.changed, self._topics, self._groups)
        offsets.changed, offsets.begun_anew, locks.changed = set(), set(), {}
        self._topics, self._groups = {}, {}
        return changes

    def _note_again(self, changes: Changes) -> None:
        """Put changes back that could not be recorded; newer changes of the same keys win. Recording twice is
        harmless."""
        offsets, locks = self._tables.offsets, self._tables.locks
        offsets.changed |= changes.offsets
        offsets.begun_anew |= changes.begun_anew
        locks.changed = {**changes.locks, **locks.changed}
        self._topics = {**changes.topics, **self._topics}
        self._groups = {**changes.groups, **self._groups}
